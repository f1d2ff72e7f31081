"""The states that a path goes through, by their keys: for advantages that compare steps from the same state.

A key is read when the world is open and after each round of calls, the agent's or the user's, and stands on a node. So
it is part of the record, comes back on resume, and is shared by all who branch from there.
"""

from __future__ import annotations

import logging

from rollout.core.errors import RolloutError, WorldError, describe_error
from rollout.core.world import World
from rollout.trajectories.tree import NodeBody

log = logging.getLogger(__name__)


class StateKeys:
    """The keys of one path. `of_steps` has, for each answer of the agent, the state that it started from."""

    def __init__(self, dataset: str, world: World, is_recorded: bool) -> None:
        self._dataset = dataset
        self._world = world
        self._is_recorded = is_recorded
        self._now: str | None = None
        self.of_steps: list[str | None] = []

    async def read(self) -> str | None:
        """The key of the state now. None where states are not recorded, and where this world cannot tell: then nothing
        can be compared with it, and the conversation goes on."""
        if not self._is_recorded:
            return None
        try:
            return await self._world.state_key()
        except WorldError as error:
            _warn_once(self._dataset, str(error))
        except RolloutError:
            raise
        except Exception as error:  # noqa: BLE001 - worlds of other people may raise anything
            _warn_once(self._dataset, f"{type(self._world).__name__}.state_key failed: {describe_error(error)}")
        return None

    def absorb(self, body: NodeBody) -> None:
        """Take in the next node of the path."""
        self._now = body.state_after(self._now)
        if body.kind == "generation":
            self.of_steps.append(self._now)


_warned: set[str] = set()


def _warn_once(dataset: str, why: str) -> None:
    """Reported once for each dataset."""
    if dataset not in _warned:
        _warned.add(dataset)
        log.warning("%s: record_states: a state has no key: %s", dataset, why)
