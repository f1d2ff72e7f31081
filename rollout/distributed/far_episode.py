"""An episode that runs on a worker. To the engine it is an episode like any other.

Where its worker dies it goes on at its last durable node, on another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollout.core.errors import BranchMismatch, ReplayMismatch, RolloutError
from rollout.core.world import Snapshot
from rollout.distributed.wire import Cancel, Cut, Start
from rollout.distributed.worker import BRANCH, CANCELLED, PAUSED, REPLAY
from rollout.engine.control import Control, Paused
from rollout.engine.observer import Observer
from rollout.engine.plan import AttemptSpec, Plan
from rollout.trajectories.line import Head
from rollout.trajectories.tree import Node, NodeBody, RolloutTree

if TYPE_CHECKING:
    from rollout.distributed.rank import Rank
    from rollout.distributed.ranks import Ranks

log = logging.getLogger(__name__)
MOST_LOSSES = 5
"""An episode whose workers died so often is left unfinished: it may be what kills them."""


class FarEpisode:
    """Grows one path, elsewhere. `run` once, then read `leaf`."""

    def __init__(
        self,
        ranks: Ranks,
        plan: Plan,
        attempt: AttemptSpec,
        tree: RolloutTree,
        start: Node,
        control: Control,
        observers: Sequence[Observer],
    ) -> None:
        self.id = attempt.id
        self.trajectory = attempt.trajectory
        self.leaf = start
        self.head: Head | None = None
        """What is on record of it, once it is finished."""
        self.snapshots: dict[int, Snapshot] = {}
        self._ranks = ranks
        self._plan = plan
        self._attempt = attempt
        self._tree = tree
        self._start = start
        self._control = control
        self._observers = observers
        self._bodies: list[NodeBody] = []
        self._rank: Rank | None = None
        self._is_cut = False
        self._over: asyncio.Future[tuple[str | None, str] | None] | None = None

    async def run(self, saved: Sequence[NodeBody] = ()) -> Head:
        """Have the path grown to its end. Raises as `Episode.run` does."""
        self._bodies = list(saved)
        losses = 0
        while self.head is None:
            ended = await self._run_once()
            if ended is not None:
                self._raise_for(*ended)
                break
            losses += 1
            if self.head is None and losses == MOST_LOSSES:
                raise RolloutError(f"{losses} workers died while they had it; it is left for the next command")
        assert self.head is not None
        for place, body in enumerate(self._bodies):
            self.leaf = self._tree.append(self.leaf, body, self.id, place)
            self.leaf.snapshot = self.snapshots.get(place)
        return self.head

    def cut(self) -> None:
        """End it where it stands, or before it begins: the run does not wait for it any more."""
        self._is_cut = True
        if self._rank is not None:
            self._rank.tell(Cut(self.id))

    async def _run_once(self) -> tuple[str | None, str] | None:
        """Run it on the next worker that has room; how it ended there, or None where that worker died."""
        rank = await self._ranks.place(self)
        self._rank = rank
        self._over = asyncio.get_running_loop().create_future()
        try:
            rank.tell(self._told(rank))
            return await self._over
        except asyncio.CancelledError:
            rank.tell(Cancel(self.id))
            raise
        finally:
            self._rank = None
            self._ranks.give_back(rank, self)

    def _told(self, rank: Rank) -> Start:
        path = self._start.path()[self._tree.trunk.depth + 1 :]
        bodies = tuple(node.body for node in path)
        acted = max((place for place, node in enumerate(path) if node.body.kind == "tool"), default=None)
        snapshot = None if acted is None else path[acted].snapshot
        return Start(
            self._plan.name,
            self._attempt,
            path=bodies,
            snapshots={} if acted is None or snapshot is None else {acted: snapshot},
            saved=tuple(self._bodies),
            images=self._ranks.images_for(rank, [*bodies, *self._bodies]),
            is_cut=self._is_cut,
        )

    def _raise_for(self, error: str | None, text: str) -> None:
        if error == PAUSED:
            raise Paused(f"paused: {self._control.reason}")
        if error == CANCELLED:
            raise Paused("cancelled")
        if error == BRANCH:
            raise BranchMismatch(text)
        if error == REPLAY:
            raise ReplayMismatch(text)
        if error is not None:
            raise RolloutError(text)

    # ---- told by its rank ---------------------------------------------------------------------------------------

    def grew(self, place: int, bodies: Sequence[NodeBody]) -> None:
        """Nodes were added, from this place on."""
        del self._bodies[place:]
        self._bodies.extend(bodies)
        for body in bodies:
            for observer in self._observers:
                observer.node_added(self._plan.name, self.trajectory, body)

    def end(self, error: str | None, text: str) -> None:
        """It is over on its worker."""
        if self._over is not None and not self._over.done():
            self._over.set_result((error, text))

    def lose(self) -> None:
        """Its worker is gone."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
