"""Whether limits in dollars can limit anything."""

from __future__ import annotations

from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.models.registry import Registry, price_of


def describe_unpriced(dataset: Dataset, config: Config, registry: Registry) -> list[str]:
    """What to tell of models that have no price where the configuration limits what they may cost."""
    limits = {"max_cost": config.max_cost, "strategy.budget.cost": dataset.strategy.budget.cost}
    keys = " and ".join(key for key, most in limits.items() if most is not None)
    if not keys:
        return []
    user = dataset.user
    names = [dataset.agent.model, user.model if user is not None and user.kind == "model" else None]
    told = []
    for name in dict.fromkeys([*names, dataset.scoring.judge]):
        try:
            found = registry.resolve(name) if name is not None else None
        except ConfigError:
            continue  # told with the models
        if found is not None and found.kind in ("direct", "litellm") and price_of(found) is None:
            told.append(
                f"{keys}: the price of {name} is unknown, so it counts as free; set its input_cost_per_token and "
                "output_cost_per_token in the models registry"
            )
    return told
