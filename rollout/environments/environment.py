"""The Environment contract: where a set of tasks is attempted.

An `Environment` describes: tasks, system prompt, defaults, how its runs are scored again. It holds nothing alive, so
the same description can be opened on several machines. `Environment.open` yields an `OpenEnvironment`, which owns
whatever its worlds share (worker processes, browsers, servers) and makes one world for each attempt.

The engine, the wiring, the monitor and the rescorer work with these two classes and know no environment by name. What
they have to know about an environment is in `Defaults` and `Traits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rollout.agents.monitor import MonitorRules
from rollout.config.models import AgentConfig, UserConfig, model_shorthand
from rollout.config.schema import Config
from rollout.core.errors import ConfigError, RolloutError, describe_error
from rollout.core.messages import JSON, Toolset
from rollout.core.plugins import Offers
from rollout.core.task import Task
from rollout.core.world import SeedOf, World, new_world, refuse_further_arguments, tools_of
from rollout.environments.empty import EmptyWorld, UnmadeWorld
from rollout.environments.resources import Resources
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.function import as_scorer
from rollout.scoring.judge import Judge
from rollout.scoring.rules import RuleBook
from rollout.scoring.scorer import Scorer
from rollout.scoring.standard import standard_scorers
from rollout.tasks.given import TasksLike, open_tasks
from rollout.tasks.jsonl import TaskFile
from rollout.tasks.source import Tasks
from rollout.trajectories.measure import MakeMeasure
from rollout.trajectories.trajectory import Trajectory

Rescoring = Literal["replay", "recorded", "trajectory"]
"""How finished trajectories are scored again: on a world to which their calls are made again; from the record, where
scorers that look at the live world keep what they said then; or from the trajectory alone."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that a dataset gets from its environment where it sets none itself."""

    user: UserConfig | None = None
    """Who the agent talks to."""
    is_user_fixed: bool = False
    """Whether a dataset may not name another user, because the tasks fix what the user says."""
    user_guidelines: str | None = None
    """Instructions for a model user, in addition to the task's brief."""
    max_turns: int | None = None
    """User messages in a conversation, at most."""
    max_steps_per_turn: int | None = None
    """Answers of the agent in one turn, at most."""
    reward: str | None = None
    """What an attempt is worth, by a rule of rewards."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of an environment that the rest of the engine acts on."""

    must_call: bool = False
    """Every answer of the agent has to call a tool, because there is no user to talk to."""
    do_tools_vary: bool = False
    """`OpenEnvironment.tools_for` depends on the task or the turn."""
    are_tools_found: bool = False
    """The tools are found by asking servers, so that a dry run lists them."""
    do_actions_name_tools: bool = True
    """Reference actions name tools of the toolset, so that a dry run can compare them."""
    do_scripts_go_on: bool = False
    """A scripted user says its next line whatever the agent did."""
    has_prompts: bool = False
    """`system_for` knows the prompts that `agent.prompt` chooses from."""
    images_only: str | None = None
    """Set where the agent is shown images only: the setting that makes it so, for warnings."""


class OpenEnvironment:
    """An environment in use. It makes worlds, and owns what they share."""

    rules: RuleBook = RuleBook()
    """What may differ between a reference and an attempt."""
    irreversible: Collection[str] = ()
    """Tools whose recorded calls are never made again, as the dataset says. Set when it is opened for a dataset."""

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        """All tools that an agent may be offered."""

    def tools_for(self, task: Task, turn: int) -> Toolset:
        """The tools that the agent is offered in a turn of a task: a function of nothing else."""
        return self.toolset

    def make_world(self, task: Task) -> World:
        """A new world for one attempt at a task. It is not opened yet."""
        raise NotImplementedError

    def user_world(self, task: Task, world: World) -> World | None:
        """A world with tools for the user, beside the agent's, where the task gives the user any."""
        return None

    def offered_name(self, name: str) -> str | None:
        """The name under which the agent is offered the tool that a reference action calls `name`; None: unknown."""
        return None

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        """The scorers of its trajectories. `judge` is the dataset's judge model, `seed_of` the seed of a task's worlds.

        By default the checks that a task can declare: the final state, the actions, what was told, milestones,
        minefields and assertions.
        """
        standard = standard_scorers(self.toolset, self.make_world, seed_of, self.rules, self.irreversible)
        return [*standard, AssertionScorer(judge)]

    async def check(self) -> list[str]:
        """Problems that would keep every world from being opened: code that does not load, servers that do not start.

        Called once, before the first attempt."""
        return []

    async def try_world(self, task: Task, seed: int) -> list[str]:
        """Problems that only a world in use shows. A dry run calls it with the first task; by default nothing is tried,
        because a world may cost a browser or a call to a server."""
        return []


