"""Distributions over a run: how long attempts are, which tools they use, what they cost, and why they ended.

Every figure comes from one pass over the journal, and only numbers are kept. What is said of steps (tools, latencies)
may be read from a sample of the attempts where a run is large; `sampled` then says of how many.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rollout.core.errors import ConfigError
from rollout.store.reading.counting import StatusCounts
from rollout.store.reading.figures import AttemptFigures, StepFigures, TaskFigures
from rollout.trajectories.causes import Cause, Causes
from rollout.trajectories.stop import Status

MOST_BINS = 10
MOST_STEPS_READ = 100_000
"""Attempts whose steps are read, unless all are asked for."""
ALL = "all"
"""The name under which the figures of all datasets together stand."""


class Bin(msgspec.Struct, frozen=True):
    """The values from `low` to `high`, both included where they are whole numbers."""

    low: float
    high: float
    count: int


class Distribution(msgspec.Struct, frozen=True):
    """Numbers by their size."""

    count: int
    mean: float
    least: float
    p50: float
    p90: float
    p99: float
    most: float
    bins: tuple[Bin, ...]


class ToolUse(msgspec.Struct, frozen=True):
    """The calls of one tool."""

    name: str
    calls: int
    errors: int

    @property
    def error_rate(self) -> float:
        return self.errors / self.calls if self.calls else 0.0


class DatasetStats(msgspec.Struct, frozen=True, kw_only=True):
    """The distributions of one dataset, or of all."""

    name: str
    attempts: int
    """Recorded attempts, failed ones included. Failed ones count in `statuses`, `stop_reasons` and `causes` only."""
    statuses: dict[str, int]
    stop_reasons: dict[str, int]
    scored: int
    solved: int
    mean_reward: float | None
    cost: float
    turns: Distribution | None
    steps: Distribution | None
    tool_calls: Distribution | None
    tokens: Distribution | None
    """Prompt and completion tokens of an attempt; None where no server counted any."""
    seconds: Distribution | None
    latency: Distribution | None
    """Seconds of one request to the agent's model; None where its nodes were not kept or nothing took any time."""
    tools: tuple[ToolUse, ...]
    causes: tuple[Cause, ...]


class RunStats(msgspec.Struct, frozen=True):
    """The distributions of a run."""

    total: DatasetStats
    datasets: tuple[DatasetStats, ...]
    sampled: int | None
    """Of how many attempts the steps were read; None where all were."""


class FiguresSource(Protocol):
    """What figures are read from: a journal, or an index of one."""

    @property
    def path(self) -> Path: ...

    def datasets(self) -> list[str]: ...

    def attempt_figures(self) -> Iterator[AttemptFigures]: ...

    def step_figures(self, every: int = 1) -> Iterator[StepFigures]: ...

    def counts(self) -> list[StatusCounts]: ...

    def task_figures(self) -> list[TaskFigures]: ...


class _Sums:
    """What is collected of one dataset."""

    def __init__(self) -> None:
        self.turns = array("d")
        self.steps = array("d")
        self.calls = array("d")
        self.tokens = array("d")
        self.seconds = array("d")
        self.latency = array("d")
        self.tool_calls: Counter[str] = Counter()
        self.tool_errors: Counter[str] = Counter()
        self.causes = Causes()

    def add(self, attempt: AttemptFigures) -> None:
        if attempt.status == Status.FAILED:
            self.causes.add(attempt.error)
            return
        self.turns.append(attempt.turns)
        self.steps.append(attempt.steps)
        self.calls.append(attempt.tool_calls)
        self.tokens.append(attempt.prompt_tokens + attempt.completion_tokens)
        self.seconds.append(attempt.seconds)


