"""Comparison of strategies at the same budget: the figures of one run for each, counted alike.

An attempt that was begun is played to its end, so a run may go over its budget in the end, each strategy by as much as
its last attempts happen to cost. So that all are measured by the same yardstick, the attempts at a task are counted in
their order while what they added is within the budget; the first that goes over it, and what comes after, is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from rollout.config.exploring import Budget, StrategyChoice
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.messages import encode_message
from rollout.models.registry import Registry
from rollout.pipelines.wiring.datasets import refuse_model, with_other_strategy
from rollout.store.reading.counting import CountedAttempt
from rollout.store.reading.reader import JournalReader
from rollout.strategies.find import SHIPPED, make_strategy
from rollout.strategies.limits import Spent
from rollout.trajectories.group import is_mixed
from rollout.trajectories.stop import Status

MOST_ATTEMPTS = 256
"""Attempts at a task where a budget does not say how many there can be at most."""


class Figures(msgspec.Struct):
    """What one strategy came to."""

    tasks: int = 0
    solved: int = 0
    """Tasks with at least one success."""
    useful: int = 0
    """Tasks with a success and a failure."""
    attempts: int = 0
    scored: int = 0
    successes: int = 0
    outcomes: int = 0
    """Different final states, or final messages where states have no key, added up over the tasks."""
    generations: int = 0
    tokens: int = 0
    tool_calls: int = 0
    cost: float = 0.0
    over: int = 0
    """Attempts that are not counted because they went over the budget."""
    seconds: float = 0.0
    """The time of all commands that added to the run, including those that were killed."""

    @property
    def solved_rate(self) -> float | None:
        return self.solved / self.tasks if self.tasks else None

    @property
    def success_rate(self) -> float | None:
        """Of the attempts that could be scored."""
        return self.successes / self.scored if self.scored else None


def with_strategy(choice: StrategyChoice, budget: Budget) -> StrategyChoice:
    """A strategy that goes on until the budget is used up, whatever its own parameters say of when to end."""
    most = budget.generations or MOST_ATTEMPTS
    shipped = SHIPPED.get(choice.name)
    changed = {
        "params": dict(choice.params) if shipped is None else {**choice.params, shipped.grows_by: most},
        "budget": budget,
        "stop_when_mixed": False,
        # Its parameter may be of rounds, each of which has several attempts.
        "attempts": None if budget.generations else MOST_ATTEMPTS,
    }
    return choice.model_copy(update=changed)


def with_strategies(config: Config, names: Sequence[str], choice: StrategyChoice, budget: Budget) -> Config:
    """The configuration with this strategy in every dataset, and with states recorded, to tell outcomes apart."""
    # How many attempts there are, the budget says.
    changed = {"strategy": with_strategy(choice, budget), "record_states": True, "samples": 1}
    datasets = {name: config.datasets[name].model_copy(update=changed) for name in names}
    return config.model_copy(update={"datasets": datasets, "dynamic": None})


def refuse_strategies(config: Config, names: Sequence[str], choices: Iterable[StrategyChoice], budget: Budget) -> None:
    """Raise ConfigError where one of the strategies cannot be made, with so small a budget or with any, or asks of an
    agent's model what it cannot do: before the first of them has cost anything."""
    registry = Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local)
    for choice in choices:
        strategy = make_strategy(choice)
        try:
            make_strategy(with_strategy(choice, budget))
        except ConfigError as error:
            grows_by = SHIPPED[choice.name].grows_by
            raise ConfigError(
                f"a budget of {budget.generations} generations is too small for {choice.name}: {error}; its {grows_by} "
                "is as large as the budget allows: allow more, or give it smaller parameters under compare.strategies"
            ) from error
        for name in names:
            dataset = with_other_strategy(config.datasets[name], choice)
            agent = dataset.agent
            key = agent.api_key.get_secret_value() if agent.api_key is not None else None
            model = registry.agent(
                agent.model, api_base=agent.api_base, api_key=key, reveal_reference=agent.reveal_reference
            )
            refuse_model(name, dataset, strategy, model)


def read_figures(readers: Mapping[str, JournalReader], datasets: Sequence[str], budget: Budget) -> dict[str, Figures]:
    """The figures of each of these runs, within the budget, over the tasks that all of them have: an earlier command
    may have rolled out more of them with one strategy than with another."""
    attempts = {
        label: {(name, task): made for name in datasets for task, made in reader.counted_attempts(name).items()}
        for label, reader in readers.items()
    }
    shared = set.intersection(*(set(found) for found in attempts.values()))
    return {label: _figures(reader, attempts[label], shared, budget) for label, reader in readers.items()}


def _figures(
    reader: JournalReader,
    by_task: Mapping[tuple[str, str], Sequence[CountedAttempt]],
    tasks: Collection[tuple[str, str]],
    budget: Budget,
) -> Figures:
    figures = Figures(seconds=reader.seconds())
    for task, attempts in by_task.items():
        if task in tasks:
            within = _within(attempts, budget)
            figures.over += len(attempts) - len(within)
            _count(figures, reader, within)
    return figures


def _within(attempts: Sequence[CountedAttempt], budget: Budget) -> list[CountedAttempt]:
    spent = Spent()
    for place, attempt in enumerate(attempts):
        spent.add(Spent(attempt.generations, attempt.tokens, attempt.tool_calls, attempt.cost))
        if not spent.is_within(budget):
            return list(attempts[:place])
    return list(attempts)


def _count(figures: Figures, reader: JournalReader, attempts: Sequence[CountedAttempt]) -> None:
    sound = [attempt for attempt in attempts if attempt.status not in (Status.FAILED, Status.CUT)]
    rewards = [float(attempt.success) for attempt in sound if attempt.scored]
    figures.tasks += 1
    figures.solved += any(rewards)
    figures.useful += is_mixed(rewards)
    figures.attempts += len(attempts)
    figures.scored += len(rewards)
    figures.successes += int(sum(rewards))
    figures.outcomes += len({_outcome(reader, attempt.episode) for attempt in sound})
    for attempt in attempts:
        figures.generations += attempt.generations
        figures.tokens += attempt.tokens
        figures.tool_calls += attempt.tool_calls
        figures.cost += attempt.cost


def _outcome(reader: JournalReader, episode: int) -> str:
    """What an attempt came to: the key of its final state, or what was said in the end where there is none."""
    state, said = None, []
    for body in reader.path_nodes(episode):
        state = body.state_after(state)
        if body.said is not None:
            said.append(body.said)
    if state is not None:
        return state
    words = b"\n".join(encode_message(message) for message in said[-1:])
    return hashlib.sha256(words).hexdigest()
