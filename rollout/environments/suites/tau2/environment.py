"""tau2-bench domains, from a clone that the user points at.

A domain has tools marked read or write, a policy, and tasks with a simulated user, who in some domains has tools of its
own; the verdict is by state, by assertions and by what was told.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from rollout.agents.monitor import MonitorRules
from rollout.config.models import AgentConfig
from rollout.config.params import read_params
from rollout.config.schema import Config
from rollout.config.section import Section
from rollout.core.task import Task
from rollout.core.world import SeedOf, World
from rollout.environments.environment import Defaults, Environment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.environments.suites.tau2.folder import DomainCode
from rollout.environments.suites.tau2.scorers import (
    DatabaseScorer,
    Tau2ActionScorer,
    Tau2AssertionScorer,
    Tau2CommunicateScorer,
)
from rollout.environments.suites.tau2.tasks import read_task
from rollout.environments.suites.tau2.world import Tau2Domain, Tau2UserWorld, Tau2World
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList


class Tau2Params(Section):
    """What `suite_params` may say."""

    path: Path
    """The clone of tau2-bench: the folder that holds `src` and `data`."""
    domain: str
    """airline, retail, telecom, mock, or another folder of `src/tau2/domains`."""
    split: str | None = None
    """A split of the domain's tasks (`base`, `train`, `test`, …); without it what the domain takes by default."""


class Tau2(Environment):
    """The suite `tau2`."""

    name = "tau2"
    traits = Traits(do_actions_name_tools=False, do_scripts_go_on=True)

    def __init__(self, **params: Any) -> None:
        read = read_params(Tau2Params, params, "suite_params")
        code = DomainCode(read.path.expanduser().resolve(), read.domain)
        self._domain = Tau2Domain(code, read.split)
        self.defaults = Defaults(
            user_guidelines=code.guidelines(with_tools=self._domain.user_toolset is not None),
            max_turns=50,
            max_steps_per_turn=30,
        )
        name = f"tau2 {read.domain}" + (f" ({read.split})" if read.split is not None else "")
        self.tasks = TaskList(name, [read_task(source, read.domain) for source in self._domain.sources.values()])
        self.identity = {"suite": {"name": self.name, "domain": read.domain, "split": read.split}}

    def system_for(self, agent: AgentConfig) -> str | None:
        return self._domain.policy

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        return None

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        yield OpenTau2(self._domain, resources.call_timeout)


class OpenTau2(OpenEnvironment):
    """A domain in use."""

    def __init__(self, domain: Tau2Domain, call_timeout: float) -> None:
        super().__init__(domain.toolset)
        self._domain = domain
        self._call_timeout = call_timeout

    def make_world(self, task: Task) -> Tau2World:
        return Tau2World(self._domain, self._call_timeout)

    def user_world(self, task: Task, world: World) -> World | None:
        tools = self._domain.user_tools(task)
        return Tau2UserWorld(world, tools) if tools is not None and isinstance(world, Tau2World) else None

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        domain = self._domain
        return [
            DatabaseScorer(domain, self.make_world, seed_of),
            Tau2AssertionScorer(domain),
            Tau2CommunicateScorer(domain),
            Tau2ActionScorer(domain),
            AssertionScorer(judge),
        ]
