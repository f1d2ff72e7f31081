"""Following the runs that are looked at: their indexes are kept up to date, and what changes is published.

Files are looked at once a second, and only of runs that were asked for. A run itself knows nothing of it. Marks are
published from here, whether another server, the command line, a program or a page of this server set them.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
from anyio import to_thread

from rollout.core.errors import RolloutError
from rollout.viewer.answers.runs import IndexState, RunRow
from rollout.viewer.hub import Event
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.server import Viewer

log = logging.getLogger(__name__)
EVERY = 1.0
"""Seconds between two looks at the files."""
MOST_MARKS = 20
"""Changed marks that are published one by one. More are one event without data."""


class _Shown(msgspec.Struct):
    """What was published of a run."""

    row: RunRow | None = None
    marks: int | None = None
    """The version of its marks; None before the first look."""


async def follow(viewer: Viewer) -> None:
    """Follow until cancelled."""
    shown: dict[str, _Shown] = {}
    while True:
        for run in viewer.runs.opened():
            if run.index.is_wanted:
                seen = shown.setdefault(run.name, _Shown())
                try:
                    await to_thread.run_sync(_follow_run, viewer, run, seen, abandon_on_cancel=True)
                except RolloutError as error:
                    log.warning("%s: %s", run.path, error)
        # Nothing tells of a change of a file on every system.
        await asyncio.sleep(EVERY)


def _follow_run(viewer: Viewer, run: OpenRun, shown: _Shown) -> None:
    def tell(state: IndexState) -> None:
        viewer.hub.publish(Event("index", run.name, state))

    if run.index.is_behind:
        run.index.sync(tell)
    _tell_marks(viewer, run, shown)
    if not viewer.hub.listeners:
        return
    row = run.row()
    if row != shown.row:
        shown.row = row
        viewer.hub.publish(Event("run", run.name, row))


def _tell_marks(viewer: Viewer, run: OpenRun, shown: _Shown) -> None:
    # Those in the index: a page asks for them as soon as it hears of them.
    version = run.index.marks_version
    if version == shown.marks:
        return
    before, shown.marks = shown.marks, version
    if before is None:
        return
    changes = run.mark_changes(before)
    changed = [*changes.removed, *changes.marks]
    if changes.is_whole or len(changed) > MOST_MARKS:
        viewer.hub.publish(Event("marks", run.name, None))
        return
    for mark in changed:
        viewer.hub.publish(Event("marks", run.name, mark))
