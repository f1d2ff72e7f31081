"""Saving an iteration of web rollouts as WebGym-compatible files: `.pt` and Parquet.

The journal is the one truth and the JSONL is the run's own output. The `.pt` and Parquet files are views of the journal
that can be rebuilt at any time: after the end of a run, after an interruption, after a kill. Each replaces the last of
its name once it is complete. They hold every trajectory on record: the finished ones in the order of the output, then
the failed ones, as far as they came.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.viewing import requests_of
from rollout.core.errors import ConfigError
from rollout.core.extras import install_command
from rollout.core.messages import JSON
from rollout.environments.web.steps import IMAGES, steps_of
from rollout.pipelines.inputs import Prompts, Source
from rollout.pipelines.wiring.measures import TaskInfo
from rollout.store.damage import DATA_ERRORS
from rollout.store.files.run_file import read_run_file
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.tasks.jsonl import TaskFile
from rollout.trajectories.exports.writing import replaced_together
from rollout.trajectories.labels import NoPrompt
from rollout.trajectories.line import SCHEMA_VERSION
from rollout.trajectories.pt import PtFile
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.web_parquet import WebParquet

_encode = msgspec.json.Encoder().encode


class Saved(msgspec.Struct, frozen=True):
    """What was saved."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and how to get it."""


def save_iteration(
    run_dir: Path,
    out_dir: Path,
    split: str,
    iteration: int,
    metadata: Mapping[str, Any],
) -> Saved:
    """Write `<split>_trajectories.pt.iteration<N>` and `<split>_trajectories.iteration<N>.parquet` into `out_dir`.

    `metadata` is what the `.pt` file says of itself, beside what is known here. The same run makes the same files.
    """
    name = f"{split}_trajectories"
    paths = [out_dir / f"{name}.pt.iteration{iteration}"]
    notes = []
    if _has_pyarrow():
        paths.append(out_dir / f"{name}.iteration{iteration}.parquet")
    else:
        notes.append(f"no Parquet was written, because pyarrow is not installed: {install_command('train')}")
    count = 0
    about: JSON = {
        **metadata,
        "split": split,
        "iteration": iteration,
        "run_dir": os.path.relpath(run_dir, out_dir),
        "schema_version": SCHEMA_VERSION,
    }
    with open_reader(run_dir) as reader, replaced_together(paths) as made, contextlib.ExitStack() as files:
        pt = files.enter_context(contextlib.closing(PtFile(made[0], about)))
        tables = [files.enter_context(contextlib.closing(WebParquet(path))) for path in made[1:]]
        for _, trajectory, steps in saved_steps(reader, run_dir):
            pt.write(steps)
            for table in tables:
                table.write(trajectory, steps)
            count += 1
        about["trajectories"] = count
        about["unfinished"] = _unfinished(reader, count)
    return Saved(tuple(paths), tuple(notes))


def saved_steps(reader: JournalReader, run_dir: Path) -> Iterator[tuple[str, Trajectory, list[JSON]]]:
    """Every trajectory on record as the files have it: its dataset, itself, its steps."""
    sent = _Sent(run_dir)
    for dataset in reader.datasets():
        known = _task_info(run_dir, dataset)
        for trajectory in reader.trajectories(dataset):
            info = None if known is None else known.of(trajectory.task_id)
            yield dataset, trajectory, steps_of(trajectory, info, prompts=sent.before(trajectory))


class _Sent:
    """The requests of a run, rebuilt from its lines and blobs."""

    def __init__(self, run_dir: Path) -> None:
        self._source = Source(run_dir, run_dir.name, run_dir)
        self._prompts = Prompts()

    def before(self, trajectory: Trajectory) -> list[str]:
        """The messages of the request before each answer, as JSON text, with images by their paths; nothing where the
        blob of the system prompt is there no more."""
        try:
            system = self._prompts.of(trajectory, self._source).system
        except NoPrompt:
            return []
        return [_encode(each).decode() for each in requests_of(trajectory, system, lambda name: f"{IMAGES}/{name}")]


def _task_info(run_dir: Path, dataset: str) -> TaskInfo | None:
    """The tasks of a dataset, from where run.json says that they are; None where they come from no file."""
    named: list[str] = []
    with contextlib.suppress(ConfigError, *DATA_ERRORS):
        named = msgspec.convert(read_run_file(run_dir)["datasets"][dataset]["tasks"], list[str])
    with contextlib.suppress(OSError):
        # A run that was moved may have taken its tasks with it.
        paths = [path if path.is_file() else run_dir / path.name for path in map(Path, named)]
        if paths and all(path.is_file() for path in paths):
            return TaskInfo(TaskFile(*paths))
    return None


def _unfinished(reader: JournalReader, recorded: int) -> int | None:
    """How many are still to be made; None where the run never came to say how many there are to be."""
    keys = [f"planned:{dataset}" for dataset in reader.datasets()]
    if any(reader.meta(key) is None for key in keys):
        return None
    return sum(map(reader.number, keys)) - recorded


def _has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None
