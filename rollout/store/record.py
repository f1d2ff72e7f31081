"""What an episode asks of the place that writes it down: the journal, or what sends it to the journal's machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollout.core.messages import Image
from rollout.core.world import Snapshot
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody


class Finished(msgspec.Struct, frozen=True):
    """A trajectory that is about to be written down."""

    dataset: str
    episode: int
    head: Head
    line: bytes
    is_failed: bool
    numbers: tuple[bool, float, int, int, int, int, int]
    """scored, cost, prompt tokens, completion tokens, generations, tool calls, turns"""


class Record(Protocol):
    """Takes nodes, ends, images and prompts. What `put` and `finish` return is for `settle` and nobody else."""

    folder: Path
    """Where images that were kept can be read."""

    def put(self, episode: int, first_place: int, bodies: Sequence[NodeBody]) -> Any | None:
        """Add nodes, all or none of them. None where there is nothing to wait for."""
        ...

    def finish(self, finished: Finished) -> Any:
        """Write a finished trajectory down."""
        ...

    async def settle(self, batch: Any) -> None:
        """Wait until what was put or finished is durable."""
        ...

    def keep_snapshot(self, episode: int, place: int, snapshot: Snapshot | None) -> None:
        """Take note of the world's state behind a node, for whoever branches from there."""
        ...

    def keep_image(self, image: Image) -> None:
        """Keep an image under its name."""
        ...

    def keep_blob(self, data: bytes) -> str:
        """Keep a large text under its hash; returns the name."""
        ...