def read_stats(
    journal: FiguresSource, datasets: Sequence[str] | None = None, most_steps: int | None = MOST_STEPS_READ
) -> RunStats:
    """The distributions of a run. `datasets`: only these; `most_steps`: of how many attempts the steps are read at
    most, None for all. Raises ConfigError for a dataset that is not there."""
    known = journal.datasets()
    unknown = [name for name in datasets or () if name not in known]
    if unknown:
        raise ConfigError(f"{journal.path.parent}: has no dataset {', '.join(unknown)}; there are: {', '.join(known)}")
    names = list(dict.fromkeys(datasets or known))
    sums = {name: _Sums() for name in names}
    number = 0
    for attempt in journal.attempt_figures():
        number += 1
        if attempt.dataset in sums:
            sums[attempt.dataset].add(attempt)
    every = 1 if most_steps is None else max(1, -(-number // most_steps))
    for step in journal.step_figures(every):
        found = sums.get(step.dataset)
        if found is None:
            continue
        if step.latency is not None:
            found.latency.append(step.latency)
        elif step.tool is not None:
            found.tool_calls[step.tool] += 1
            found.tool_errors[step.tool] += step.is_error
    counts, tasks = journal.counts(), journal.task_figures()
    stats = tuple(_stats_of(name, [name], sums, counts, tasks) for name in names)
    total = stats[0] if len(stats) == 1 else _stats_of(ALL, names, sums, counts, tasks)
    return RunStats(total, stats, None if every == 1 else -(-number // every))


def distribution(values: Iterable[float]) -> Distribution | None:
    """The distribution of these numbers; None if there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    least, most = ordered[0], ordered[-1]
    p50, p90, p99 = (_percentile(ordered, share) for share in (0.5, 0.9, 0.99))
    return Distribution(len(ordered), sum(ordered) / len(ordered), least, p50, p90, p99, most, _bins(ordered, p99))


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)]


def _bins(ordered: Sequence[float], p99: float) -> tuple[Bin, ...]:
    """Bins of equal width. The last one holds what is above the 99th percentile, so that one outlier does not put
    everything else into one bin."""
    least, most = ordered[0], ordered[-1]
    is_whole = all(float(value).is_integer() for value in ordered)
    if least == most:
        return (Bin(least, most, len(ordered)),)
    top = p99 if p99 > least else most
    if is_whole:
        width = max(1.0, float(-(-(top - least + 1) // MOST_BINS)))
        number = int((top - least) // width) + 1
    else:
        width, number = (top - least) / MOST_BINS, MOST_BINS
    counts = [0] * number
    above = 0
    for value in ordered:
        place = int((value - least) / width)
        if place < number:
            counts[place] += 1
        elif not is_whole and value <= top:
            counts[-1] += 1
        else:
            above += 1
    step = 1.0 if is_whole else 0.0
    bins = [Bin(least + place * width, least + (place + 1) * width - step, each) for place, each in enumerate(counts)]
    if above:
        bins.append(Bin(bins[-1].high + step, most, above))
    return tuple(bins)


def mean_reward(tasks: Iterable[TaskFigures]) -> float | None:
    """The mean over the attempts that have a reward; None where none has."""
    known = [(task.reward, task.rewarded) for task in tasks if task.reward is not None]
    return sum(mean * number for mean, number in known) / sum(number for _, number in known) if known else None


def _stats_of(
    name: str,
    names: Sequence[str],
    sums: dict[str, _Sums],
    all_counts: Sequence[StatusCounts],
    tasks: Sequence[TaskFigures],
) -> DatasetStats:
    counts = [count for count in all_counts if count.dataset in names]
    sound = [count for count in counts if count.status != Status.FAILED]
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for count in counts:
        statuses[count.status] += count.trajectories
        reasons[count.stop_reason] += count.trajectories
    parts = [sums[each] for each in names]
    calls: Counter[str] = sum((part.tool_calls for part in parts), Counter())
    errors: Counter[str] = sum((part.tool_errors for part in parts), Counter())
    causes = Causes()
    for part in parts:
        causes.include(part.causes)
    return DatasetStats(
        name=name,
        attempts=sum(statuses.values()),
        statuses=dict(statuses.most_common()),
        stop_reasons=dict(reasons.most_common()),
        scored=sum(count.sums.scored for count in sound),
        solved=sum(count.solved for count in sound),
        mean_reward=mean_reward(task for task in tasks if task.dataset in names),
        cost=sum(count.sums.cost for count in counts),
        turns=_joined(part.turns for part in parts),
        steps=_joined(part.steps for part in parts),
        tool_calls=_joined(part.calls for part in parts),
        tokens=_unless_zero(part.tokens for part in parts),
        seconds=_unless_zero(part.seconds for part in parts),
        latency=_unless_zero(part.latency for part in parts),
        tools=tuple(ToolUse(tool, number, errors[tool]) for tool, number in calls.most_common()),
        causes=tuple(causes.listed()),
    )


def _joined(parts: Iterable[array[float]]) -> Distribution | None:
    joined = array("d")
    for part in parts:
        joined.extend(part)
    return distribution(joined)


def _unless_zero(parts: Iterable[array[float]]) -> Distribution | None:
    """The distribution; None where every value is 0, because nothing was measured."""
    found = _joined(parts)
    return None if found is None or found.most == 0 else found
