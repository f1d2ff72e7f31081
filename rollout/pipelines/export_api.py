"""`rollout.export`: trajectories that a program has, written for a trainer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rollout.pipelines.export import ExportTally, Wish, write_examples
from rollout.trajectories.exports.exporter import find_exporter
from rollout.trajectories.labels import Example, example_of
from rollout.trajectories.merging import Merged
from rollout.trajectories.trajectory import Trajectory


def export(
    trajectories: Iterable[Trajectory],
    *,
    format: str = "trl",
    path: str | os.PathLike[str],
    per_turn: bool = False,
    drop_reasoning: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> int:
    """Write trajectories in the format of a trainer, and return the number of records.

    `format` is one of those of `rollout export` (trl, sharegpt, openai, parquet, …) or `module:Name`. All trajectories
    that are given are written, whatever became of them: choose before. Equal ones are written once. With `per_turn`
    each turn is a record of its own, `fields` are put into every record.

    Raises `ConfigError` where the format is unknown or nothing would be written. A file that is there is replaced when
    the new one is whole.
    """
    wish = Wish(find_exporter(format), per_turn=per_turn, drop_reasoning=drop_reasoning, fields=dict(fields or {}))
    tally = ExportTally()
    write_examples(_examples(trajectories, tally), wish, Path(path), tally)
    return sum(tally.files.values())


def _examples(trajectories: Iterable[Trajectory], tally: ExportTally) -> Iterator[Example]:
    merged = Merged()
    for trajectory in trajectories:
        tally.read += 1
        admitted = merged.admit(example_of(trajectory), trajectory.dataset or "run")
        if admitted is None:
            tally.drop("duplicate")
        else:
            yield admitted
