"""n independent chains for each task: a tree that branches only at its root."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


def _one_or_several(value: Any) -> Any:
    """`temperature: 0.7` is `temperature: [0.7]`."""
    return value if isinstance(value, (list, tuple)) else [value]


class Chain(ShippedStrategy):
    """`n` attempts at each task, none of which knows of the others."""

    has_rounds: ClassVar[bool] = False
    branches: ClassVar[bool] = False
    grows_by: ClassVar[str] = "n"
    n: int = Field(1, ge=1)
    """Attempts; by default the dataset's `samples`."""
    temperature: Annotated[tuple[Annotated[float, Field(ge=0)], ...], BeforeValidator(_one_or_several)] = ()
    """One temperature, or one for each attempt, from the first again where there are more attempts; by default the
    agent's."""

    @property
    def most(self) -> int:
        return self.n

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        if not self.temperature:
            return first_chains(tree, self.n)
        numbers = range(len(tree.leaves), self.n)
        return [
            Expansion(tree.trunk, 1, "init", self.temperature[number % len(self.temperature)]) for number in numbers
        ]
