"""Wiring: from the datasets of a configuration to what runs, dry runs and scoring work with.

All three build a dataset by the same function. It goes as far as it can and collects what is wrong instead of raising
at the first problem: a run refuses to start with all of them, a dry run shows them, and scoring, which needs no agent,
only minds those of the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.agent import Agent
from rollout.agents.prompts import with_tool_list
from rollout.agents.viewing import Viewing
from rollout.config.exploring import StrategyChoice
from rollout.config.schema import Config, Dataset, Scoring
from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest
from rollout.core.task import Task
from rollout.engine.plan import Plan, with_offered_names, world_seed
from rollout.environments.environment import Environment, OpenEnvironment
from rollout.environments.find import find_environment, with_defaults
from rollout.environments.resources import Resources
from rollout.models.model import Capability
from rollout.models.reference import AgentModel
from rollout.models.registry import Registry
from rollout.pipelines.wiring.agent import (
    describe_blindness,
    describe_temperatures,
    make_program,
    make_sampling,
    make_viewing,
    secret_text,
    system_prompt,
    user_maker,
)
from rollout.pipelines.wiring.costs import describe_unpriced
from rollout.pipelines.wiring.panel import make_panel, refuse_reward, refuse_unknown_score
from rollout.pipelines.wiring.token_measure import TokenMeasure
from rollout.scoring.panel import Panel
from rollout.strategies.find import make_strategy
from rollout.strategies.strategy import Strategy
from rollout.tasks.source import Tasks, refuse_clashes
from rollout.trajectories.rewards import default_rule, reward_rule

log = logging.getLogger(__name__)
CHECKED_AT_ONCE = 4
"""Environments that are checked at the same time: each may start a process, and a folder may hold hundreds."""


@dataclasses.dataclass
class Wired:
    """One dataset, wired as far as its configuration allows."""

    name: str
    dataset: Dataset
    """With the defaults of its environment."""
    seed: int
    environment: Environment | None = None
    opened: OpenEnvironment | None = None
    tasks: Tasks | None = None
    strategy: Strategy | None = None
    panel: Panel | None = None
    program: Agent | None = None
    agent: AgentModel | None = None
    viewing: Viewing | None = None
    plan: Plan | None = None
    environment_problems: list[str] = dataclasses.field(default_factory=list)
    """Why no world can be opened, or nothing be scored."""
    problems: list[str] = dataclasses.field(default_factory=list)
    """Everything else that keeps the dataset from being run: its tasks, its models, its strategy."""
    warnings: list[str] = dataclasses.field(default_factory=list)

    def seed_of(self, task: Task) -> int:
        """The seed of a task's worlds."""
        return world_seed(self.seed, self.name, task.id)

    def read_task(self, place: int) -> Task:
        """The task at this place, its reference actions under the names that the agent is offered."""
        assert self.tasks is not None
        assert self.opened is not None
        return with_offered_names(self.tasks.read(place), self.opened)


@contextlib.asynccontextmanager
async def open_plans(
    config: Config,
    names: Sequence[str],
    registry: Registry,
    *,
    tasks: Tasks | None = None,
    makes_worlds: bool = True,
) -> AsyncIterator[list[Plan]]:
    """The plans of these datasets, for a run. Raises ConfigError with everything that is wrong with them.

    `tasks` replace those that the datasets name. `makes_worlds` is False where attempts run on other machines.
    """
    async with open_wired(config, names, registry, tasks=tasks, makes_worlds=makes_worlds) as wired:
        refuse_problems([problem for one in wired for problem in (*one.environment_problems, *one.problems)])
        for one in wired:
            for warning in one.warnings:
                log.warning("%s: %s", one.name, warning)
        yield [one.plan for one in wired if one.plan is not None]


