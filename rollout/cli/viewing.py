"""Serving the page for as long as a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import stat
import sys
import webbrowser
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra
from rollout.pipelines.runs.listing import RUNS

LONGEST_END = 10.0
"""Seconds that the server beside a run may take to end."""

if TYPE_CHECKING:
    from rich.console import Console


def refuse_missing_extra(command: str) -> None:
    """Raise ConfigError where the server's packages are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise missing_extra(command, "view")


async def show_runs(
    console: Console,
    names: Sequence[str],
    *,
    opens_browser: bool,
    while_stdin: bool = False,
    prefix: str = "",
    **options: Any,
) -> None:
    """Serve these runs until the command is ended. `while_stdin`: or until standard input is closed. Raises
    ConfigError."""
    refuse_missing_extra("rollout view")
    from rollout.viewer.open_runs import find_places

    if not names and not RUNS.is_dir():
        raise ConfigError(f"there is no folder {RUNS} here; name a run, or make one: rollout run default")
    places = find_places(names or [str(RUNS)])
    async with opened_page(console, places, opens_browser=opens_browser, prefix=prefix, **options):
        if not while_stdin:
            console.print("Ctrl-C ends it.", highlight=False)
        await wait_for_end(with_stdin=while_stdin)


@contextlib.asynccontextmanager
async def opened_page(
    console: Console, places: Sequence[Path], *, opens_browser: bool, **options: Any
) -> AsyncIterator[str]:
    """Serve these runs inside the block, and say where."""
    from rollout.viewer.serve import serving

    code = secrets.token_urlsafe(24) if opens_browser else None
    async with serving(places, code=code, **options) as address:
        console.print(f"Look at {address}", highlight=False, soft_wrap=True)
        if code is not None:
            # Not the token: other users can read the arguments of the browser's process.
            await asyncio.to_thread(webbrowser.open, f"{address.partition('?')[0]}?token={code}")
        yield address


@contextlib.asynccontextmanager
async def view_beside(console: Console, run_dir: Path) -> AsyncIterator[None]:
    """Show a run in a browser inside the block. The server is a process of its own, so it neither slows the run
    down nor ends it by a fault."""
    code = "from rollout.cli import main; main()"
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "view", str(run_dir), "--while-stdin"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C is for the run, which ends the server after it.
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(_repeat_lines(console, child.stdout))
            try:
                yield
            finally:
                reading.cancel()
    finally:
        child.stdin.close()
        try:
            async with asyncio.timeout(LONGEST_END):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


async def _repeat_lines(console: Console, lines: asyncio.StreamReader) -> None:
    while line := await lines.readline():
        console.print(line.decode(errors="replace").rstrip(), highlight=False, soft_wrap=True)


async def wait_for_end(*, with_stdin: bool) -> None:
    """Wait until the command is ended, or its standard input is closed."""
    if not with_stdin:
        await asyncio.Event().wait()
    if not _is_pipe(sys.stdin.fileno()):
        # A file or a device cannot be waited for; it is read to its end.
        while await asyncio.to_thread(os.read, sys.stdin.fileno(), 1024):
            pass
        return
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
