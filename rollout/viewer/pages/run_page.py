"""The page of one run: its figures, failures, filters for its table, and series over time.

All of it is read from the index, which follows the journal, and kept until the index changes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from rollout.core.messages import JSON
from rollout.pipelines.runs.stats import DatasetStats, RunStats, read_stats
from rollout.store.files.run_file import recorded_part
from rollout.viewer.answers.runs import Facets, RunPage, Series
from rollout.viewer.index.figures import IndexFigures
from rollout.viewer.index.schema import BY_PEOPLE
from rollout.viewer.open_runs import OpenRun

NO_STATS = DatasetStats(
    name="all", attempts=0, statuses={}, stop_reasons={}, scored=0, solved=0, mean_reward=None, cost=0.0, turns=None,
    steps=None, tool_calls=None, tokens=None, seconds=None, latency=None, tools=(), causes=(),
)  # fmt: skip
MOST_STEPS_READ = 5_000
"""The most attempts whose steps are counted for a page."""
POINTS = 200
WINDOW = 2_000
"""The number of answers whose latencies one point of a series summarizes."""


def read_run_page(run: OpenRun) -> RunPage:
    """The page of a run. If the run cannot be read, its row and the state of its index say why."""
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
    index, is_moving = run.index, run.is_moving
    figures = run.read_once("figures", lambda: _read_figures(run), index.attempts_version, is_moving=is_moving)
    facets = run.read_once("facets", lambda: _read_facets(run), index.version, is_moving=is_moving)
    return msgspec.structs.replace(empty, **figures, **facets)


def _read_figures(run: OpenRun) -> JSON:
    with run.index.reading() as connection:
        figures = IndexFigures(run.path, connection)
        stats = read_stats(figures, most_steps=MOST_STEPS_READ) if figures.datasets() else RunStats(NO_STATS, (), None)
        return {
            "total": stats.total,
            "datasets": stats.datasets,
            "sampled": stats.sampled,
            "causes": tuple(figures.causes()),
            "ranks": tuple(figures.ranks()),
        }


def _read_facets(run: OpenRun) -> JSON:
    with run.index.reading() as connection:
        figures = IndexFigures(run.path, connection)
        return {"filters": figures.filters(), "facets": figures.facets()}


class _EndedAttempt(msgspec.Struct, frozen=True):
    """The figures of one attempt that a series needs."""

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
    return run.read_once(
        f"series {dataset}", lambda: _read_series(run, dataset), run.index.attempts_version, is_moving=run.is_moving
    )


def _read_series(run: OpenRun, dataset: str | None) -> Series:
    where, values = (" AND dataset = ?", (dataset,)) if dataset else ("", ())
    with run.index.reading() as connection:
        which = f"FROM attempts WHERE n < {BY_PEOPLE}{where}"
        first, last, count = connection.execute(
            f"SELECT min(finished), max(finished), count(*) {which}", values
        ).fetchone()
        rows = connection.execute(
            "SELECT finished, status, success, scored, reward, turns, tool_calls, tokens, own_cost, latencies "
            f"{which} ORDER BY finished",
            values,
        )
        return _make_series((_EndedAttempt(*row) for row in rows), _moments(first, last, count))


def _make_series(ended: Iterable[_EndedAttempt], moments: Sequence[float]) -> Series:
    """The series of attempts, which are in the order in which they ended, and are not kept."""
    found: dict[str, list[float | None]] = {name: [] for name in Series.__struct_fields__}
    finished = failed = scored = solved = rewarded = 0
    reward = turns = calls = tokens = cost = 0.0
    latencies: deque[float] = deque(maxlen=WINDOW)
    coming = iter(ended)
    one = next(coming, None)
    for moment in moments:
        while one is not None and one.finished <= moment:
            now, one = one, next(coming, None)
            latencies.extend(array("f", now.latencies))
            cost += now.cost
            if now.status == "failed":
                failed += 1
                continue
            finished += 1
            scored += now.scored
            solved += bool(now.scored and now.success)
            if now.reward is not None:
                rewarded, reward = rewarded + 1, reward + now.reward
            turns, calls, tokens = turns + now.turns, calls + now.tool_calls, tokens + now.tokens
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


def _moments(first: float, last: float, number: int) -> list[float]:
    """At most `POINTS` moments, at equal distances, the last one at the end."""
    if not number:
        return []
    count = min(POINTS, number)
    if count == 1 or first == last:
        return [last]
    return [first + (last - first) * place / (count - 1) for place in range(count - 1)] + [last]


def _ratio(part: float, of: float) -> float | None:
    return part / of if of else None


def _share(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)] if ordered else None
