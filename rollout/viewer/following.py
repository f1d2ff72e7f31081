"""Following runs that are open in a browser: updates their indexes and publishes changes.

Files are checked once a second, and only those of runs that were requested. The run itself is not involved.
"""

from __future__ import annotations

import asyncio
import logging

from anyio import to_thread

from rollout.core.errors import RolloutError
from rollout.viewer.answers.runs import IndexState, RunRow
from rollout.viewer.hub import Event
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.server import Viewer

log = logging.getLogger(__name__)
EVERY = 1.0
"""Seconds between two checks of the files."""


async def follow(viewer: Viewer) -> None:
    """Follow until cancelled."""
    shown: dict[str, RunRow] = {}
    while True:
        for run in viewer.runs.opened():
            if run.index.is_wanted:
                try:
                    await to_thread.run_sync(_follow_run, viewer, run, shown, abandon_on_cancel=True)
                except RolloutError as error:
                    log.warning("%s: %s", run.path, error)
        # No notification of file changes works on every system.
        await asyncio.sleep(EVERY)


def _follow_run(viewer: Viewer, run: OpenRun, shown: dict[str, RunRow]) -> None:
    def tell(state: IndexState) -> None:
        viewer.hub.publish(Event("index", run.name, state))

    if run.index.is_behind:
        run.index.sync(tell)
    if not viewer.hub.listeners:
        return
    row = run.row()
    if row != shown.get(run.name):
        shown[run.name] = row
        viewer.hub.publish(Event("run", run.name, row))
