"""A stdio server: a child process that speaks JSON-RPC, a message a line, over its standard streams.

The SDK has such a transport too, and ours keeps its shape. It differs where the other side cannot be trusted: a line
has a longest length and the output between two answers a largest sum, so that a server which floods us is stopped
before it costs memory or the time of other episodes; lines that are no messages are passed over; the last lines of the
error output are kept to find out why it died; and at the end the whole process group goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from rollout.core.secrets import excerpt
from rollout.environments.mcp.limits import (
    MAX_MESSAGE_BYTES,
    MAX_UNANSWERED_BYTES,
    MAX_UNANSWERED_MESSAGES,
    Streams,
)

log = logging.getLogger(__name__)
LAUNCH = Path(__file__).with_name("launch.py")
KEPT_ENVIRONMENT = ("LANG", "LC_ALL", "TMPDIR")
"""What a server sees of our environment beside what the SDK holds safe: HOME, LOGNAME, PATH, SHELL, TERM, USER."""
CHUNK = 1 << 16
QUEUE = 64
"""Messages to the server that wait to be written: the notice that a call was given up must not wait for a server that
reads nothing."""
STDERR_LINES = 10
STDERR_LINE_CHARS = 300
STDERR_LINE_BYTES = 16_384
"""Of a line that is read before secrets are removed and it is cut."""
STDERR_SECONDS = 0.5
"""How long its last words are waited for once it is gone: a process that left its group may hold the pipe open."""
LEAVE_SECONDS = 2.0
"""How long a server may take to end after its input did; then it is asked, then killed."""
TERM_SECONDS = 1.0


class ServerProcess:
    """One run of a stdio server. Enter `streams` once; `why_it_ended` and `last_words` tell about it afterwards."""

    def __init__(self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> None:
        self._command = command
        self._args = args
        self._cwd = cwd
        inherited = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        self._environment = {**get_default_environment(), **inherited, **env}
        self._process: asyncio.subprocess.Process | None = None
        self._words: deque[str] = deque(maxlen=STDERR_LINES)
        self._has_spoken = asyncio.Event()
        self._unanswered = 0
        self._unanswered_lines = 0
        self._flooded: str | None = None
        self._garbage = 0
        self.is_lost = False
        """Set before leaving `streams` where nothing of the server matters any more: it is killed without delay."""
        self.has_ended = False
        self.leave_seconds = 2 * LEAVE_SECONDS + TERM_SECONDS + 2 * STDERR_SECONDS

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Start the process; it is gone on leaving. Raises OSError where it cannot be started."""
        process = await self._spawn()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](QUEUE)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read, process.stdout, to_session)
                group.start_soon(self._read_stderr, process.stderr)
                group.start_soon(self._write, process.stdin, from_session, to_session)
                try:
                    yield from_server, to_server
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._stop(process)
                        with anyio.move_on_after(STDERR_SECONDS):
                            await self._has_spoken.wait()
                    group.cancel_scope.cancel()
        finally:
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()

    async def _spawn(self) -> asyncio.subprocess.Process:
        """Start the process. Where we are cancelled meanwhile, it is not left behind half started."""
        program = self._find_program()
        parent = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid())] if sys.platform == "linux" else []
        spawning = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *parent,
                program,
                *self._args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=self._cwd,
                # A group of its own: Ctrl-C is for us, and at the end the server goes with all that it started.
                start_new_session=True,
            )
        )
        try:
            self._process = await asyncio.shield(spawning)
        except asyncio.CancelledError:
            self.is_lost = True
            self._process = await spawning
            await self._stop(self._process)
            raise
        return self._process

    def why_it_ended(self) -> str:
        """What is known of the end, in words that are the same each time it ends so."""
        if self._flooded is not None:
            return self._flooded
        code = None if self._process is None else self._process.returncode
        if code is None:
            return "closed its output"
        return f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"

    def last_words(self) -> str:
        """The last lines of its error output, without secrets."""
        return "\n".join(self._words)

    def _find_program(self) -> str:
        """The program by its whole path, looked up as the server's environment has it, then beside our own Python: a
        server that is installed with us is found without an activated environment."""
        for place in (self._environment.get("PATH", os.defpath), str(Path(sys.executable).parent)):
            found = shutil.which(self._command, path=place)
            if found is not None:
                return os.path.abspath(found)
        raise FileNotFoundError(f"there is no program {self._command!r}")

    # ---- the three streams --------------------------------------------------------------------------------------

    async def _read(
        self,
        stdout: asyncio.StreamReader,
        to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    ) -> None:
        buffer = bytearray()
        try:
            while chunk := await stdout.read(CHUNK):
                self._spend(len(chunk))
                start = 0
                while (end := chunk.find(b"\n", start)) >= 0:
                    buffer += chunk[start:end]
                    await self._deliver(bytes(buffer), to_session)
                    buffer.clear()
                    start = end + 1
                buffer += chunk[start:]
                if len(buffer) > MAX_MESSAGE_BYTES:
                    raise _Flood(f"sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
        except _Flood as flood:
            self._flooded = str(flood)
            self._kill()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is closing; what is still sent is not read
        finally:
            self.has_ended = True
            await to_session.aclose()

    async def _deliver(self, line: bytes, to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception]) -> None:
        self._unanswered_lines += 1
        if self._unanswered_lines > MAX_UNANSWERED_MESSAGES:
            raise _Flood(f"wrote more than {MAX_UNANSWERED_MESSAGES:,} lines without an answer")
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage += 1
            if self._garbage == 1:
                text = excerpt(line.decode(errors="replace"), STDERR_LINE_CHARS)
                log.warning("%s writes lines that are no messages, such as %r; they are passed over", self, text)
            return
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._unanswered = self._unanswered_lines = 0
        await to_session.send(SessionMessage(message))

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        rest = b""
        try:
            while chunk := await stderr.read(CHUNK):
                self._spend(len(chunk))
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:STDERR_LINE_BYTES]
                self._words.extend(map(_shown, lines[-STDERR_LINES:]))
            if rest:
                self._words.append(_shown(rest))
        except _Flood as flood:
            self._flooded = str(flood)
            self._kill()
        finally:
            self._has_spoken.set()

    async def _write(
        self,
        stdin: asyncio.StreamWriter,
        from_session: anyio.abc.ObjectReceiveStream[SessionMessage],
        to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    ) -> None:
        try:
            async for item in from_session:
                stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
        except (OSError, RuntimeError):
            # It reads no more. Whoever waits for an answer learns it by the end of the stream.
            await to_session.aclose()

    def _spend(self, size: int) -> None:
        self._unanswered += size
        if self._unanswered > MAX_UNANSWERED_BYTES:
            raise _Flood(f"wrote more than {MAX_UNANSWERED_BYTES:,} bytes without an answer")

    # ---- the end ------------------------------------------------------------------------------------------------

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        if not self.is_lost and not await _ends(process, LEAVE_SECONDS):
            self._signal(signal.SIGTERM)
            await _ends(process, TERM_SECONDS)
        # Also where it ended by itself: what it started may still be there.
        self._kill()
        if not await _ends(process, LEAVE_SECONDS):
            log.warning("%s (process %d) cannot be killed", self, process.pid)
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def __str__(self) -> str:
        return f"MCP server {Path(self._command).name!r}"


def _shown(line: bytes) -> str:
    return excerpt(line[:STDERR_LINE_BYTES].decode(errors="replace"), STDERR_LINE_CHARS)


class _Flood(Exception):
    """More output than anybody has use for."""


async def _ends(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True
