"""Growths: attempts that people request, starting from any step of any attempt.

A growth is recorded before its first attempt begins, so that another process can finish it after an interruption
(`unfinished_growths`). The engine grows the attempts as it grows any branch: the world is brought there by
making the recorded calls again, each result compared with the record, and where one differs the attempt fails instead
of going on elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rollout.agents.users.user import User
from rollout.config.exploring import StrategyChoice
from rollout.config.load import load_config, load_registry, remember_secrets
from rollout.config.models import NO_MODEL, AgentConfig, UserConfig
from rollout.config.schema import MAX_TURNS, Config
from rollout.core.errors import ConfigError, RolloutError
from rollout.core.task import Task
from rollout.core.world import World
from rollout.engine.control import Control
from rollout.engine.engine import Engine
from rollout.engine.observer import Observer
from rollout.engine.plan import Plan
from rollout.models.registry import Registry
from rollout.pipelines.people.growth_refusals import refuse_dataset, refuse_irreversible, with_masked_servers
from rollout.pipelines.people.people_run import PeopleRun, WorkedOn
from rollout.pipelines.people.remote_person import Part, RemoteAgent, RemotePerson, RemoteUser
from rollout.pipelines.saved_config import saved_config
from rollout.pipelines.wiring.datasets import open_plans, with_other_strategy
from rollout.store.blobs import write_blob, writing
from rollout.store.reading.reader import JournalReader
from rollout.store.run_dir import LOGS
from rollout.strategies.regrow import Regrow
from rollout.tasks.source import TaskList, trajectory_id
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import PERSON, NodeKey

PATIENCE = 7 * 24 * 3600.0
"""The longest time of an attempt in which a person plays, in seconds."""
_META = "growth:"
GrowthState = Literal["unfinished", "done", "stopped", "failed"]


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded request for attempts from a step."""

    number: int
    dataset: str
    task_id: str
    trajectory: str | None
    """The attempt that they continue; None if they start from the task."""
    message: int
    """They start behind this message."""
    author: str
    at: float
    """When it was requested, in seconds since 1970."""
    first_number: int
    """The number of the first of the attempts."""
    count: int = 1
    node: NodeKey | None = None
    """The node that they continue; None for the task's opening."""
    model: str | None = None
    """None: the value of the run, also for the next two."""
    user_model: str | None = None
    temperature: float | None = None
    part: Part | None = None
    """The role that a person plays; None if models play both."""
    is_stopped: bool = False
    """Whether a person stopped it."""
    error: str | None = None
    """Why it could not be begun."""

    @property
    def ids(self) -> list[str]:
        """The ids of its attempts."""
        return [trajectory_id(self.task_id, self.first_number + number) for number in range(self.count)]