@contextlib.asynccontextmanager
async def open_wired(
    config: Config,
    names: Sequence[str],
    registry: Registry,
    *,
    tasks: Tasks | None = None,
    makes_worlds: bool = True,
    is_scoring: bool = False,
) -> AsyncIterator[list[Wired]]:
    """These datasets with their environments open; everything is released on leaving. Raises nothing for problems of
    the configuration: see `Wired`.

    With `is_scoring`, worlds are made only where trajectories are scored again by replaying them.
    """
    async with Resources(config) as resources, contextlib.AsyncExitStack() as held:
        wired = []
        for name in names:
            dataset = config.datasets[name]
            one = Wired(name, dataset, config.seed if dataset.seed is None else dataset.seed)
            await _wire_environment(one, resources, held, makes_worlds, is_scoring)
            _wire_tasks(one, tasks)
            _wire_exploring(one, config, registry)
            _wire_agent(one, config, registry)
            _wire_plan(one, config, registry)
            wired.append(one)
        room = asyncio.Semaphore(CHECKED_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for one in wired:
                group.create_task(_check(one, room))
        yield wired


def refuse_problems(problems: Sequence[str]) -> None:
    """Raise ConfigError where there are problems, each told once."""
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


async def _wire_environment(
    one: Wired, resources: Resources, held: contextlib.AsyncExitStack, makes_worlds: bool, is_scoring: bool
) -> None:
    with _collecting(one.environment_problems):
        one.environment = environment = find_environment(one.name, one.dataset)
        one.dataset = with_defaults(one.name, one.dataset, environment)
        needs_worlds = makes_worlds and (not is_scoring or environment.rescoring == "replay")
        one.opened = await held.enter_async_context(environment.open(resources, makes_worlds=needs_worlds))
        one.opened.irreversible = frozenset(one.dataset.irreversible)


async def _check(one: Wired, room: asyncio.Semaphore) -> None:
    async with room:
        if one.opened is not None:
            one.environment_problems += await one.opened.check()


def _wire_tasks(one: Wired, tasks: Tasks | None) -> None:
    """The given tasks, else those of the environment. A worker of a cluster is given none: each comes with its call."""
    with _collecting(one.problems):
        one.tasks = tasks
        if tasks is not None or one.environment is None:
            return
        one.tasks = tasks = one.environment.tasks
        if tasks is not None and not len(tasks):
            count = len(tasks.problems)
            lines = "line" if count == 1 else f"{count} lines"
            unread = f"; its {lines} cannot be read ({tasks.problems[0]})" if count else ""
            one.problems.append(f"{tasks}: there is no task in it{unread}; expected one JSON object a line")


def _wire_exploring(one: Wired, config: Config, registry: Registry) -> None:
    """What is attempted and what it is worth: strategy and scorers."""
    name, dataset = one.name, one.dataset
    with _collecting(one.problems):
        refuse_reward(name, dataset)
        one.strategy = make_dataset_strategy(name, dataset, config)
        if one.tasks is not None:
            refuse_clashes(one.tasks, one.strategy.most)
    if one.opened is not None:
        with _collecting(one.environment_problems):
            one.panel = make_panel(name, dataset, config, registry, one.opened, one.seed_of)
            refuse_unknown_score(name, dataset, one.panel)
    if dataset.max_turns > 1 and dataset.user is None:
        one.problems.append(
            f"datasets.{name}.user: needed because max_turns is {dataset.max_turns}; or set max_turns: 1"
        )


def _wire_agent(one: Wired, config: Config, registry: Registry) -> None:
    """Who attempts it: the agent's program, its model, and what that is sent."""
    name, dataset = one.name, one.dataset
    with _collecting(one.problems):
        one.agent = _make_agent(dataset, registry)
        if one.strategy is not None:
            refuse_model(name, dataset, one.strategy, one.agent)
    with _collecting(one.problems):
        found = registry.resolve(dataset.agent.model)
        one.warnings += describe_temperatures(name, dataset, registry)
        if one.environment is not None:
            sees_images = found.entry.images if one.agent is None else found.sees_images(one.agent)
            one.viewing = make_viewing(name, dataset, found.entry, one.environment, sees_images=sees_images)
            if (blindness := describe_blindness(one.environment, one.viewing, found)) is not None:
                one.warnings.append(blindness)
    with _collecting(one.problems):
        one.program = make_program(name, dataset.agent.program)
    one.warnings += describe_unpriced(dataset, config, registry)


def _wire_plan(one: Wired, config: Config, registry: Registry) -> None:
    """The plan, where nothing that it needs is missing."""
    name, dataset, environment, opened = one.name, one.dataset, one.environment, one.opened
    if environment is None or opened is None:
        return
    with _collecting(one.problems):
        one.warnings += environment.warnings(dataset.agent)
        system = system_prompt(name, dataset, environment)
        _refuse_irreversible(name, dataset, opened)
        make_user, user_name = None, None
        if dataset.max_turns > 1 and dataset.user is not None:
            make_user, user_name = user_maker(dataset.user, registry, environment, opened)
        tasks, strategy, panel, agent = one.tasks, one.strategy, one.panel, one.agent
        viewing, program = one.viewing, one.program
        if tasks is None or strategy is None or panel is None or agent is None or viewing is None or program is None:
            return
        found = registry.resolve(dataset.agent.model)
        if found.entry.constrain_tools and len(opened.toolset):
            if environment.traits.do_tools_vary:
                raise ConfigError(
                    f"datasets.{name}.agent.model: {dataset.agent.model} gets its tools once (constrain_tools), but "
                    f"those of {environment.name} differ by task; use a model that calls tools by itself"
                )
            system = with_tool_list(system, opened.toolset)
        monitor = None
        if config.enable_monitor:
            monitor = environment.monitor_rules(config, has_tools=len(opened.toolset) > 0)
        asks_judge = monitor is not None and monitor.has_judge and config.monitor_use_llm_judge
        sampling = make_sampling(dataset.agent, found)
        if Capability.LOGPROBS in strategy.needs and "logprobs" not in dataset.agent.model_fields_set:
            sampling = msgspec.structs.replace(sampling, logprobs=True)
        reward = default_rule(panel.custom) if dataset.reward is None else reward_rule(dataset.reward)
        token_measures = (TokenMeasure,) if Capability.TOKEN_IDS in agent.capabilities else ()
        plan = Plan(
            name=name,
            tasks=tasks,
            task_count=len(tasks) if dataset.limit is None else min(dataset.limit, len(tasks)),
            output_path=dataset.output_path or Path("outputs") / f"{name}.jsonl",
            system=system,
            environment=opened,
            program=program,
            agent=agent,
            agent_name=dataset.agent.model,
            sampling=sampling,
            viewing=viewing,
            make_user=make_user,
            user_name=user_name,
            monitor=monitor,
            judge=registry.model(config.monitor_judge_model) if asks_judge and dataset.max_turns > 1 else None,
            strategy=strategy,
            panel=panel,
            reward=reward,
            max_turns=dataset.max_turns,
            max_steps=dataset.max_steps_per_turn,
            mode=dataset.mode,
            seed=one.seed,
            episode_timeout=config.timeouts.episode,
            irreversible=frozenset(dataset.irreversible),
            record_states=dataset.record_states,
            reader=CallReader(opened.toolset),
            identity={},
            measures=(*environment.measures(), *token_measures),
        )
        one.plan = dataclasses.replace(plan, identity=_identity(plan, dataset, environment))


def _refuse_irreversible(name: str, dataset: Dataset, opened: OpenEnvironment) -> None:
    if unknown := sorted(set(dataset.irreversible) - set(opened.toolset.by_name)):
        hint = suggest(unknown[0], opened.toolset.by_name)
        raise ConfigError(f"datasets.{name}.irreversible: there is no tool {', '.join(unknown)}; {hint}")


def _make_agent(dataset: Dataset, registry: Registry) -> AgentModel:
    agent = dataset.agent
    return registry.agent(
        agent.model,
        api_base=agent.api_base,
        api_key=secret_text(agent.api_key),
        params=agent.params,
        reveal_reference=agent.reveal_reference,
    )


@contextlib.contextmanager
def _collecting(problems: list[str]) -> Iterator[None]:
    """Keep the problem that ends a part of the wiring. The same one may end several parts; it is kept once."""
    try:
        yield
    except ConfigError as error:
        if str(error) not in problems:
            problems.append(str(error))


def with_other_strategy(dataset: Dataset, choice: StrategyChoice, **changed: Any) -> Dataset:
    """The dataset explored by another strategy than its own. `samples`, which only chains have, goes with the old
    one."""
    samples = dataset.samples if choice.name == "chain" else 1
    return dataset.model_copy(update={"strategy": choice, "samples": samples, **changed})


def make_dataset_strategy(name: str, dataset: Dataset, config: Config) -> Strategy:
    """The strategy of a dataset. Raises ConfigError where it cannot be made, or not with this configuration."""
    chosen = dataset.strategy
    try:
        strategy = make_strategy(dataset.strategy, dataset.samples, dataset.reward)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.{error}") from error
    if dataset.samples != 1 and (chosen.name != "chain" or "n" in chosen.params):
        instead = "strategy.params.n says how many" if chosen.name == "chain" else "it is for the strategy chain"
        raise ConfigError(f"datasets.{name}.samples: would be ignored beside {chosen.name}; leave it out: {instead}")
    if strategy.has_rounds and not config.use_checkpoints:
        raise ConfigError(
            f"datasets.{name}.strategy: {dataset.strategy.name} decides by what earlier attempts did, which only a "
            "journal with all nodes can tell after a resume; set use_checkpoints: true"
        )
    if config.dynamic is not None and strategy.most < 2:
        raise ConfigError(
            f"datasets.{name}.strategy: dynamic wants tasks whose attempts have different rewards, and here each has "
            "one attempt; ask for more (samples: 4), or leave dynamic out"
        )
    return strategy


def refuse_model(name: str, dataset: Dataset, strategy: Strategy, agent: AgentModel) -> None:
    """Raise ConfigError where the agent's model cannot do what the strategy is made of."""
    if Capability.PREFIX in strategy.needs and Capability.PREFIX not in agent.capabilities:
        raise ConfigError(
            f"datasets.{name}.strategy: {dataset.strategy.name} branches inside a generation, and "
            f"{dataset.agent.model} cannot go on from the first tokens of an answer; use a model with token_in: true, "
            "or a strategy that branches between generations (entropy_tree)"
        )


def _identity(plan: Plan, dataset: Dataset, environment: Environment) -> dict[str, Any]:
    """What shapes the data of a dataset, by names that an error can show."""
    agent = dataset.agent
    # Left out where it is the default, so that runs begun before there was a choice can go on.
    scoring = {} if dataset.scoring == Scoring() else {"scoring": dataset.scoring.model_dump(mode="json")}
    identity = {
        **scoring,
        "agent.model": agent.model,
        "agent.params": dict(agent.params),
        "agent.sampling": msgspec.to_builtins(plan.sampling),
        "agent.reasoning": str(plan.viewing.rule),
        "user": dataset.user.model_dump(mode="json", exclude={"api_key", "api_base"}) if dataset.user else None,
        "max_turns": dataset.max_turns,
        "max_steps_per_turn": dataset.max_steps_per_turn,
        "mode": dataset.mode,
        "seed": plan.seed,
        "system prompt and tools": hashlib.sha256(plan.prompt(plan.toolset)).hexdigest()[:16],
    }
    # Left out where it is the default, as above. More chains may be asked of a run at any time.
    explored = dataset.strategy.model_dump(mode="json", exclude_defaults=True)
    if dataset.strategy.name == "chain":
        explored = {**explored, "params": {k: v for k, v in dataset.strategy.params.items() if k != "n"}}
        explored = {key: value for key, value in explored.items() if value}
    if explored:
        identity["strategy"] = explored
    if dataset.record_states:
        identity["record_states"] = True
    if dataset.reward is not None:
        identity["reward"] = dataset.reward
    if plan.takes_ids:
        identity["agent.token_in"] = True
    if agent.program is not None:
        identity["agent.program"] = agent.program
    if agent.reveal_reference:
        identity["agent.reveal_reference"] = True
    window = {"max_images": agent.max_images, "max_rounds": agent.max_rounds}
    identity |= {f"agent.{key}": value for key, value in window.items() if value is not None}
    return identity | environment.identity
