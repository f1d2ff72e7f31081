"""What came out of a run: every launched attempt under its status, and the counts add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class DatasetSummary(msgspec.Struct):
    """The sums of one dataset, over all commands that worked on it."""

    planned: int = 0
    finished: int = 0
    """completed + truncated + filtered + cut"""
    failed: int = 0
    unfinished: int = 0
    """planned, and neither finished nor failed: paused or never begun"""
    statuses: dict[str, int] = msgspec.field(default_factory=dict)
    stop_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    succeeded: int = 0
    scored: int = 0
    success_rate: float | None = None
    """succeeded / finished; failures of infrastructure do not count"""
    cost: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    generations: int = 0
    tool_calls: int = 0
    turns: int = 0

    def add(self, other: DatasetSummary) -> None:
        """Take another one's sums in."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                for key, number in theirs.items():
                    mine[key] = mine.get(key, 0) + number
            elif name != "success_rate":
                setattr(self, name, mine + theirs)

    def close(self) -> None:
        """Work out what follows from the sums."""
        self.unfinished = self.planned - self.finished - self.failed
        self.success_rate = self.succeeded / self.finished if self.finished else None


class Summary(msgspec.Struct):
    """The whole run and each dataset."""

    total: DatasetSummary
    datasets: dict[str, DatasetSummary]


def summarize(rows: Sequence[tuple[Any, ...]], planned: Mapping[str, int]) -> Summary:
    """Sum up the journal's counts (`Journal.counts`) for the datasets that were planned."""
    datasets = {name: DatasetSummary(planned=number) for name, number in planned.items()}
    for dataset, status, reason, number, succeeded, scored, cost, prompt, completion, generations, calls, turns in rows:
        if dataset not in datasets:
            continue
        found = datasets[dataset]
        found.statuses[status] = found.statuses.get(status, 0) + number
        found.stop_reasons[reason] = found.stop_reasons.get(reason, 0) + number
        if status == "failed":
            found.failed += number
        else:
            found.finished += number
            found.succeeded += succeeded
            found.scored += scored
        found.cost += cost
        found.prompt_tokens += prompt
        found.completion_tokens += completion
        found.generations += generations
        found.tool_calls += calls
        found.turns += turns
    total = DatasetSummary()
    for found in datasets.values():
        total.add(found)
        found.close()
    total.close()
    return Summary(total, datasets)
