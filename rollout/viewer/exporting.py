"""Exports of a selection: the trajectories of a query, or named ones, in the format of a trainer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rollout.api.export import export
from rollout.core.errors import ConfigError
from rollout.trajectories.exports.exporter import BUILT_IN
from rollout.trajectories.line import encode_line
from rollout.trajectories.trajectory import Trajectory
from rollout.viewer.answers.rows import Key
from rollout.viewer.index.queries import TrajectoryQuery, make_query
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.trajectory_page import read_trajectory

LINES = "jsonl"
"""The trajectories as their run saved them."""
FORMATS = (LINES, *BUILT_IN)
"""No plugin is named by a request: that would import code."""


class ExportSelection(TrajectoryQuery, frozen=True, kw_only=True):
    """A choice of trajectories: those of a query, or named ones."""

    keys: tuple[Key, ...] | None = None


def selected_keys(run: OpenRun, selection: ExportSelection) -> list[Key]:
    """The trajectories of a selection, in order."""
    if selection.keys is not None:
        return list(selection.keys)
    run.index.freshen()
    with run.index.reading() as connection:
        found = make_query(connection, selection)
        return [Key(*row) for row in connection.execute(*found.select("dataset, id"))]


def export_selection(run: OpenRun, selection: ExportSelection, form: str, *, per_turn: bool = False) -> Path:
    """Write a selection into a temporary file, which the caller removes. Raises ConfigError."""
    if form not in FORMATS:
        raise ConfigError(f"format: there is no {form[:50]!r} here; there are {', '.join(FORMATS)}")
    keys = selected_keys(run, selection)
    suffix = ".parquet" if form == "parquet" else ".jsonl"
    with tempfile.NamedTemporaryFile(prefix="rollout-export-", suffix=suffix, delete=False) as file:
        path = Path(file.name)
    try:
        if form == LINES:
            with path.open("wb") as output:
                for one in _read(run, keys):
                    output.write(encode_line(one, one.messages))
        else:
            export(_read(run, keys), format=form, path=path, per_turn=per_turn)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _read(run: OpenRun, keys: Sequence[Key]) -> Iterator[Trajectory]:
    for key in keys:
        yield read_trajectory(run, key.dataset, key.id).trajectory


class ExportWish(ExportSelection, frozen=True, kw_only=True):
    """A request for an export."""

    format: str = "trl"
    per_turn: bool = False
