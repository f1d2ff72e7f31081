"""Groups for a consumer in the same program: `rollout.stream`."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

import msgspec

from rollout.api.arguments import Arguments, open_arguments
from rollout.api.engine_thread import POLL_SECONDS, EngineThread
from rollout.engine.engine import CONSUMER_LEFT, Engine
from rollout.engine.groups import Group


class _Ended(msgspec.Struct, frozen=True):
    error: BaseException | None = None


class Stream:
    """Groups of attempts, delivered as they are completed: see `rollout.stream`."""

    def __init__(self, arguments: Arguments, ahead: int, progress: bool) -> None:
        self._arguments = arguments
        self._progress = progress
        self._ahead = ahead
        self._thread: EngineThread | None = None
        self._groups: queue.SimpleQueue[Group | _Ended] = queue.SimpleQueue()
        self._asked = threading.Semaphore(0)
        self._is_left = False
        self._is_over = False
        """Whether the last group was taken."""
        self._async: contextlib.AsyncExitStack | None = None
        self._live: AsyncIterator[Group] | None = None
        self._weight_version: str | None = None
        self.engine: Engine | None = None
        """The engine, once it runs."""

    @property
    def weight_version(self) -> str | None:
        """The version of the agent's weights. A trainer sets it after each update: it is recorded with every answer
        that is asked for from then on, unless the server names a version itself."""
        return self._weight_version

    @weight_version.setter
    def weight_version(self, version: str | None) -> None:
        self._weight_version = version
        if self._thread is not None:
            self._thread.call(self._apply_version)
        else:
            self._apply_version()

    def _apply_version(self) -> None:
        if self.engine is not None:
            self.engine.control.weight_version = self._weight_version

    # ---- with and for -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._thread is not None or self._async is not None:
            raise RuntimeError("a stream is used once; call rollout.stream again for another one")
        self._thread = EngineThread(self._arguments.config.timeouts.grace)
        self._thread.start(self._produce)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._is_left = True
        self._thread.pause(CONSUMER_LEFT)
        self._asked.release()
        self._thread.leave()
        while kind is None:
            # What went wrong while no one was waiting must not be lost.
            try:
                left = self._groups.get_nowait()
            except queue.Empty:
                return
            if isinstance(left, _Ended) and left.error is not None:
                raise left.error

    def __iter__(self) -> Iterator[Group]:
        if self._thread is None or self._is_left:
            raise RuntimeError(
                "a stream is used inside of its block: with rollout.stream(…) as groups: for group in groups"
            )
        while not self._is_over:
            self._asked.release()
            found = self._take()
            if isinstance(found, _Ended):
                self._is_over = True
                if found.error is not None:
                    raise found.error
                return
            yield found

    def _take(self) -> Group | _Ended:
        while True:
            # In short waits, so that Ctrl-C is noticed.
            with contextlib.suppress(queue.Empty):
                return self._groups.get(timeout=POLL_SECONDS)

    async def _produce(self) -> None:
        """In the engine's thread: hand over a group whenever one is asked for."""
        error: BaseException | None = None
        try:
            async with open_arguments(self._arguments, self._progress) as opened:
                assert self._thread is not None
                self.engine = opened.engine
                self._thread.watch(opened.engine)
                self._apply_version()  # It may have been set before there was an engine.
                if self._is_left:
                    return
                async with contextlib.aclosing(opened.engine.stream(self._ahead)) as groups:  # type: ignore[type-var]
                    await self._wait_until_asked()
                    async for group in groups:
                        self._groups.put(group)
                        await self._wait_until_asked()
                        if self._is_left:
                            break
        except BaseException as raised:  # noqa: BLE001 - raised again by the consumer
            error = raised
        finally:
            self._groups.put(_Ended(error))

    async def _wait_until_asked(self) -> None:
        if not self._asked.acquire(blocking=False):
            await asyncio.to_thread(self._asked.acquire)

    # ---- async with and async for -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._thread is not None or self._async is not None:
            raise RuntimeError("a stream is used once; call rollout.stream again for another one")
        self._async = contextlib.AsyncExitStack()
        opened = await self._async.enter_async_context(open_arguments(self._arguments, self._progress))
        self.engine = opened.engine
        self._apply_version()
        self._live = await self._async.enter_async_context(
            contextlib.aclosing(opened.engine.stream(self._ahead))  # type: ignore[type-var]
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async is not None
        await self._async.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Group]:
        if self._live is None:
            raise RuntimeError("a stream is used inside of its block: async with rollout.stream(…) as groups")
        return self._live
