"""The summary of a run: every launched attempt is counted under its status, and the counts add up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from rollout.core.messages import JSON
from rollout.distributed.rank_counts import RankCounts
from rollout.store.reading.counting import GroupCounts, StatusCounts
from rollout.trajectories.causes import Cause
from rollout.trajectories.passk import PassK, pass_table
from rollout.trajectories.stop import Status


class DatasetSummary(msgspec.Struct):
    """The sums of one dataset, over all commands that worked on it."""

    planned: int = 0
    finished: int = 0
    """completed + truncated + cut"""
    failed: int = 0
    not_needed: int = 0
    """planned at most, and never asked for: the strategy ended earlier, or enough groups were useful"""
    unfinished: int = 0
    """planned, needed, and neither finished nor failed: paused or never begun"""
    statuses: dict[str, int] = msgspec.field(default_factory=dict)
    stop_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    succeeded: int = 0
    success_rate: float | None = None
    """succeeded / finished; failures of infrastructure do not count"""
    scored: int = 0
    """finished, and something was checked"""
    solved: int = 0
    """scored, and succeeded"""
    solved_rate: float | None = None
    """solved / scored"""
    passed_but_truncated: int = 0
    """scored, and every deciding scorer passed, but a limit ended the attempt, so it is not solved"""
    unscored: int = 0
    """finished, and nothing was checked, or it could not be: neither solved nor unsolved"""
    pass_k: list[PassK] = msgspec.field(default_factory=list)
    """pass@k and pass^k, where tasks were attempted more than once"""
    groups: int = 0
    """tasks with a scored attempt"""
    useful_groups: int = 0
    """tasks whose attempts have different rewards: the others have nothing to teach by comparison"""
    replay_mismatches: int = 0
    """paths that started again: a replay was answered otherwise, a call on the way is irreversible, the task changed"""
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
            elif name not in ("success_rate", "solved_rate", "pass_k"):
                setattr(self, name, mine + theirs)

    def count(self, count: StatusCounts) -> None:
        """Take in the trajectories of one status and stop reason."""
        self.statuses[count.status] = self.statuses.get(count.status, 0) + count.trajectories
        self.stop_reasons[count.stop_reason] = self.stop_reasons.get(count.stop_reason, 0) + count.trajectories
        if count.status == Status.FAILED:
            self.failed += count.trajectories
        else:
            self.finished += count.trajectories
            self.succeeded += count.succeeded
            self.scored += count.sums.scored
            self.solved += count.solved
        self.cost += count.sums.cost
        self.prompt_tokens += count.sums.prompt_tokens
        self.completion_tokens += count.sums.completion_tokens
        self.generations += count.sums.generations
        self.tool_calls += count.sums.tool_calls
        self.turns += count.sums.turns

    def close(self, groups: Iterable[GroupCounts]) -> None:
        """Work out what follows from the sums, and from the attempts at each task."""
        groups = list(groups)
        self.unfinished = self.planned - self.not_needed - self.finished - self.failed
        self.success_rate = self.succeeded / self.finished if self.finished else None
        self.unscored = self.finished - self.scored
        self.solved_rate = self.solved / self.scored if self.scored else None
        self.groups = sum(group.scored > 0 for group in groups)
        self.useful_groups = sum(group.is_mixed for group in groups)
        table = pass_table((group.scored, group.solved) for group in groups)
        self.pass_k = table if len(table) > 1 else []


class DynamicSummary(msgspec.Struct, frozen=True):
    """What dynamic sampling came to, over the datasets of the last command."""

    wanted_groups: int
    useful_groups: int
    opened_tasks: int

    @property
    def is_short(self) -> bool:
        """Whether fewer groups are useful than were wanted."""
        return self.useful_groups < self.wanted_groups


class Summary(msgspec.Struct):
    """The whole run and each dataset."""

    total: DatasetSummary
    datasets: dict[str, DatasetSummary]
    dynamic: DynamicSummary | None = None
    """Where the last command sampled dynamically."""
    measured: dict[str, dict[str, JSON]] = {}
    """What `rollout.pipelines.wiring.measures` found, by measure and dataset."""
    failures: list[Cause] = []
    """Why attempts failed, the most frequent cause first."""
    unscored: list[Cause] = []
    """Why attempts that ended have no verdict. For the screen: metrics.json has only their number."""
    ranks: list[RankCounts] = []
    """Where the last command ran on a cluster: what each rank did."""

    def to_json(self) -> JSON:
        """What metrics.json holds: each measure is a section of its own."""
        ranks = {"ranks": [rank.to_json() for rank in self.ranks]} if self.ranks else {}
        dynamic = {"dynamic": self.dynamic} if self.dynamic is not None else {}
        failures = {"failures": self.failures} if self.failures else {}
        return {**self.measured, **ranks, **dynamic, **failures, "total": self.total, "datasets": self.datasets}


def summarize(
    counts: Iterable[StatusCounts],
    planned: Mapping[str, int],
    groups: Mapping[str, Collection[GroupCounts]],
    not_needed: Mapping[str, int] | None = None,
    begun_anew: Mapping[str, int] | None = None,
    truncated: Mapping[str, int] | None = None,
) -> Summary:
    """Sum up what the journal counts for the datasets that were planned. `not_needed`, `begun_anew` and `truncated`
    (`Journal.passed_but_truncated`) are numbers of each dataset."""
    spared, again, truncated = not_needed or {}, begun_anew or {}, truncated or {}
    datasets = {
        name: DatasetSummary(
            planned=number,
            not_needed=spared.get(name, 0),
            replay_mismatches=again.get(name, 0),
            passed_but_truncated=truncated.get(name, 0),
        )
        for name, number in planned.items()
    }
    for count in counts:
        if count.dataset in datasets:
            datasets[count.dataset].count(count)
    total = DatasetSummary()
    for found in datasets.values():
        total.add(found)
    for name, found in datasets.items():
        found.close(groups.get(name, ()))
    total.close([group for name in datasets for group in groups.get(name, ())])
    return Summary(total, datasets)
