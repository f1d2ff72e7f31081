"""Following runs that are open in a browser: updates their indexes and publishes changes.

Files are checked once a second, and only those of runs that were requested. While the list of runs is open in a
browser, the rows of all others are checked every few seconds, without an index. The run itself is not involved. Marks
are published from here, whichever program set them: another server, the command line, or a page of this server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time

import msgspec
from anyio import to_thread

from rollout.core.errors import RolloutError, describe_error
from rollout.viewer.answers.runs import IndexState, RunRow
from rollout.viewer.hub import Event
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.server import Viewer

log = logging.getLogger(__name__)
EVERY = 1.0
"""Seconds between two checks of the files."""
LISTED_EVERY = 5.0
"""Seconds between two looks at all runs on disk, at least."""
MOST_MARKS = 20
"""Changed marks that are published one by one. More are one event without data."""


class _Published(msgspec.Struct):
    """What was published of a run."""

    row: RunRow | None = None
    marks: int | None = None
    """The version of its marks; None before the first look."""
    problem: str | None = None
    """The last error, which is logged once."""


async def follow(viewer: Viewer) -> None:
    """Follow until cancelled."""
    shown: dict[str, _Published] = {}
    looked = -math.inf
    while True:
        listed: list[OpenRun] = []
        if viewer.hub.hears_all and time.monotonic() - looked >= LISTED_EVERY:
            listed = await _look(viewer)
            looked = time.monotonic()
        wanted = [run for run in viewer.runs.opened() if run.index.is_wanted]
        for run in dict.fromkeys([*wanted, *listed]):
            seen = shown.setdefault(run.name, _Published())
            try:
                await to_thread.run_sync(_follow_run, viewer, run, seen, abandon_on_cancel=True)
            except Exception as error:  # noqa: BLE001 - one run must not end the server, or the following of others
                _report(run, seen, error)
        # No notification of file changes works on every system.
        await asyncio.sleep(EVERY)


async def _look(viewer: Viewer) -> list[OpenRun]:
    try:
        return await to_thread.run_sync(viewer.runs.look, abandon_on_cancel=True)
    except OSError as error:
        log.warning("the runs cannot be listed: %s", describe_error(error))
        return []


def _report(run: OpenRun, shown: _Published, error: Exception) -> None:
    is_known = isinstance(error, RolloutError)
    before, shown.problem = shown.problem, str(error) if is_known else describe_error(error)
    if shown.problem != before:
        log.warning("%s: %s", run.path, shown.problem, exc_info=None if is_known else error)


def _follow_run(viewer: Viewer, run: OpenRun, shown: _Published) -> None:
    def tell(state: IndexState) -> None:
        viewer.hub.publish(Event("index", run.name, state))

    if run.index.is_wanted:
        if run.index.is_behind:
            run.index.sync(tell)
        _tell_marks(viewer, run, shown)
    if not viewer.hub.listeners:
        return
    row = run.row()
    if row != shown.row:
        shown.row = row
        viewer.hub.publish(Event("run", run.name, row))


def _tell_marks(viewer: Viewer, run: OpenRun, shown: _Published) -> None:
    # Those in the index: a listener asks for them at once.
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
