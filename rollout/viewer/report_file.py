"""A report from a run directory, without a server."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.pipelines.runs.find import TrajectoryWish, fitting_keys
from rollout.store.reading.reader import open_reader
from rollout.viewer.answers.rows import Key
from rollout.viewer.open_runs import OpenRun, short_name
from rollout.viewer.report import make_report


def find_keys(run_dir: Path, names: Sequence[str], wish: TrajectoryWish) -> tuple[list[Key], int]:
    """The trajectories that fit `wish`, of those with these names if names are given, and how many fit without its
    limit. Raises ConfigError if there are none."""
    with open_reader(run_dir) as journal:
        if names:
            found = []
            for name in names:
                keys = journal.find_keys(name, wish.datasets)
                if not keys:
                    raise ConfigError(f"{run_dir}: no trajectory and no task has the id {name!r} or one that begins so")
                fitting = fitting_keys(journal, keys, wish)
                if not fitting:
                    raise ConfigError(f"{run_dir}: no attempt at {name!r} is {wish.describe()}")
                found += fitting
            if wish.is_random:
                found = random.sample(found, len(found))
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
    chosen = list(dict.fromkeys(Key(key.dataset, key.id) for key in found))
    return chosen[: wish.most], len(chosen)


def report_of(run_dir: Path, keys: Sequence[Key]) -> bytes:
    """The report of these trajectories."""
    run = OpenRun(short_name(run_dir.resolve().name), run_dir, run_dir.parent)
    try:
        return make_report(run, keys)
    finally:
        run.close()
