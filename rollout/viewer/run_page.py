"""The page of one run: its figures, what failed, and what its table can be filtered by."""

from __future__ import annotations

from rollout.core.errors import RolloutError
from rollout.core.messages import JSON
from rollout.pipelines.runs.stats import DatasetStats, RunStats, read_stats
from rollout.store.run_file import recorded_part
from rollout.viewer.answers.runs import CauseCount, Facets, IndexState, RunPage
from rollout.viewer.open_runs import OpenRun

NO_STATS = DatasetStats(
    name="all", attempts=0, statuses={}, stop_reasons={}, scored=0, solved=0, mean_reward=None, cost=0.0, turns=None,
    steps=None, tool_calls=None, tokens=None, seconds=None, latency=None, tools=(), causes=(),
)  # fmt: skip
MOST_STEPS_READ = 2_000


def read_run_page(run: OpenRun) -> RunPage:
    """The page of a run; that of a damaged one says so in its row."""
    row = run.row()
    try:
        stats = run.read_once("stats", lambda: _read_stats(run))
    except RolloutError:
        stats = RunStats(NO_STATS, (), None)
    config: JSON = recorded_part(run.path, "config", dict) or {}
    return RunPage(
        row=row,
        total=stats.total,
        datasets=stats.datasets,
        sampled=stats.sampled,
        causes=tuple(CauseCount(cause.text, cause.text, cause.check, cause.count) for cause in stats.total.causes),
        filters={},
        ranks=(),
        index=IndexState(0, 0, False),
        facets=Facets(),
        config=config,
    )


def _read_stats(run: OpenRun) -> RunStats:
    with run.reading() as journal:
        return read_stats(journal, most_steps=MOST_STEPS_READ)
