"""Ctrl-C and SIGTERM, at every moment of a command.

`listening` installs one Python-level handler before a command is even imported, so it also runs while the command reads
files, queries the journal or imports packages, when no event loop would take a signal. What it does depends on what is
going on:

- Nothing is live (start-up, reading commands, writing the summary): the command is ended where it stands, by an
  exception in its own code or by cancelling its main task. Files that are written take their names only when they are
  whole, so nothing half-written is left.
- An engine runs (`pausing`): the first signal pauses it, which gives live episodes their grace; the second cuts them.

Two threads guard it. Python runs a handler only between two bytecodes, so a signal that arrives just before a system
call would wait for its end: one thread, woken by the signal itself, interrupts that call. The other makes sure that the
command ends even where that does not work, such as in a long call into C: it ends the process some seconds later. A run
survives that as it survives `kill -9`.

This module is imported before everything else, so it imports little itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
NUMBERS = (signal.SIGINT, signal.SIGTERM)
SOON = 2.0
"""Seconds within which a command ends that has nothing live, and any command after a second signal."""
SPARE = 5.0
"""Seconds beyond the grace of live work before the process is ended by force."""
PATIENCE = 1.0
"""Seconds after which a pause that the event loop has not noticed is acknowledged all the same."""
NUDGE = signal.SIGURG
"""Sent to the main thread to interrupt a system call. Programs ignore it unless they ask for it, and so do we."""
NUDGES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between a signal that the main thread has not noticed and each nudge."""
_PAUSING = "stopping: live work gets a short grace; press again to stop at once"


class Stopped(SystemExit):
    """A signal ended the command. Only clean-up runs while it propagates, and the process exits with its code."""


class Stoppable(Protocol):
    """Live work that can be asked to stop: an engine."""

    def pause(self, reason: str) -> None:
        """Begin nothing new."""
        ...

    def cut(self) -> None:
        """End what is live."""
        ...


