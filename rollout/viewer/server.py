"""The state of a server while it is up: the runs, the desks where people work, and the hub of events."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from anyio import CapacityLimiter

from rollout.core.extras import installed_version
from rollout.pipelines.people.author import author_name
from rollout.pipelines.people.growth import Growth
from rollout.viewer.desk import Desk
from rollout.viewer.endpoint import Endpoint
from rollout.viewer.hub import Event, Hub
from rollout.viewer.open_runs import OpenRun, OpenRuns

PAGE = Path(__file__).parent / "page"
"""The files of the page, as they are built."""


class Viewer:
    """The state that all endpoints share."""

    def __init__(self, runs: OpenRuns, *, token: str, read_only: bool = False, page: Path = PAGE) -> None:
        self.runs = runs
        self.token = token
        self.read_only = read_only
        self.page = page
        self.hub = Hub()
        self._endpoints: Sequence[Endpoint] = ()
        self._tasks: asyncio.TaskGroup | None = None
        self._desks: dict[str, Desk] = {}
        self.replaying = CapacityLimiter(1)
        """Held by the replay that goes on: each may start processes."""
        self.author = author_name()
        self.version = installed_version()

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """Everything that can be asked."""
        return self._endpoints

    def offer(self, endpoints: Sequence[Endpoint]) -> None:
        """Say what can be asked."""
        self._endpoints = tuple(endpoints)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to work: what goes on in the background is a task of this group."""
        self._tasks = tasks

    def desk(self, run: OpenRun) -> Desk:
        """Where people work on a run."""
        assert self._tasks is not None
        if run.name not in self._desks:
            self._desks[run.name] = Desk(run, self._tasks, functools.partial(self._tell, run))
        return self._desks[run.name]

    def _tell(self, run: OpenRun, growth: Growth) -> None:
        """Tell everybody who looks that a growth, or a conversation, changed."""
        self.hub.publish(Event("growth" if growth.part is None else "play", run.name, {"number": growth.number}))

    def stop(self) -> None:
        """End what goes on in the background."""
        for desk in self._desks.values():
            desk.close()

    def close(self) -> None:
        """Release what is open."""
        self.runs.close()
