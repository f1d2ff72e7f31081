"""The contract between an episode and what records it: the journal, or a sender to the machine that has the journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollout.core.messages import Image
from rollout.core.world import Snapshot
from rollout.trajectories.line import Head
from rollout.trajectories.sums import Sums
from rollout.trajectories.tree import NodeBody


class Finished(msgspec.Struct, frozen=True):
    """A finished trajectory, to be recorded."""

    dataset: str
    episode: int
    head: Head
    line: bytes
    is_failed: bool
    sums: Sums
    """What its episode added."""
    reward: float | None = None
    """None if it cannot be known."""


class Record(Protocol):
    """Takes nodes, finished trajectories, images and prompts. `put` and `finish` return a value for `settle`."""

    folder: Path
    """The run directory, whose blobs hold the images."""

    def put(self, episode: int, first_place: int, bodies: Sequence[NodeBody]) -> Any | None:
        """Add nodes, all or none of them. Returns None if there is nothing to wait for."""
        ...

    def finish(self, finished: Finished) -> Any:
        """Add a finished trajectory."""
        ...

    async def settle(self, batch: Any) -> None:
        """Wait until nodes or a trajectory are durable."""
        ...

    def keep_snapshot(self, episode: int, place: int, snapshot: Snapshot | None) -> None:
        """Keep the world's state after a node, for episodes that branch from there."""
        ...

    def keep_image(self, image: Image) -> None:
        """Write an image to the blobs."""
        ...

    def keep_blob(self, data: bytes) -> str:
        """Write a large text to the blobs. Returns its name."""
        ...
