"""Finding a strategy by its name, and making it from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollout.config.exploring import StrategyChoice
from rollout.config.params import read_params
from rollout.config.section import Section
from rollout.core.errors import ConfigError, describe_error
from rollout.core.plugins import find_plugin
from rollout.core.spelling import suggest
from rollout.strategies.arpo import Arpo
from rollout.strategies.chain import Chain
from rollout.strategies.entropy_tree import EntropyTree
from rollout.strategies.limits import Limited
from rollout.strategies.mcts import Mcts
from rollout.strategies.random_tree import RandomTree
from rollout.strategies.shipped import ShippedStrategy
from rollout.strategies.strategy import Strategy
from rollout.strategies.treerl import TreeRl

SHIPPED: dict[str, type[ShippedStrategy]] = {
    "chain": Chain,
    "random_tree": RandomTree,
    "entropy_tree": EntropyTree,
    "arpo": Arpo,
    "treerl": TreeRl,
    "mcts": Mcts,
}
if TYPE_CHECKING:
    _KEEP_THE_CONTRACT: tuple[type[Strategy], ...] = (Chain, RandomTree, EntropyTree, Arpo, TreeRl, Mcts, Limited)


def make_strategy(choice: StrategyChoice, samples: int = 1, reward: str | None = None) -> Strategy:
    """The strategy of a dataset, within its limits. `samples` is the number of chains where nothing else says it, and
    `reward` the dataset's rule, for strategies that search by value and name no rule of their own."""
    params = {"n": samples, **choice.params} if choice.name == "chain" else choice.params
    if reward is not None and "value" in getattr(SHIPPED.get(choice.name), "model_fields", {}):
        params = {"value": reward, **params}
    strategy = _make(choice.name, params)
    if choice.is_limited:
        return Limited(
            strategy,
            budget=choice.budget,
            stop_when_mixed=choice.stop_when_mixed,
            at_once=choice.at_once,
            attempts=choice.attempts,
        )
    return strategy


def _make(name: str, params: Mapping[str, Any]) -> Strategy:
    try:
        make = SHIPPED.get(name) or find_plugin("rollout.strategies", name)
    except ConfigError as error:
        raise ConfigError(f"strategy: {error}") from error
    if make is None:
        raise ConfigError(
            f"strategy: there is no {name!r}; {suggest(name, SHIPPED, 'known')} (or an entry point of "
            "rollout.strategies, or module:Name)"
        )
    if isinstance(make, type) and issubclass(make, Section):
        try:
            return read_params(make, params)  # type: ignore[return-value]
        except ConfigError as error:
            raise ConfigError(f"strategy {name}: {error}") from error
    if not callable(make):
        if not hasattr(make, "begin"):
            raise ConfigError(f"strategy {name}: is no strategy; expected a name, or an object with begin and after")
        if params:
            raise ConfigError(f"strategy {name}: is a strategy already and takes no parameters")
        made: Strategy = make
        return made
    try:
        strategy: Strategy = make(**params)
    except Exception as error:
        raise ConfigError(f"strategy {name}: cannot be made: {describe_error(error)}") from error
    return strategy
