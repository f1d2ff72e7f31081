"""Serving the page for as long as a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import webbrowser
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra
from rollout.pipelines.runs.listing import RUNS

if TYPE_CHECKING:
    from rich.console import Console


def refuse_missing_extra(command: str) -> None:
    """Raise ConfigError where the server's packages are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise missing_extra(command, "view")


async def show_runs(
    console: Console, names: Sequence[str], *, opens_browser: bool, prefix: str = "", **options: Any
) -> None:
    """Serve these runs until the command is ended. Raises ConfigError."""
    refuse_missing_extra("rollout view")
    from rollout.viewer.open_runs import find_places

    if not names and not RUNS.is_dir():
        raise ConfigError(f"there is no folder {RUNS} here; name a run, or make one: rollout run default")
    places = find_places(names or [str(RUNS)])
    async with opened_page(console, places, opens_browser=opens_browser, prefix=prefix, **options):
        console.print("Ctrl-C ends it.", highlight=False)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def opened_page(
    console: Console, places: Sequence[Path], *, opens_browser: bool, **options: Any
) -> AsyncIterator[str]:
    """Serve these runs inside the block, and say where."""
    from rollout.viewer.serve import serving

    async with serving(places, **options) as address:
        console.print(f"Look at {address}", highlight=False, soft_wrap=True)
        if opens_browser:
            await asyncio.to_thread(webbrowser.open, address)
        yield address