class Environment:
    """Where a set of tasks is attempted: a description, without live state.

    An implementation keeps this: the same parameters give the same environment, on every machine, and nothing of it
    changes after it was made. Reading `tasks` and `open` may raise ConfigError.
    """

    def __init__(
        self,
        *,
        tasks: TasksLike,
        world: type[World] | Callable[[], World] | None = None,
        scorers: Sequence[Scorer | Callable[..., Any]] = (),
        system: str | None = None,
        name: str | None = None,
        user: Any = None,
        user_guidelines: str | None = None,
        max_turns: int | None = None,
        max_steps_per_turn: int | None = None,
        reward: str | Callable[[Trajectory], float | None] | None = None,
    ) -> None:
        """An environment from parts.

        `tasks` are `Task` objects, dicts with their fields, first messages, or the path of a JSONL file. `world` is a
        subclass of `World`, or a function that makes one; without it the agent can only talk. `scorers` decide how
        well it went; without them the checks that a task itself declares. `system` is the agent's system prompt.
        `user` is who the agent talks to, `reward` what an attempt is worth: as in a dataset, or the object itself. They
        and the limits hold unless a dataset sets others.
        """
        self.objects = Offers()
        self.name = name if name is not None else str(getattr(world, "__name__", "environment"))
        self.tasks = open_tasks(tasks, self.name)
        if not isinstance(tasks, str | os.PathLike) and len(self.tasks) == 0:
            raise ConfigError(f"{self.name}: tasks: there are none; expected at least one")
        self.defaults = Defaults(
            user=None if user is None else UserConfig.model_validate(model_shorthand(self._named(user))),
            user_guidelines=user_guidelines,
            max_turns=max_turns,
            max_steps_per_turn=max_steps_per_turn,
            reward=None if reward is None else self._named(reward),
        )
        for key, value in (("max_turns", max_turns), ("max_steps_per_turn", max_steps_per_turn)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigError(f"{self.name}: {key}: expected a number of at least 1, got {value!r}")
        if system is not None and not isinstance(system, str):
            raise ConfigError(f"{self.name}: system: expected the text of a system prompt, got {system!r}")
        if not isinstance(scorers, Sequence):
            raise ConfigError(f"{self.name}: scorers: expected a list of scorers, got {scorers!r}")
        self._world = world
        self._scorers = tuple(map(as_scorer, scorers))
        names = [str(getattr(scorer, "name", "")) for scorer in self._scorers]
        if twice := {scorer for scorer in names if names.count(scorer) > 1}:
            raise ConfigError(
                f"{self.name}: scorers: several are called {', '.join(sorted(twice))}; give them names: "
                "@rollout.scorer(name=…)"
            )
        self._system = system

    def _named(self, given: Any) -> Any:
        """What a configuration can hold: an object is replaced by a reference to it."""
        return given if isinstance(given, str | Mapping | UserConfig) else self.objects.add(given)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to the workers of a cluster, which are given their tasks one by one."""
        return {name: value for name, value in vars(self).items() if name != "tasks"}

    name: str = ""
    """For messages and displays."""
    tasks: Tasks
    """The tasks, in order."""
    identity: dict[str, JSON] = {}  # noqa: RUF012 - replaced, never changed
    """What must not change for a run to be resumed, beyond what every dataset records."""
    defaults: Defaults = Defaults()
    traits: Traits = Traits()
    rescoring: Rescoring = "replay"
    objects: Offers = Offers()
    """The objects that its defaults refer to, by reference."""
    _world: type[World] | Callable[[], World] | None = None
    _scorers: tuple[Scorer, ...] = ()
    _system: str | None = None

    def system_for(self, agent: AgentConfig) -> str | None:
        """The system prompt, which may depend on the agent's tool format; None where there is none."""
        return self._system

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        """When the monitor ends a conversation; None where it never does."""
        return MonitorRules(
            # An agent that has no tools cannot be blamed for calling none.
            config.monitor_max_no_tool_turns if has_tools else 0,
            config.monitor_max_repeats,
            config.monitor_max_empty_replies,
            config.monitor_rule_detection,
            has_judge=True,
        )

    def measures(self) -> Sequence[MakeMeasure]:
        """Additional figures for the summary of a run."""
        return ()

    def warnings(self, agent: AgentConfig) -> list[str]:
        """Warnings for the start of a run: settings that are allowed but probably not intended."""
        return []

    def open(
        self, resources: Resources, *, makes_worlds: bool = True
    ) -> contextlib.AbstractAsyncContextManager[OpenEnvironment]:
        """Make everything ready that worlds share, and release it on leaving.

        Raises ConfigError where something is missing. `makes_worlds` is False where no world will be made on this
        machine; then nothing that only worlds need has to be there.
        """
        try:
            return contextlib.nullcontext(OpenWorlds(self._world, self._scorers, resources.call_timeout))
        except ConfigError as error:
            raise ConfigError(f"environment {self.name!r}: {error}") from error


class OpenWorlds(OpenEnvironment):
    """Worlds of a Python class in use."""

    def __init__(
        self, make: type[World] | Callable[[], World] | None, scorers: Sequence[Scorer], call_timeout: float
    ) -> None:
        self._make = make
        self._scorers = scorers
        self._call_timeout = call_timeout
        if make is not None and not callable(make):
            raise ConfigError(f"world: expected a subclass of rollout.World, got {make!r}")
        try:
            world = self._new() if make is not None else None
            if world is not None:
                refuse_further_arguments(world)
            super().__init__(Toolset() if world is None else tools_of(type(world)))
        except Exception as error:
            raise ConfigError(f"world: {describe_error(error)}") from error

    def _new(self) -> World:
        if self._make is None:
            return EmptyWorld(self.toolset)
        return new_world(self._make)

    def make_world(self, task: Task) -> World:
        try:
            world = self._new()
        except Exception as error:  # noqa: BLE001 - a function of the user's may raise anything
            return UnmadeWorld(error)
        if type(world).call_timeout == World.call_timeout:
            world.call_timeout = self._call_timeout
        return world

    async def try_world(self, task: Task, seed: int) -> list[str]:
        world = self.make_world(task)
        try:
            try:
                async with asyncio.timeout(self._call_timeout):
                    await world.open(task, seed)
            finally:
                await world.close()
        except (RolloutError, TimeoutError) as error:
            why = str(error) or f"it was not ready within {self._call_timeout:g} s"
            return [f"world: {type(world).__name__} cannot be opened for task {task.id!r}: {why}"]
        return []

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        return self._scorers or super().scorers(judge, seed_of)


class FileEnvironment(Environment):
    """An environment whose tasks are read from JSONL files when they are first asked for."""

    def __init__(self, name: str, path: Sequence[Path]) -> None:
        self.name = name
        self._path = path

    def task_paths(self) -> Sequence[Path]:
        """The files. Raises ConfigError where there is none."""
        if not self._path:
            raise ConfigError(f"datasets.{self.name}.path: missing; expected a JSONL file of tasks")
        return self._path

    @functools.cached_property
    def tasks(self) -> TaskFile:  # type: ignore[override]
        return TaskFile(*self.task_paths())
