"""Resources that the environments of a run share, such as worker processes and browsers.

An environment asks for a resource when it is opened. The first one that asks makes it, the others get the same object,
and all of them are closed when the run ends, the latest first. So nothing is started that no environment needs, and the
engine knows none of it by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from rollout.config.schema import Config


class Closable(Protocol):
    """A resource: it releases everything it holds when it is closed."""

    def close(self) -> Awaitable[None]: ...


R = TypeVar("R", bound=Closable)


class Resources:
    """An async context manager; use it around everything that environments open."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        """The run's configuration, for the sections that describe shared resources."""
        self._shared: dict[type[Any], Any] = {}
        self._held = contextlib.AsyncExitStack()

    @property
    def call_timeout(self) -> float:
        """Seconds that one tool call may take."""
        return self.config.timeouts.tool

    def share(self, kind: type[R], make: Callable[[], R]) -> R:
        """The run's one resource of this class. `make` is called where there is none yet."""
        if kind not in self._shared:
            self._shared[kind] = made = make()
            self._held.push_async_callback(made.close)
        found: R = self._shared[kind]
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._shared.clear()
        await self._held.__aexit__(kind, error, traceback)
