"""A report from a run directory, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.pipelines.runs.find import TrajectoryWish
from rollout.store.reading.reader import open_reader
from rollout.viewer.answers.rows import Key
from rollout.viewer.open_runs import OpenRun, short_name
from rollout.viewer.report import make_report


def find_keys(run_dir: Path, names: Sequence[str], wish: TrajectoryWish) -> tuple[list[Key], int]:
    """The trajectories with these names, or those that fit `wish`, and how many fit without its limit. Raises
    ConfigError if there are none."""
    with open_reader(run_dir) as journal:
        if names:
            found = []
            for name in names:
                keys = journal.find_keys(name, wish.datasets)
                if not keys:
                    raise ConfigError(f"{run_dir}: no trajectory and no task has the id {name!r} or one that begins so")
                found += keys
        else:
            found = journal.choose_keys(
                datasets=wish.datasets,
                statuses=wish.statuses,
                is_unsolved=wish.is_unsolved,
                is_random=wish.is_random,
                most=None,
            )
    if not found:
        raise ConfigError(f"{run_dir}: no trajectory {wish.describe() or 'has ended yet'}")
    fitting = list(dict.fromkeys(Key(key.dataset, key.id) for key in found))
    return fitting if names else fitting[: wish.most], len(fitting)


def report_of(run_dir: Path, keys: Sequence[Key]) -> bytes:
    """The report of these trajectories."""
    run = OpenRun(short_name(run_dir.resolve().name), run_dir, run_dir.parent)
    try:
        return make_report(run, keys)
    finally:
        run.close()
