"""Tools that tests offer to agents."""

from __future__ import annotations

import asyncio
import time

started: list[str] = []


async def echo(text: str) -> str:
    """Say it again."""
    return f"echo: {text}"


async def slow(text: str) -> str:
    """Never comes back in time."""
    await asyncio.sleep(3600)
    return text


async def boom(text: str) -> str:
    """Breaks."""
    raise RuntimeError(f"no {text} today")


def blocking(text: str) -> str:
    """Synchronous: blocks its thread for a moment."""
    time.sleep(0.01)
    return f"blocked for {text}"


LEAKED = "very-private-0123456789"


async def leak(text: str = "") -> str:
    """Says what it should keep to itself."""
    return f"the environment: TOKEN={LEAKED} and base64 dmVyeS1wcml2YXRlLTAxMjM0NTY3ODk="