class GrowthWish(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a growth."""

    author: str
    message: int = 0
    """Start behind this message."""
    count: int = 1
    model: str | None = None
    user_model: str | None = None
    temperature: float | None = None
    part: Part | None = None
    """The role that the person plays."""


async def plan_growth(
    people: PeopleRun, dataset: str, trajectory: str, wish: GrowthWish, config: Config | None = None
) -> Growth:
    """Record a growth from an attempt. Raises ConfigError if nothing can be grown there, as far as that shows before it
    begins: more shows with the configuration that it will have."""
    found = await people.take_up(dataset, trajectory)
    place = _last_result(found, found.place_of(wish.message))
    if place >= 0 and found.body(place).end is not None:
        raise ConfigError(f"{trajectory}: the conversation ends with message {wish.message}; choose an earlier one")
    node = None if place < 0 else found.keys[place]
    if config is not None:
        refuse_dataset(config, dataset)
        refuse_irreversible(
            people, found, place, config.datasets[dataset].irreversible, message=wish.message, count=wish.count
        )
    return _record(people, dataset, found.trajectory.task_id, found.tree, wish, trajectory=trajectory, node=node)


async def plan_fresh(
    people: PeopleRun, dataset: str, task_id: str, wish: GrowthWish, config: Config | None = None
) -> Growth:
    """Record a growth from a task's opening. Raises ConfigError if the run has not begun the task, or nothing can be
    grown there (`plan_growth`)."""
    if config is not None:
        refuse_dataset(config, dataset)
    return _record(people, dataset, task_id, await people.tree_of(dataset, task_id), wish)


def _record(
    people: PeopleRun,
    dataset: str,
    task_id: str,
    tree: int,
    wish: GrowthWish,
    trajectory: str | None = None,
    node: NodeKey | None = None,
) -> Growth:
    if wish.count < 1 or (wish.part is not None and wish.count > 1):
        expected = "1: a person plays one attempt" if wish.part is not None else "1 or more attempts"
        raise ConfigError(f"n: expected {expected}, got {wish.count}")
    if wish.temperature is not None and wish.temperature < 0:
        raise ConfigError(f"temperature: expected 0 or more, got {wish.temperature}")
    journal = people.journal
    number = journal.number("growths") + 1
    growth = Growth(
        number=number,
        dataset=dataset,
        task_id=task_id,
        trajectory=trajectory,
        message=wish.message,
        author=wish.author,
        at=time.time(),
        first_number=people.next_number(tree, task_id, wish.count),
        count=wish.count,
        node=node,
        model=wish.model,
        user_model=wish.user_model,
        temperature=wish.temperature,
        part=wish.part,
    )
    journal.set_facts({"growths": str(number), _META + str(number): msgspec.json.encode(growth).decode()})
    return growth


async def grow(
    people: PeopleRun,
    growth: Growth,
    config: Config,
    *,
    person: RemotePerson | None = None,
    observers: Sequence[Observer] = (),
    watch: Callable[[Engine], None] = lambda engine: None,
) -> Growth:
    """Grow the attempts of a growth, or those that are missing. If it could not begin, its `error` says why. `config`
    is that of the run (`growth_config`), `person` the person who plays a role. `watch` gets the engine before it runs,
    so that it can be stopped."""
    assert (person is None) == (growth.part is None)
    try:
        if growth.is_stopped or growth.error is not None:
            growth = _update(people, growth, is_stopped=False, error=None)
        await _grow(people, growth, config, person, observers, watch)
    except RolloutError as error:
        return _update(people, growth, error=str(error))
    return growth


def stop_growth(people: PeopleRun, growth: Growth) -> Growth:
    """Record that a person stopped it, so that it does not count as unfinished."""
    return _update(people, growth, is_stopped=True)


def read_growths(journal: JournalReader) -> list[Growth]:
    """All growths, oldest first."""
    found = (journal.meta(_META + str(number)) for number in range(1, journal.number("growths") + 1))
    return [msgspec.json.decode(text, type=Growth) for text in found if text is not None]


def newest(journal: JournalReader, growth: Growth) -> Growth:
    """A growth as it is recorded now."""
    text = journal.meta(_META + str(growth.number))
    return growth if text is None else msgspec.json.decode(text, type=Growth)


def unfinished_growths(journal: JournalReader) -> list[Growth]:
    """The growths that an earlier process did not finish."""
    return [growth for growth in read_growths(journal) if state_of(journal, growth) == "unfinished"]


def state_of(journal: JournalReader, growth: Growth) -> GrowthState:
    """The state of a growth."""
    if error_of(journal, growth) is not None:
        return "failed"
    if all(journal.recorded_at(growth.dataset, identifier) is not None for identifier in growth.ids):
        return "done"
    return "stopped" if growth.is_stopped else "unfinished"


def error_of(journal: JournalReader, growth: Growth) -> str | None:
    """Why a growth could not be begun, or why each of its attempts failed; None while any may succeed."""
    if growth.error is not None:
        return growth.error
    failures = []
    for identifier in growth.ids:
        found = journal.head(growth.dataset, identifier)
        if found is None or found[0].status != Status.FAILED:
            return None
        failures.append("unknown" if found[0].error is None else found[0].error.text)
    return failures[0] if len(failures) == 1 else f"all {len(failures)} attempts failed; the first: {failures[0]}"


def growth_config(run_dir: Path, config: Path | None = None) -> Config:
    """The configuration of a run, for growing its attempts. API keys are not recorded: they come from the registry of
    models that it names, from the environment, or from the file `config`. Datasets whose servers need more than is
    recorded are refused when something is to be grown."""
    if config is not None:
        return load_config(config)
    saved = with_masked_servers(saved_config(run_dir), run_dir)
    if saved.models_config_file is None or not saved.models_config_file.is_file():
        return saved
    registry = load_registry(saved.models_config_file)
    secret = {name: {"api_key": entry.api_key, "headers": entry.headers} for name, entry in registry.items()}
    models = {
        name: entry.model_copy(update=secret[name]) if name in secret and entry.api_key is None else entry
        for name, entry in {**registry, **saved.models}.items()
    }
    remember_secrets(found := saved.model_copy(update={"models": models}))
    return found


async def _grow(
    people: PeopleRun,
    growth: Growth,
    config: Config,
    person: RemotePerson | None,
    observers: Sequence[Observer],
    watch: Callable[[Engine], None],
) -> None:
    refuse_dataset(config, growth.dataset)
    if growth.trajectory is not None:
        found = await people.take_up(growth.dataset, growth.trajectory)
        place = -1 if growth.node is None else list(found.keys).index(growth.node)
        names = config.datasets[growth.dataset].irreversible
        refuse_irreversible(people, found, place, names, message=growth.message, count=growth.count, own=growth.ids)
    config = _changed(config, growth)
    registry = Registry(
        config.models,
        timeouts=config.timeouts,
        retries=config.retries,
        local=config.local,
        log_dir=people.folder / LOGS,
    )
    async with contextlib.AsyncExitStack() as held:
        await held.enter_async_context(registry)
        (plan,) = await held.enter_async_context(open_plans(config, [growth.dataset], registry))
        plan = _plan_of(people, plan, growth, person)
        with writing(people.folder):
            write_blob(people.folder, plan.prompt(plan.toolset))
        engine = Engine(
            [plan],
            people.journal,
            max_workers=min(config.max_workers, growth.count),
            control=Control(config.max_cost),
            grace=config.timeouts.grace,
            observers=observers,
        )
        watch(engine)
        await engine.run()
        await people.journal.flush()


def _changed(config: Config, growth: Growth) -> Config:
    """The run's configuration with the changes of the growth, for this machine alone."""
    dataset = config.datasets[growth.dataset]
    changed: dict[str, AgentConfig | UserConfig] = {}
    if growth.model is not None:
        changed["agent"] = dataset.agent.model_copy(update={"model": growth.model, "api_base": None, "api_key": None})
    if growth.user_model is not None:
        user = dataset.user or UserConfig()
        changed["user"] = user.model_copy(
            update={"model": growth.user_model, "kind": "model", "api_base": None, "api_key": None}
        )
    if growth.part == "agent":
        # A person needs no model and no key.
        changed["agent"] = dataset.agent.model_copy(update={"model": NO_MODEL, "api_base": None, "api_key": None})
    if growth.model is not None or growth.part is not None:
        # Another model may lack what the run's strategy needs.
        dataset = with_other_strategy(dataset, StrategyChoice())
    datasets = {growth.dataset: dataset.model_copy(update=changed)}
    return config.model_copy(update={"datasets": datasets, "cluster": None, "dynamic": None, "tail": None})


def _plan_of(people: PeopleRun, plan: Plan, growth: Growth, person: RemotePerson | None) -> Plan:
    """The plan of the run, for this task and these attempts only."""
    if growth.task_id not in plan.tasks.ids:
        raise ConfigError(f"{plan.tasks}: the task {growth.task_id!r} is no longer there; put it back")
    task = plan.tasks.read(plan.tasks.ids.index(growth.task_id))
    tree = people.journal.tree_of(growth.dataset, growth.task_id)
    if tree is None or people.journal.opening(tree) != task.messages:
        raise ConfigError(
            f"{plan.tasks}: the opening of the task {growth.task_id!r} changed since the run; restore the old words"
        )
    plan = plan if person is None else _with_person(plan, person)
    return dataclasses.replace(
        plan,
        tasks=TaskList(str(plan.tasks), [task]),
        task_count=1,
        output_path=people.folder / "outputs" / f"{growth.dataset}.jsonl",
        strategy=Regrow(growth.count, growth.node, growth.temperature),
        first_number=growth.first_number,
        author=growth.author,
        measures=(),
    )


def _with_person(plan: Plan, person: RemotePerson) -> Plan:
    """The plan with a person in one of its roles, without a short time limit."""
    if person.part == "agent":
        return dataclasses.replace(
            plan, program=RemoteAgent(person), agent_name=PERSON, monitor=None, judge=None, episode_timeout=PATIENCE
        )

    def make_user(task: Task, seed: int, world: World) -> User:
        user = RemoteUser(person)
        user.world = plan.environment.user_world(task, world)
        return user

    return dataclasses.replace(
        plan,
        make_user=make_user,
        user_name=PERSON,
        max_turns=max(plan.max_turns, MAX_TURNS),
        episode_timeout=PATIENCE,
    )


def _last_result(found: WorkedOn, place: int) -> int:
    """The index of the last of several results of one answer, since nothing can branch between them."""
    if place < 0 or found.body(place).kind != "tool":
        return place
    last = len(found.keys) - 1
    while place < last and found.body(place + 1).kind == "tool":
        place += 1
    return place


def _update(people: PeopleRun, growth: Growth, **changed: object) -> Growth:
    changed_growth = msgspec.structs.replace(growth, **changed)
    people.journal.set_meta(_META + str(growth.number), msgspec.json.encode(changed_growth).decode())
    return changed_growth
