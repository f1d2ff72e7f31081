"""One dataset, ready to run: everything that its episodes share.

A plan is made by `rollout.pipelines.wiring` before an episode starts, and nothing in it changes while the run goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.agent import Agent
from rollout.agents.monitor import MonitorRules
from rollout.agents.users.user import User
from rollout.agents.viewing import Viewing
from rollout.core import seeds
from rollout.core.calls import CallReader
from rollout.core.messages import JSON, Toolset
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.environment import OpenEnvironment
from rollout.models.model import Capability, Model, Prefix, Sampling
from rollout.models.reference import AgentModel
from rollout.scoring.panel import Panel
from rollout.strategies.strategy import Strategy
from rollout.tasks.source import Tasks, trajectory_id
from rollout.trajectories.measure import MakeMeasure
from rollout.trajectories.rewards import RewardRule

MakeUser = Callable[[Task, int, World], User]
"""A user for a task, a seed and the agent's world, with which the user's own may share its state."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """One dataset, ready to run."""

    name: str
    tasks: Tasks
    task_count: int
    output_path: Path
    system: str | None
    environment: OpenEnvironment
    """Makes the worlds, and says which tools are offered."""
    program: Agent
    """What decides in its attempts."""
    agent: AgentModel
    """The agent's model."""
    agent_name: str
    sampling: Sampling
    viewing: Viewing
    """What of the conversation the agent's model is sent, and in which form."""
    make_user: MakeUser | None
    user_name: str | None
    monitor: MonitorRules | None
    judge: Model | None
    strategy: Strategy
    panel: Panel
    reward: RewardRule
    """What an attempt is worth."""
    max_turns: int
    max_steps: int
    mode: str
    seed: int
    episode_timeout: float
    irreversible: frozenset[str]
    """Tools whose calls are never made again."""
    record_states: bool
    """Whether the key of the world's state is recorded at each step."""
    reader: CallReader
    identity: dict[str, Any]
    """What must stay the same for a run to be resumed: see `rollout.pipelines.run`."""
    measures: tuple[MakeMeasure, ...] = ()
    """What is measured of its trajectories at the end, beyond the usual sums."""
    first_number: int = 0
    """The number of the first attempt at each task. Where it is not 0, the attempts are added to the trees that earlier
    commands grew."""
    author: str | None = None
    """The person who asked for its attempts; None for those of a run."""
    logged: set[str] = dataclasses.field(default_factory=set)
    """What its agent and its strategy raised: the traceback of each error is logged once."""
    samplings: dict[float, Sampling] = dataclasses.field(default_factory=dict)
    """The sampling at other temperatures, made when first asked for."""

    @property
    def toolset(self) -> Toolset:
        """All tools; `environment.tools_for` says which of them a task has in a turn."""
        return self.environment.toolset

    @property
    def total(self) -> int:
        """Trajectories that this dataset makes."""
        return self.task_count * self.strategy.most

    @property
    def numbers(self) -> range:
        """The numbers that the attempts at a task may have."""
        return range(self.first_number, self.first_number + self.strategy.most)

    @property
    def adds(self) -> bool:
        """Whether its attempts are added to trees that are there."""
        return self.first_number > 0

    @property
    def takes_ids(self) -> bool:
        """Whether the agent's model is given token ids instead of messages."""
        return Capability.TOKEN_IN in self.agent.capabilities

    def sampling_at(self, temperature: float | None) -> Sampling:
        """How the agent samples at a temperature of a strategy's choice; None: at its own."""
        if temperature is None:
            return self.sampling
        if temperature not in self.samplings:
            self.samplings[temperature] = msgspec.structs.replace(self.sampling, temperature=temperature)
        return self.samplings[temperature]

    def prompt(self, toolset: Toolset) -> bytes:
        """System prompt and tools exactly as sent, as one JSON object: the blob that labels and exports read."""
        dialect = self.viewing.dialect
        tools = dialect.sent(toolset).wire or b"[]"
        return b'{"system":' + msgspec.json.encode(dialect.system(self.system, toolset)) + b',"tools":' + tools + b"}"

    def wanted_ids(self) -> set[str]:
        """The ids of all trajectories that this dataset makes."""
        ids = self.tasks.ids[: self.task_count]
        return {trajectory_id(task_id, number) for task_id in ids for number in self.numbers}

    def read_task(self, index: int) -> Task:
        """The task at this place, its reference actions under the names that the agent is offered."""
        return with_offered_names(self.tasks.read(index), self.environment)

    def world_seed(self, task: Task) -> int:
        """The seed of the worlds of a task."""
        return world_seed(self.seed, self.name, task.id)

    def tree_seed(self, task_id: str) -> int:
        """What the strategy draws from."""
        return seeds.derive(self.seed, self.name, task_id, "tree")

    def episode_seed(self, task_id: str, number: int) -> int:
        """An attempt's own."""
        return seeds.derive(self.seed, self.name, task_id, "episode", number)


class AttemptSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at a task. It is the same wherever its episode runs."""

    id: int
    """Of its episode, in the journal."""
    trajectory: str
    task: Task
    branch: JSON
    """Where it branched off and why, as in the trajectory's metadata."""
    seed: int
    sampling: Sampling
    prefix: Prefix | None = None
    """The first tokens of its first generation, where it branches inside of one."""
    is_restart: bool = False
    """Whether its path must not be started again, because it was already in this command or because a person asked to
    go on from there. A replay that differs then fails the attempt."""


def world_seed(seed: int, dataset: str, task_id: str) -> int:
    """The same for all attempts at a task, so that equal states have equal keys."""
    return seeds.derive(seed, dataset, task_id, "world")


def with_offered_names(task: Task, environment: OpenEnvironment) -> Task:
    """A task with its reference actions under the names that the agent is offered."""
    if task.actions is None:
        return task
    actions = tuple(
        msgspec.structs.replace(action, name=environment.offered_name(action.name) or action.name)
        for action in task.actions
    )
    return msgspec.structs.replace(task, actions=actions)
