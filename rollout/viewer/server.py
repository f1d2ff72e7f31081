"""What the server holds while it is up: the runs, who may do what, and the hub of events."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path

from anyio import CapacityLimiter

from rollout.core.extras import installed_version
from rollout.viewer.endpoint import Endpoint
from rollout.viewer.hub import Hub
from rollout.viewer.open_runs import OpenRuns

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
        self.replaying = CapacityLimiter(1)
        """Held by the replay that goes on: each may start processes."""
        self.author = login_name()
        self.version = installed_version()

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """Everything that can be asked."""
        return self._endpoints

    def offer(self, endpoints: Sequence[Endpoint]) -> None:
        """Say what can be asked."""
        self._endpoints = tuple(endpoints)

    def close(self) -> None:
        """Release what is open."""
        self.runs.close()


def login_name() -> str:
    """The name of who started the server."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
