"""The page of one run: its figures, what failed, and what its table can be filtered by; and the run over time.

All of it is read from the index, which follows the journal, and kept until the index changes.
"""

from __future__ import annotations

import bisect
from array import array
from collections import deque
from collections.abc import Sequence

import msgspec

from rollout.core.messages import JSON
from rollout.pipelines.runs.stats import DatasetStats, RunStats, read_stats
from rollout.store.run_file import recorded_part
from rollout.viewer.answers.runs import Facets, RunPage, Series
from rollout.viewer.index_figures import IndexFigures
from rollout.viewer.index_schema import BY_PEOPLE
from rollout.viewer.open_runs import OpenRun

NO_STATS = DatasetStats(
    name="all", attempts=0, statuses={}, stop_reasons={}, scored=0, solved=0, mean_reward=None, cost=0.0, turns=None,
    steps=None, tool_calls=None, tokens=None, seconds=None, latency=None, tools=(), causes=(),
)  # fmt: skip
MOST_STEPS_READ = 5_000
"""Attempts whose steps are counted for a page."""
POINTS = 200
WINDOW = 2_000
"""Answers whose latencies a point of a series is about."""


def read_run_page(run: OpenRun) -> RunPage:
    """The page of a run; that of one that cannot be read says so in its row and in the state of its index."""
    run.index.freshen()
    row = run.row()
    config: JSON = recorded_part(run.path, "config", dict) or {}
    empty = RunPage(
        row=row,
        total=NO_STATS,
        datasets=(),
        sampled=None,
        causes=(),
        filters={},
        ranks=(),
        index=run.index.state,
        facets=Facets(),
        config=config,
    )
    if not run.index.is_there:
        return empty
    figures = run.read_once("page", lambda: _read_figures(run), run.index.version)
    return msgspec.structs.replace(empty, **figures)


def _read_figures(run: OpenRun) -> JSON:
    with run.index.reading() as connection:
        figures = IndexFigures(run.path, connection)
        stats = read_stats(figures, most_steps=MOST_STEPS_READ) if figures.datasets() else RunStats(NO_STATS, (), None)
        return {
            "total": stats.total,
            "datasets": stats.datasets,
            "sampled": stats.sampled,
            "causes": tuple(figures.causes()),
            "filters": figures.filters(),
            "ranks": tuple(figures.ranks()),
            "facets": figures.facets(),
        }


class _Ended(msgspec.Struct, frozen=True):
    """One attempt, as a series counts it."""

    finished: float
    status: str
    success: bool
    scored: bool
    reward: float | None
    turns: int
    tool_calls: int
    tokens: int
    cost: float
    latencies: bytes


def read_series(run: OpenRun, dataset: str | None) -> Series:
    """A run, or one dataset of it, over time."""
    run.index.freshen()
    return run.read_once(f"series {dataset}", lambda: _read_series(run, dataset), run.index.version)


def _read_series(run: OpenRun, dataset: str | None) -> Series:
    where, values = (" AND dataset = ?", (dataset,)) if dataset else ("", ())
    with run.index.reading() as connection:
        rows = connection.execute(
            "SELECT finished, status, success, scored, reward, turns, tool_calls, tokens, own_cost, latencies "
            f"FROM attempts WHERE n < {BY_PEOPLE}{where} ORDER BY finished",
            values,
        )
        return make_series([_Ended(*row) for row in rows])


def make_series(ended: Sequence[_Ended]) -> Series:
    """The series of attempts, which are in the order in which they ended."""
    found: dict[str, list[float | None]] = {name: [] for name in Series.__struct_fields__}
    number = finished = failed = scored = solved = rewarded = 0
    reward = turns = calls = tokens = cost = 0.0
    latencies: deque[float] = deque(maxlen=WINDOW)
    times = [one.finished for one in ended]
    for moment in _moments(times):
        upto = bisect.bisect_right(times, moment)
        for one in ended[number:upto]:
            latencies.extend(array("f", one.latencies))
            cost += one.cost
            if one.status == "failed":
                failed += 1
                continue
            finished += 1
            scored += one.scored
            solved += bool(one.scored and one.success)
            if one.reward is not None:
                rewarded, reward = rewarded + 1, reward + one.reward
            turns, calls, tokens = turns + one.turns, calls + one.tool_calls, tokens + one.tokens
        number = upto
        ordered = sorted(latencies) if any(latencies) else []
        point = {
            "t": moment,
            "finished": finished,
            "failed": failed,
            "solved": _ratio(solved, scored),
            "mean_reward": _ratio(reward, rewarded),
            "turns": _ratio(turns, finished),
            "tool_calls": _ratio(calls, finished),
            "tokens": _ratio(tokens, finished),
            "cost": cost,
            "latency_p50": _share(ordered, 0.5),
            "latency_p90": _share(ordered, 0.9),
            "latency_p99": _share(ordered, 0.99),
        }
        for name, value in point.items():
            found[name].append(value)
    return Series(**{name: tuple(listed) for name, listed in found.items()})  # type: ignore[arg-type]


def _moments(times: Sequence[float]) -> list[float]:
    """At most so many moments, at equal distances, the last one at the end."""
    if not times:
        return []
    first, last = times[0], times[-1]
    count = min(POINTS, len(times))
    if count == 1 or first == last:
        return [last]
    return [first + (last - first) * place / (count - 1) for place in range(count - 1)] + [last]


def _ratio(part: float, of: float) -> float | None:
    return part / of if of else None


def _share(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)] if ordered else None
