"""Environments whose tools are withheld: the modes `no_tool` and `wrong_tool`.

They show whether an agent admits that it cannot help: `no_tool` offers no tools, `wrong_tool` those that the task
itself lists and whose calls all fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from rollout.agents.monitor import MonitorRules
from rollout.config.models import AgentConfig
from rollout.config.schema import Config
from rollout.core.messages import NO_TOOLS, Toolset
from rollout.core.task import Task
from rollout.core.world import SeedOf, World
from rollout.environments.empty import EmptyWorld
from rollout.environments.environment import Environment, OpenEnvironment
from rollout.environments.resources import Resources
from rollout.scoring.abstention import AbstentionScorer
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import Tasks
from rollout.trajectories.measure import MakeMeasure


class WithheldTools(Environment):
    """Another environment without its tools: same tasks and system prompt."""

    def __init__(self, environment: Environment, mode: Literal["no_tool", "wrong_tool"]) -> None:
        self._environment = environment
        self._mode = mode
        self.name = environment.name
        self.identity = environment.identity
        self.defaults = environment.defaults
        self.traits = msgspec.structs.replace(environment.traits, do_actions_name_tools=False)
        self.rescoring = "recorded" if environment.rescoring == "recorded" else "trajectory"

    @property
    def tasks(self) -> Tasks:  # type: ignore[override]
        return self._environment.tasks

    def system_for(self, agent: AgentConfig) -> str | None:
        return self._environment.system_for(agent)

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        return self._environment.monitor_rules(config, has_tools=has_tools)

    def measures(self) -> Sequence[MakeMeasure]:
        return self._environment.measures()

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        # Opened although no world of it is made, so that a domain that does not load is noticed in every mode.
        async with self._environment.open(resources, makes_worlds=makes_worlds) as opened:
            yield OpenWithheld(opened, self._mode)


class OpenWithheld(OpenEnvironment):
    """Withheld tools in use."""

    def __init__(self, opened: OpenEnvironment, mode: Literal["no_tool", "wrong_tool"]) -> None:
        super().__init__(NO_TOOLS)
        self._opened = opened
        self._mode = mode

    def tools_for(self, task: Task, turn: int) -> Toolset:
        return self.toolset if self._mode == "no_tool" else Toolset(task.tools or ())

    def make_world(self, task: Task) -> World:
        return EmptyWorld(self.tools_for(task, 0))

    def offered_name(self, name: str) -> str | None:
        return self._opened.offered_name(name)

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        return [AbstentionScorer()]

    async def check(self) -> list[str]:
        return await self._opened.check()
