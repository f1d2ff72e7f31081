"""The engine's side of the template process (`worker_main`), which forks worker processes.

Each message on the control socket is four bytes. A descriptor along with it asks for a worker that talks on that
descriptor, and the answer is its process id. Without one it is the id of a worker that was killed, and the answer is
its exit code. The template waits for no worker before it is asked to, so an id that the engine holds is never reused.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from rollout.core.errors import WorldError

SEND_TIMEOUT = 10.0
"""Seconds in which the template must take a message; it takes them in microseconds."""


class Template:
    """One template process. It ends with `close`, or with this process; its workers end with it."""

    program: ClassVar[Sequence[str]] = ("-m", "rollout.environments.domains.worker_main")
    """What Python runs. Benchmarks put something else here."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answers: collections.deque[asyncio.Future[int]] = collections.deque()
        self._received = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._control, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", *self.program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                # Nothing of ours. A fixed hash seed, so that sets come in the same order in every process.
                env={
                    "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
                    "PYTHONHASHSEED": "0",
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "LANG": "C.UTF-8",
                },
            )
        self._control.settimeout(SEND_TIMEOUT)
        self._loop.add_reader(self._control.fileno(), self._read)
        self.is_alive = True

    async def fork(self, connection: socket.socket) -> int:
        """A new worker that answers on the other end of `connection`; its process id."""
        answer = self._ask(lambda: socket.send_fds(self._control, [bytes(4)], [connection.fileno()]))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(self._discard)
            raise

    def reap(self, pid: int) -> asyncio.Future[int]:
        """Kill a worker and whatever is in its session; its exit code."""
        if self.is_alive:
            kill(pid)
        return self._ask(lambda: self._control.send(pid.to_bytes(4, "little")))

    def close(self) -> None:
        """End it, and with it all its workers."""
        if self.is_alive:
            self._end()

    def _discard(self, forked: asyncio.Future[int]) -> None:
        if not forked.cancelled() and forked.exception() is None and self.is_alive:
            self.reap(forked.result())

    def _ask(self, send: Callable[[], object]) -> asyncio.Future[int]:
        answer: asyncio.Future[int] = self._loop.create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._answers.append(answer)
        if self.is_alive:
            try:
                send()
            except OSError:
                self._end()
        else:
            self._fail()
        return answer

    def _read(self) -> None:
        try:
            received = self._control.recv(1 << 12)
        except OSError:
            received = b""
        if not received:
            self._end()
            return
        self._received += received
        while len(self._received) >= 4:
            number = int.from_bytes(self._received[:4], "little", signed=True)
            self._received = self._received[4:]
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_result(number)

    def _end(self) -> None:
        self.is_alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        self._child.kill()
        self._child.wait()
        self._fail()
        self._said.close()

    def _fail(self) -> None:
        if self._answers:
            words = self._last_words()
            for answer in self._answers:
                if not answer.done():
                    answer.set_exception(WorldError(f"the process for mock servers did not start: {words}"))
            self._answers.clear()

    def _last_words(self) -> str:
        if self._said.closed:
            return "it has ended"
        self._said.seek(0)
        text = self._said.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"exit code {self._child.returncode}"


def kill(pid: int) -> None:
    """End a worker and its session, whatever it does."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)
