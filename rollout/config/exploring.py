"""The sections of a configuration that say how tasks are explored: strategies, budgets, dynamic sampling."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from rollout.config.names import FileName
from rollout.config.section import Section


def strategy_shorthand(value: Any) -> Any:
    """`strategy: random_tree` is `strategy: {name: random_tree}`."""
    return {"name": value} if isinstance(value, str) else value


class Budget(Section):
    """What the attempts at one task may cost together; what they share is counted once. An attempt that was begun is
    played to its end, so the last ones may go over it."""

    generations: int | None = Field(None, ge=1)
    """Answers of the agent."""
    tokens: int | None = Field(None, ge=1)
    """Tokens that models generate: agent, user and judges."""
    tool_calls: int | None = Field(None, ge=1)
    """Tool results."""
    cost: float | None = Field(None, gt=0)
    """Dollars, for all models together."""

    def limits(self) -> dict[str, float]:
        """The units that are limited."""
        return {unit: most for unit in type(self).model_fields if (most := getattr(self, unit)) is not None}


class StrategyChoice(Section):
    """How a task is explored. See docs/how-to/strategies.md."""

    name: str = "chain"
    """`chain`: `samples` independent attempts. `random_tree`, `entropy_tree`, `arpo`, `treerl`, `mcts`, or
    `module:Name`."""
    params: dict[str, Any] = {}
    """What the strategy asks for; each has parameters of its own."""
    budget: Budget = Budget()
    """No new attempt at a task is begun once this is used up."""
    stop_when_mixed: bool = False
    """No new attempt at a task is begun once one has succeeded and one has not."""
    at_once: int | None = Field(None, ge=1)
    """Attempts at a task that are begun together, at most. By default what the strategy asks for, and 2 with
    `stop_when_mixed`."""
    attempts: int | None = Field(None, ge=1)
    """Attempts at a task in all, at most. By default what the strategy asks for."""

    @property
    def is_limited(self) -> bool:
        """Whether it may be given less than it asks for."""
        return bool(self.budget.limits()) or self.stop_when_mixed or bool(self.at_once or self.attempts)


class Dynamic(Section):
    """Dynamic sampling (DAPO): open tasks until enough groups are useful, that is until enough tasks have attempts
    with different rewards. The others are kept, and say so in the metrics."""

    groups: int = Field(ge=1)
    """Useful groups that are wanted, over all datasets of the command. Tasks that are open then are finished."""
    max_tasks: int | None = Field(None, ge=1)
    """Open no more tasks than this."""
    oversample: float = Field(2.0, ge=1)
    """Tasks that are open at once for each missing group."""


class Comparison(Section):
    """What `rollout compare` compares."""

    budget: Budget = Budget()
    """For each task and strategy, instead of `--budget`."""
    strategies: dict[FileName, Annotated[StrategyChoice, BeforeValidator(strategy_shorthand)]] = {}
    """Strategies by the names that the table shows, instead of `--strategies`."""
