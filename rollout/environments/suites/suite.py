"""The contract of a suite: tasks that others wrote, with everything that belongs to them.

A dataset that names a suite gets from it what it would else get from files and a domain: tasks, worlds, tools, policy,
user and scorers. The engine knows no suite by name; what a suite needs of it is in this contract.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rollout.config.models import User
from rollout.core.messages import JSON, Toolset
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.web.browsers import BrowserPool
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import Tasks

SeedOf = Callable[[Task], int]
"""The seed of a task's worlds."""


class Suite(Protocol):
    """A new implementation keeps this: the same parameters give the same suite, on every machine.

    It is made from the dataset's `suite_params` (see `MakeSuite`), before an episode starts, and never changes after
    that. Worlds hold an episode's state; a suite holds none.
    """

    @property
    def identity(self) -> JSON:
        """What must be the same for a run to be resumed: its version and parameters."""
        ...

    @property
    def tasks(self) -> Tasks:
        """Its tasks."""
        ...

    @property
    def toolset(self) -> Toolset:
        """All its tools."""
        ...

    @property
    def tools_of(self) -> Callable[[Task, int], Toolset] | None:
        """The tools that a task's agent is offered in a turn, as a function of nothing else; None: always `toolset`."""
        ...

    @property
    def policy(self) -> str | None:
        """The agent's system prompt, unless the dataset names a file."""
        ...

    @property
    def user(self) -> User | None:
        """The user that its tasks ask for; None where the dataset names one."""
        ...

    @property
    def user_guidelines(self) -> str | None:
        """What a model user is told beside the task's own brief, unless the dataset says otherwise."""
        ...

    @property
    def max_turns(self) -> int:
        """The suite's own limit, unless the dataset sets another."""
        ...

    @property
    def max_steps_per_turn(self) -> int:
        """The suite's own limit, unless the dataset sets another."""
        ...

    def make_world(self, timeout: float) -> World:
        """A world for one episode. `timeout`: seconds for one call."""
        ...

    def user_world(self, task: Task, world: World) -> World | None:
        """The tools that the user has beside the agent's world, where the task gives it any."""
        ...

    def scorers(self, seed_of: SeedOf, timeout: float) -> Sequence[Scorer]:
        """What says how well it went."""
        ...


@runtime_checkable
class NeedsBrowsers(Protocol):
    """A suite whose worlds are browsers."""

    def use_browsers(self, browsers: BrowserPool) -> Callable[[], Awaitable[None]]:
        """Take the run's browsers, before the first world is made. Returns what lets go of everything that the suite's
        worlds share. Raises ConfigError where there is no browser."""
        ...


MakeSuite = Callable[[Mapping[str, Any]], Suite]
"""What a suite's name stands for. Raises ConfigError, whose text begins with the parameter that is wrong."""
