"""Finding a strategy by its name, and making it from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rollout.errors import ConfigError
from rollout.plugins import find_plugin
from rollout.strategies.chain import Chain
from rollout.strategies.random_tree import RandomTree
from rollout.strategies.strategy import Strategy

SHIPPED: dict[str, Callable[..., Strategy]] = {"chain": Chain, "random_tree": RandomTree}


def make_strategy(name: str, params: Mapping[str, Any], samples: int) -> Strategy:
    """The strategy of a dataset. `samples` is the number of chains where the name is `chain`."""
    make = SHIPPED.get(name) or find_plugin("rollout.strategies", name)
    if make is None:
        raise ConfigError(
            f"strategy: there is no {name!r}; known: {', '.join(SHIPPED)}, entry points of rollout.strategies, or "
            "module:Name"
        )
    given = {"samples": samples, **params} if name == "chain" else dict(params)
    try:
        strategy: Strategy = make(**given)
    except TypeError as error:
        raise ConfigError(f"strategy {name}: {error}") from error
    return strategy
