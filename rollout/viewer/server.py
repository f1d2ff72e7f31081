"""The state of a running server: its runs, their editors, and the hub of events."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from anyio import CapacityLimiter

from rollout.core.extras import installed_version
from rollout.pipelines.people.author import author_name
from rollout.pipelines.people.growth import Growth
from rollout.viewer.editor import RunEditor
from rollout.viewer.endpoint import Endpoint
from rollout.viewer.hub import Event, Hub
from rollout.viewer.open_runs import OpenRun, OpenRuns

PAGE = Path(__file__).parent / "page"
"""The files of the page, as they are built."""


class Viewer:
    """The state that all endpoints share."""

    def __init__(
        self,
        runs: OpenRuns,
        *,
        token: str,
        read_only: bool = False,
        page: Path = PAGE,
        config_file: Path | None = None,
    ) -> None:
        """`config_file` replaces the recorded configurations for growths."""
        self.runs = runs
        self._config_file = config_file
        self.token = token
        self.read_only = read_only
        self.page = page
        self.hub = Hub()
        self._endpoints: Sequence[Endpoint] = ()
        self._tasks: asyncio.TaskGroup | None = None
        self._editors: dict[str, RunEditor] = {}
        self.replaying = CapacityLimiter(1)
        """Held by the running replay, since each may start processes."""
        self.author = author_name()
        self.version = installed_version()

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The table of endpoints."""
        return self._endpoints

    def offer(self, endpoints: Sequence[Endpoint]) -> None:
        """Set the table of endpoints."""
        self._endpoints = tuple(endpoints)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Start. Background work becomes tasks of this group."""
        self._tasks = tasks

    def editor(self, run: OpenRun) -> RunEditor:
        """The editor of a run."""
        assert self._tasks is not None
        if run.name not in self._editors:
            self._editors[run.name] = RunEditor(run, self._tasks, functools.partial(self._tell, run), self._config_file)
        return self._editors[run.name]

    def _tell(self, run: OpenRun, growth: Growth) -> None:
        """Publish that a growth or a conversation changed."""
        self.hub.publish(Event("growth" if growth.part is None else "play", run.name, {"number": growth.number}))

    def stop(self) -> None:
        """Stop background work."""
        for editor in self._editors.values():
            editor.close()
        for run in self.runs.opened():
            run.index.stop()

    def close(self) -> None:
        """Release what is open."""
        self.runs.close()
