"""`rollout.export`: trajectories that a program has, written for a trainer."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rollout.api.runs import Run
from rollout.core.errors import ConfigError
from rollout.pipelines.export import ExportTally, Wish, write_examples
from rollout.trajectories.exports.exporter import Exporter, find_exporter
from rollout.trajectories.labels import Example, example_of
from rollout.trajectories.merging import Merged
from rollout.trajectories.trajectory import Trajectory

log = logging.getLogger(__name__)


def export(
    trajectories: Iterable[Trajectory] | Run,
    *,
    format: str | Exporter | type[Exporter] = "trl",
    path: str | os.PathLike[str],
    per_turn: bool = False,
    drop_reasoning: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> int:
    """Write trajectories in the format of a trainer, and return the number of records.

    `trajectories` may also be a whole run. `format` is one of those of `rollout export` (trl, sharegpt, openai,
    parquet, …), `module:Name`, or an exporter of your own. All given trajectories are written, failed ones included, so
    filter them first. Duplicates are written once, and a
    warning says what the format has no place for. With `per_turn` each turn is a record of its own, `fields` are
    put into every record.

    Raises `ConfigError` if the format is unknown or nothing would be written. An existing file is replaced once the new
    one is complete. A path without a suffix gets that of the format.
    """
    if isinstance(trajectories, Run):
        trajectories = trajectories.trajectories
    if isinstance(trajectories, Trajectory):
        trajectories = [trajectories]
    if fields is not None and not isinstance(fields, Mapping):
        raise ConfigError(f"fields: expected a dict, got {fields!r}")
    if Path(path).is_dir():
        raise ConfigError(f"path: {path} is a folder; expected the name of a file")
    wish = Wish(find_exporter(format), per_turn=per_turn, drop_reasoning=drop_reasoning, fields=dict(fields or {}))
    tally = ExportTally()
    write_examples(_examples(trajectories, tally), wish, Path(path), tally)
    for reason, count in tally.dropped.items():
        log.warning("export: left out: %d trajectories (%s)", count, reason)
    return sum(tally.files.values())


def _examples(trajectories: Iterable[Trajectory], tally: ExportTally) -> Iterator[Example]:
    merged = Merged()
    for trajectory in trajectories:
        if not isinstance(trajectory, Trajectory):
            raise ConfigError(f"trajectories: expected rollout.Trajectory objects, got {trajectory!r}")
        tally.read += 1
        admitted = merged.admit(example_of(trajectory), trajectory.dataset or "run")
        if admitted is None:
            tally.drop("duplicate")
        else:
            yield admitted
