"""Wiring: from one dataset of a configuration to the plan that the engine runs.

Everything that can be wrong with a dataset is found here, before an episode starts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.monitor import FruitlessCalls, MonitorRules
from rollout.agents.prompts import with_tool_list
from rollout.config.schema import Config, Dataset, Scoring
from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import NO_TOOLS, Toolset
from rollout.core.spelling import suggest
from rollout.core.task import Task
from rollout.core.world import World
from rollout.engine.plan import Plan, world_seed
from rollout.environments.empty import EmptyWorld
from rollout.environments.suites.find import settle_dataset
from rollout.environments.suites.suite import Suite
from rollout.environments.web.actions import GOBACK, NOTHING_BEFORE
from rollout.environments.web.prompts import web_prompt
from rollout.models.model import Capability
from rollout.models.reference import AgentModel
from rollout.models.registry import Registry
from rollout.pipelines.costs import describe_unpriced
from rollout.pipelines.pools import Pools, open_pools
from rollout.pipelines.scorers import make_panel
from rollout.pipelines.speakers import make_sampling, secret_text, user_maker
from rollout.pipelines.token_measure import TokenMeasure
from rollout.pipelines.tools import DatasetTools, load_tools, open_tasks
from rollout.pipelines.viewing import describe_blindness, make_viewing
from rollout.strategies.find import make_strategy
from rollout.strategies.strategy import Strategy
from rollout.tasks.source import Tasks, refuse_clashes
from rollout.trajectories.stop import StopReason

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_plans(
    config: Config,
    names: Sequence[str],
    registry: Registry,
    *,
    tasks: Tasks | None = None,
    opens_worlds: bool = True,
) -> AsyncIterator[list[Plan]]:
    """The plans of these datasets, with the processes and browsers that their worlds share; everything is let go on
    leaving. `tasks` replace those that the datasets name. `opens_worlds`: False where episodes run on other machines,
    so that nothing of what their worlds need has to be on this one."""
    async with open_pools(config, are_used=opens_worlds) as pools, contextlib.AsyncExitStack() as held:
        plans = []
        for name in names:
            plans.append(make_plan(name, config.datasets[name], config, registry, pools, tasks))
            held.push_async_callback(plans[-1].close_tools)
        await pools.refuse_broken()
        yield plans


def make_plan(
    name: str,
    dataset: Dataset,
    config: Config,
    registry: Registry,
    pools: Pools | None = None,
    tasks: Tasks | None = None,
) -> Plan:
    """Wire one dataset together. Raises ConfigError with file and key where something is wrong.

    Worlds take what they need from `pools`; without them, mock servers run in this process. `tasks` stand instead of
    those that the dataset names.
    """
    tools = load_tools(name, dataset, pools)
    suite = tools.suite
    dataset = settle_dataset(name, dataset, suite)
    tasks = open_tasks(name, dataset, suite) if tasks is None else tasks
    strategy = make_dataset_strategy(name, dataset, config)
    refuse_clashes(tasks, strategy.most)
    seed = config.seed if dataset.seed is None else dataset.seed
    agent_config = dataset.agent
    if dataset.max_turns > 1 and dataset.user is None:
        raise ConfigError(f"datasets.{name}.user: needed because max_turns is {dataset.max_turns}; or set max_turns: 1")
    agent = registry.agent(
        agent_config.model,
        api_base=agent_config.api_base,
        api_key=secret_text(agent_config.api_key),
        params=agent_config.params,
        reveal_reference=agent_config.reveal_reference,
    )
    found = registry.resolve(agent_config.model)
    entry = found.entry
    viewing = make_viewing(name, dataset, entry, suite)
    if (blindness := describe_blindness(dataset, viewing, found)) is not None:
        log.warning("%s: %s", name, blindness)
    for unpriced in describe_unpriced(dataset, config, registry):
        log.warning("%s: %s", name, unpriced)
    system = _system_prompt(name, dataset, tools)
    toolset = NO_TOOLS if dataset.mode != "positive" else tools.toolset
    if entry.constrain_tools and len(toolset):
        if suite is not None and suite.tools_of is not None:
            raise ConfigError(
                f"datasets.{name}.agent.model: {agent_config.model} is told its tools once (constrain_tools), but "
                f"those of {dataset.suite} differ by task; use a model that calls tools by itself"
            )
        system = with_tool_list(system, toolset)
    if unknown := sorted(set(dataset.irreversible) - set(tools.toolset.by_name)):
        hint = suggest(unknown[0], tools.toolset.by_name)
        raise ConfigError(f"datasets.{name}.irreversible: there is no tool {', '.join(unknown)}; {hint}")
    timeout = config.timeouts.tool

    def make_world(task: Task) -> World:
        if dataset.mode == "wrong_tool":
            return EmptyWorld(Toolset(task.tools or ()))
        return tools.make_world(timeout) if dataset.mode == "positive" else EmptyWorld(NO_TOOLS)

    panel = make_panel(name, dataset, config, registry, tools, lambda task: world_seed(seed, name, task.id))
    judge = None
    monitor = _monitor_rules(config, dataset, suite, has_tools=len(toolset) > 0)
    if monitor is not None and config.monitor_use_llm_judge and dataset.max_turns > 1 and dataset.web is None:
        judge = registry.model(config.monitor_judge_model)
    make_user, user_name = (None, None)
    if dataset.max_turns > 1 and dataset.user is not None:
        make_user, user_name = user_maker(dataset.user, registry, suite)
    count = len(tasks) if dataset.limit is None else min(dataset.limit, len(tasks))
    sampling = make_sampling(agent_config, entry.max_tokens, entry.extra_body)
    if Capability.LOGPROBS in strategy.needs and "logprobs" not in agent_config.model_fields_set:
        sampling = msgspec.structs.replace(sampling, logprobs=True)
    refuse_model(name, dataset, strategy, agent)
    plan = Plan(
        name=name,
        tasks=tasks,
        task_count=count,
        output_path=dataset.output_path or Path("outputs") / f"{name}.jsonl",
        system=system,
        toolset=toolset,
        offer=_offer(dataset, suite),
        make_world=make_world,
        agent=agent,
        agent_name=agent_config.model,
        sampling=sampling,
        viewing=viewing,
        make_user=make_user,
        user_name=user_name,
        monitor=monitor,
        judge=judge,
        strategy=strategy,
        panel=panel,
        max_turns=dataset.max_turns,
        max_steps=dataset.max_steps_per_turn,
        mode=dataset.mode,
        seed=seed,
        episode_timeout=config.timeouts.episode,
        irreversible=frozenset(dataset.irreversible),
        record_states=dataset.record_states,
        reader=CallReader(toolset),
        offered=tools.offered,
        identity={},
        close_tools=tools.close,
        measures=(*tools.measures, *((TokenMeasure,) if Capability.TOKEN_IDS in agent.capabilities else ())),
    )
    return dataclasses.replace(plan, identity=_identity(plan, dataset, suite))


def make_dataset_strategy(name: str, dataset: Dataset, config: Config) -> Strategy:
    """The strategy of a dataset. Raises ConfigError where it cannot be made, or not with this configuration."""
    try:
        strategy = make_strategy(dataset.strategy, dataset.samples)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.{error}") from error
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


def _offer(dataset: Dataset, suite: Suite | None) -> Callable[[Task, int], Toolset] | None:
    if dataset.mode == "wrong_tool":
        return lambda task, turn: Toolset(task.tools or ())
    return suite.tools_of if suite is not None else None


def _identity(plan: Plan, dataset: Dataset, suite: Suite | None) -> dict[str, Any]:
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
    if plan.takes_ids:
        identity["agent.token_in"] = True
    if agent.reveal_reference:
        identity["agent.reveal_reference"] = True
    window = {"max_images": agent.max_images, "max_rounds": agent.max_rounds}
    identity |= {f"agent.{key}": value for key, value in window.items() if value is not None}
    if dataset.web is not None:
        # Not what only says how long something may take.
        shaping = dataset.web.model_dump(mode="json", exclude_defaults=True)
        identity["web"] = {key: value for key, value in shaping.items() if not key.endswith("_timeout")}
    if suite is not None:
        identity["suite"] = {"name": dataset.suite, **suite.identity}
    return identity


def _monitor_rules(config: Config, dataset: Dataset, suite: Suite | None, *, has_tools: bool) -> MonitorRules | None:
    # When a suite's conversation is over, the suite says.
    if not config.enable_monitor or suite is not None:
        return None
    if dataset.web is not None:
        # In a browser the same call again is often right: scrolling.
        return MonitorRules(
            fruitless=FruitlessCalls(
                GOBACK, NOTHING_BEFORE, config.monitor_max_failed_gobacks, StopReason.MONITOR_GOBACKS
            )
        )
    return MonitorRules(
        # An agent that has no tools cannot be blamed for calling none.
        config.monitor_max_no_tool_turns if has_tools else 0,
        config.monitor_max_repeats,
        config.monitor_max_empty_replies,
        config.monitor_rule_detection,
    )


def _system_prompt(name: str, dataset: Dataset, tools: DatasetTools) -> str | None:
    path = dataset.agent.system_prompt_file
    source = tools.suite or tools.domain
    text = source.policy if source is not None else None
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"datasets.{name}.agent.system_prompt_file: {path}: {error.strerror or error}") from error
    if text is None and tools.domain is not None and dataset.mode == "positive":
        where = tools.domain.base_path / "policies"
        log.warning("%s: no policy for %s in %s; its agent is told nothing", name, tools.domain.name, where)
    if text is None and dataset.web is not None:
        text = web_prompt(dataset.agent.prompt or "plain", dataset.web, dataset.agent.tool_format)
    if dataset.agent.preamble is None:
        return text
    return dataset.agent.preamble if text is None else f"{dataset.agent.preamble}\n\n{text}"
