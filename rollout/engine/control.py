"""Control of a run: pausing it so that it can be resumed (a signal, the budget), and rare garbage collections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator

from rollout.core.errors import RolloutError


class Paused(RolloutError):
    """An episode was asked to stop where it stands. It is neither finished nor failed: resume goes on from here."""

    kind = "cancelled"


class Control:
    """Whether the run goes on. Episodes ask before everything that costs something."""

    def __init__(self, max_cost: float | None = None) -> None:
        self.max_cost = max_cost
        self.cost = 0.0
        self.reason: str | None = None
        self.cause: str | None = None
        """Why the run pauses, in words."""
        self._weight_version: str | None = None
        self._on_pause: list[Callable[[], None]] = []
        self._on_version: list[Callable[[], None]] = []

    @property
    def weight_version(self) -> str | None:
        """The version of the agent's weights, where a trainer says so: noted with every answer asked for from then on,
        unless the server names one itself."""
        return self._weight_version

    @weight_version.setter
    def weight_version(self, version: str | None) -> None:
        self._weight_version = version
        for call in self._on_version:
            call()

    @property
    def is_pausing(self) -> bool:
        return self.reason is not None

    def on_pause(self, call: Callable[[], None]) -> None:
        """Have `call()` made when a pause begins."""
        self._on_pause.append(call)

    def on_version(self, call: Callable[[], None]) -> None:
        """Call `call()` when the version of the weights changes."""
        self._on_version.append(call)

    def pause(self, reason: str, cause: str | None = None) -> None:
        """Start nothing new. Work that is under way finishes its present step. `cause` puts the reason into words."""
        if self.reason is None:
            self.reason = reason
            self.cause = cause
            for call in self._on_pause:
                call()

    def charge(self, cost: float) -> None:
        """Book what an answer cost; at the budget's end the run pauses."""
        self.cost += cost
        if self.max_cost is not None and self.cost >= self.max_cost:
            self.pause("max_cost", f"the models have cost ${self.cost:.4f}, and max_cost is ${self.max_cost:g}")

    def go_on(self) -> None:
        """Raise `Paused` where the run is pausing."""
        if self.reason is not None:
            raise Paused(f"paused: {self.reason}")


class Grace:
    """Cancels tasks that are still alive some time after a pause began."""

    def __init__(self, control: Control, seconds: float) -> None:
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False
        control.on_pause(self._start)

    def watch(self, task: asyncio.Task[None]) -> None:
        """Look after a task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cut(self) -> None:
        """End what is left, now."""
        self.is_over = True
        for task in list(self._tasks):
            task.cancel()

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.cut)


RARE = (50_000, 20, 50)
"""Thresholds of the garbage collector during a run. A full collection walks every live object (30 ms at 128 live
episodes), and nearly nothing here is cyclic garbage: records hold no cycles and are not tracked."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely inside the block, as before after it."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