class Signals:
    """The signals of this process while a command runs."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._task: asyncio.Task[Any] | None = None
        self._has_loop = False
        self._is_due = False
        """Whether a signal came while the event loop was opened or closed, and the command is to end after that."""
        self._live: Stoppable | None = None
        self._grace = 0.0
        self._say: Callable[[str], None] = _say
        self._is_acknowledged = False
        self._is_ending = False
        # Its `put` may be called from a signal handler, whatever the thread was doing.
        self._deadlines: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._arrivals, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)

    @property
    def exit_code(self) -> int | None:
        """What a shell expects of a command that was ended by a signal; None where none came."""
        return 128 + self.seen[0] if self.seen else None

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on an event loop of its own, as `asyncio.run` does. A signal cancels it."""
        import asyncio

        import uvloop

        from rollout.core.event_loop import ending_runner

        async def guarded() -> T:
            self._task = asyncio.current_task()
            self._take_arrivals()
            try:
                if self._is_due:
                    main.close()
                    raise Stopped(self.exit_code)
                return await main
            finally:
                self._task = None

        self._has_loop = True
        try:
            with ending_runner(uvloop.new_event_loop) as runner:
                result = runner.run(guarded())
        finally:
            self._has_loop = False
        if self._is_due:
            raise Stopped(self.exit_code)
        return result

    @contextlib.contextmanager
    def pausing(self, live: Stoppable, grace: float, say: Callable[[str], None]) -> Iterator[None]:
        """Inside, the first signal pauses `live`, and the second cuts it. `say` acknowledges the first."""
        self._live, self._grace, self._say = live, grace, say
        # Whoever was started meanwhile (Ray) may have replaced our handler by its own.
        self.install()
        try:
            yield
        finally:
            self._live = None

    def install(self) -> None:
        """Take the signals. Only the main thread of a process can."""
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                signal.signal(number, self._take)
            signal.signal(NUDGE, lambda number, frame: None)
            self._take_arrivals()

    def nudge(self) -> None:
        """Interrupt the main thread after each signal, in case it has not noticed. Runs in a thread of its own.

        A nudge that was not needed does no harm: an interrupted system call is begun again.
        """
        pauses: Iterator[float] = iter(())
        while True:
            if not select.select([self._arrivals], [], [], next(pauses, None))[0]:
                signal.pthread_kill(threading.main_thread().ident or 0, NUDGE)
                continue
            arrived = os.read(self._arrivals, 64)
            if not arrived:
                os.close(self._arrivals)
                return
            if set(NUMBERS).intersection(arrived):
                pauses = iter(NUDGES)
                if (task := self._task) is not None:
                    with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                        task.get_loop().call_soon_threadsafe(_notice)

    def watch(self) -> None:
        """End the process when a deadline is over. Runs in a thread of its own."""
        deadline = self._deadlines.get()
        if deadline is None:
            return
        if self._live is not None and len(self.seen) == 1:
            deadline = self._next_deadline(deadline, PATIENCE)
            if not self._is_acknowledged:
                _say(f"{_PAUSING} (the event loop is busy)")
                deadline = self._next_deadline(deadline, max(self._grace, SOON) - PATIENCE)
                if not self._is_acknowledged and len(self.seen) == 1:
                    # Nothing in the loop has moved for the whole grace, so there is nothing to wait for.
                    deadline = time.monotonic()
        while (left := deadline - time.monotonic()) > 0:
            deadline = self._next_deadline(deadline, left)
        os._exit(self.exit_code or 1)

    def let_go(self, handlers: dict[signal.Signals, Any]) -> None:
        """The command is over. Where a signal ended it, the rest of the process still has to end in time."""
        if not self.seen:
            self._deadlines.put(None)
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
        os.close(self._wakeup)

    def _take_arrivals(self) -> None:
        """Let each signal write its number into our pipe, also while an event loop runs, which has its own."""
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def _next_deadline(self, deadline: float, seconds: float) -> float:
        """Wait for a further signal: the later one is the more urgent."""
        with contextlib.suppress(queue.Empty):
            return min(deadline, self._deadlines.get(timeout=seconds) or deadline)
        return deadline

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.seen.append(number)
        if self._live is not None and self._task is not None:
            loop, is_first = self._task.get_loop(), len(self.seen) == 1
            self._deadlines.put(time.monotonic() + (self._grace + SPARE if is_first else SOON))
            loop.call_soon_threadsafe(self._pause if is_first else self._live.cut)
            return
        self._deadlines.put(time.monotonic() + SOON)
        if len(self.seen) == 1:
            _say("stopping")
        if self._task is None and self._has_loop:
            # Inside a callback of the loop's own, which would print the exception and go on.
            self._is_due = True
            return
        if self._is_ending:
            # It is on its way out, where one more exception could interrupt the handling of the first.
            return
        if self._task is None or _is_running(self._task):
            self._is_ending = True
            raise Stopped(self.exit_code)
        # Between two steps of the loop, or in another task: an exception would end up in the wrong place.
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _pause(self) -> None:
        self._is_acknowledged = True
        if self._live is not None:
            self._say(_PAUSING)
            self._live.pause(signal.Signals(self.seen[0]).name)


def _notice() -> None:
    """Nothing, in Python: what has to run for a handler to run."""


def _is_running(task: asyncio.Task[Any]) -> bool:
    import asyncio

    return asyncio.current_task(task.get_loop()) is task


def _say(text: str) -> None:
    """Straight to standard error: a handler may interrupt a print."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


_current: Signals | None = None


@contextlib.contextmanager
def listening() -> Iterator[Signals]:
    """Answer signals inside the block, which is a whole command. Blocks may be nested: the outermost one counts.

    Where a signal ended the command, the process exits as shells expect it, with 128 + its number.
    """
    global _current
    if _current is not None:
        yield _current
        return
    signals = _current = Signals()
    before = {number: signal.getsignal(number) for number in (*NUMBERS, NUDGE)}
    signals.install()
    for guard in (signals.nudge, signals.watch):
        threading.Thread(target=guard, name="rollout-signals", daemon=True).start()
    try:
        yield signals
    except (SystemExit, GeneratorExit):
        raise
    except BaseException:
        # Whatever it is after a signal, it came of it: groups of exceptions hold `Stopped`, tasks were cancelled.
        if signals.exit_code is None:
            raise
        sys.exit(signals.exit_code)
    finally:
        _current = None
        signals.let_go(before)
