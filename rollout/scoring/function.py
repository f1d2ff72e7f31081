"""Scorers as plain functions: the decorator `scorer`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, overload

from rollout.core.errors import ConfigError
from rollout.core.secrets import excerpt
from rollout.core.task import Task
from rollout.core.threads import ToolFault, tool_threads
from rollout.core.world import World
from rollout.scoring.scorer import Scorer
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

GIVEN = ("task", "trajectory", "world")


class FunctionScorer:
    """A scorer that asks a function. The function may be async, names those of task, trajectory and world that it
    needs, and returns a number, a bool, a `Score`, or None where it has nothing to say.

    A function that is not async runs in a thread, as such tools do: no conversation waits for it, and the time limit of
    scoring holds for it.

    One that does not ask for `world` is called after the world was closed, so that it holds no browser.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        self.name = name if name is not None else str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._wanted = [wanted for wanted in inspect.signature(function).parameters if wanted in GIVEN]
        self.needs_world = "world" in self._wanted
        unknown = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name not in GIVEN
            and parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if unknown:
            raise ConfigError(f"scorer {self.name}: asks for {', '.join(unknown)}; it may ask for {', '.join(GIVEN)}")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as a test of it does."""
        return self._function(*args, **kwargs)

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        given = {"task": task, "trajectory": trajectory, "world": world}
        found = await self._ask({wanted: given[wanted] for wanted in self._wanted})
        if found is None or isinstance(found, Score):
            return found
        try:
            value = float(found)
        except (TypeError, ValueError):
            wanted = "expected a number, a bool, a Score or None"
            return Score(self.name, None, f"the scorer returned {excerpt(repr(found), 100)}; {wanted}")
        if not math.isfinite(value):
            return Score(self.name, None, f"the scorer returned {value}, which is no score")
        return Score(self.name, value, partial=value)

    async def _ask(self, given: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**given)
        raised: ToolFault | None = None
        try:
            found = await tool_threads().run(lambda: self._function(**given))
        except ToolFault as fault:
            raised = fault
        if raised is None:
            return await found if inspect.isawaitable(found) else found
        # Outside of the block above, so that its traceback ends in the user's code and not in ours.
        if isinstance(raised.original, Exception):
            raise raised.original
        raise RuntimeError(f"it raised {raised}")


@overload
def scorer(function: Callable[..., Any], /) -> FunctionScorer: ...


@overload
def scorer(*, name: str) -> Callable[[Callable[..., Any]], FunctionScorer]: ...


def scorer(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Make a scorer from a function: `@scorer`, or `@scorer(name="filled")`."""
    return (lambda made: FunctionScorer(made, name)) if function is None else FunctionScorer(function, name)


def as_scorer(given: Any) -> Scorer:
    """A scorer from an object that keeps the contract, a class of such objects, or a function.

    Raises ConfigError for anything else."""
    made = given() if isinstance(given, type) else given
    if callable(getattr(made, "score", None)):
        found: Scorer = made
        return found
    if callable(made):
        return FunctionScorer(made)
    raise ConfigError(f"{given!r} is no scorer: it has no method score(task, trajectory, world) and is no function")
