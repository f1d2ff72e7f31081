"""The states of a world during an attempt, as the page shows them."""

from __future__ import annotations

import asyncio

from rollout.core.errors import RolloutError
from rollout.core.messages import JSON
from rollout.pipelines.runs.states import replay_states
from rollout.viewer.answers.pages import States
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.trajectory_page import ReadTrajectory


def read_states(run: OpenRun, read: ReadTrajectory) -> States:
    """The states of an attempt, by replay, or a note that says why there are none. Uses an event loop of its own, so
    slow tools do not block the server."""
    if not read.nodes:
        return _none("The steps of this attempt were not kept, so nothing can be replayed.")
    try:
        found = asyncio.run(replay_states(run.path, read.dataset, read.trajectory))
    except RolloutError as error:
        return _none(f"There are no states: {error}")
    except Exception as error:  # noqa: BLE001 - what the run's own code raises is no mistake of the server
        return _none(f"There are no states: {type(error).__name__}: {error}")
    before: JSON = dict(found.before)
    return States(before=before, after=dict(found.after), changes=found.steps, note=found.note)


def _none(note: str) -> States:
    return States(before=None, after=None, changes=(), note=note)
