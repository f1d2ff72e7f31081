"""The dry run's look at where a run would write: its run directory, its log, and the space that is left there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rollout.config.schema import Config
from rollout.core.errors import JournalError
from rollout.engine.plan import Plan
from rollout.pipelines.identity import refuse_other_run
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import JOURNAL, LOCK, find_run, lock_run
from rollout.store.writable import file_problem, folder_problem

LITTLE_SPACE = 1 << 28
"""Bytes left on the disk below which a run is warned of: a long one needs more."""


def check_places(config: Config, plans: Sequence[Plan], *, resume: bool) -> tuple[list[str], list[str]]:
    """The problems and the warnings of a run's own files. Writes nothing that stays."""
    problems, warnings = [], []
    if config.log_file is not None and (problem := file_problem(config.log_file)) is not None:
        problems.append(f"log_file: {problem}")
    if config.run_dir is not None:
        problems += _run_dir_problems(config.run_dir, plans, resume)
        if not problems and (left := _space_left(config.run_dir)) < LITTLE_SPACE:
            warnings.append(f"run_dir: only {left / 1e6:.0f} MB are left on the disk of {config.run_dir}; make room")
    return problems, warnings


def _run_dir_problems(run_dir: Path, plans: Sequence[Plan], resume: bool) -> list[str]:
    if run_dir.exists() and not run_dir.is_dir():
        return [f"run_dir: {run_dir} is a file; expected a folder. Choose another run_dir, or --output"]
    if (problem := folder_problem(run_dir)) is not None:
        return [f"run_dir: {problem}"]
    if not run_dir.exists():
        return []
    try:
        if (run_dir / LOCK).exists():
            os.close(lock_run(run_dir))
        if resume:
            return _resume_problems(run_dir, plans)
        if any(run_dir.iterdir()) and find_run(run_dir) != run_dir:
            raise JournalError(f"run_dir: {run_dir} is there and is not a run directory; choose another run_dir")
    except JournalError as error:
        return [str(error)]
    return []


def _resume_problems(run_dir: Path, plans: Sequence[Plan]) -> list[str]:
    """Why a run that was begun in a directory cannot go on with these datasets."""
    problems = []
    if (run_dir / JOURNAL).exists():
        with open_reader(run_dir) as reader:
            for plan in plans:
                try:
                    refuse_other_run(reader, plan, run_dir)
                except JournalError as error:
                    problems.append(str(error))
    return problems


def _space_left(path: Path) -> int:
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
