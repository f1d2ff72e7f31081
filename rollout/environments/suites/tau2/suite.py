"""tau2-bench domains, from a clone that the user points at.

A domain has tools marked read or write, a policy, and tasks with a simulated user, who in some domains has tools of its
own; the verdict is by state, by assertions and by what was told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollout.config.models import User
from rollout.config.params import read_params
from rollout.config.section import Section
from rollout.core.messages import JSON, Toolset
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.suites.suite import SeedOf
from rollout.environments.suites.tau2.folder import DomainCode
from rollout.environments.suites.tau2.scorers import (
    ActionScorer,
    AssertionScorer,
    CommunicateScorer,
    DatabaseScorer,
)
from rollout.environments.suites.tau2.tasks import read_task
from rollout.environments.suites.tau2.world import Tau2Domain, Tau2UserWorld, Tau2World
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList


class Params(Section):
    """What `suite_params` may say."""

    path: Path
    """The clone of tau2-bench: the folder that holds `src` and `data`."""
    domain: str
    """airline, retail, telecom, mock, or another folder of `src/tau2/domains`."""
    split: str | None = None
    """A split of the domain's tasks (`base`, `train`, `test`, …); without it what the domain takes by default."""


class Tau2:
    """The suite `tau2`."""

    tools_of: Callable[[Task, int], Toolset] | None = None
    user: User | None = None
    max_turns = 50
    max_steps_per_turn = 30

    def __init__(self, params: Mapping[str, Any]) -> None:
        read = read_params(Params, params, "suite_params")
        code = DomainCode(read.path.expanduser().resolve(), read.domain)
        self._domain = Tau2Domain(code, read.split)
        self.toolset = self._domain.toolset
        self.policy: str | None = self._domain.policy
        self.user_guidelines = code.guidelines(with_tools=self._domain.user_toolset is not None)
        name = f"tau2 {read.domain}" + (f" ({read.split})" if read.split is not None else "")
        self.tasks = TaskList(name, [read_task(source, read.domain) for source in self._domain.sources.values()])
        self.identity: JSON = {"domain": read.domain, "split": read.split}

    def make_world(self, timeout: float) -> Tau2World:
        return Tau2World(self._domain, timeout)

    def user_world(self, task: Task, world: World) -> World | None:
        tools = self._domain.user_tools(task)
        return Tau2UserWorld(world, tools) if tools is not None and isinstance(world, Tau2World) else None

    def scorers(self, seed_of: SeedOf, timeout: float) -> Sequence[Scorer]:
        domain = self._domain
        return [
            DatabaseScorer(domain, lambda: self.make_world(timeout), seed_of),
            AssertionScorer(domain),
            CommunicateScorer(domain),
            ActionScorer(domain),
        ]
