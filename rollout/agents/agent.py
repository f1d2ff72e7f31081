"""The contract of an agent: it decides what happens next in an attempt, through a session.

An agent is one async method. It asks its model with `session.generate()`, makes tool calls with `session.call()` and
speaks to the user with `session.say()`; everything that happens this way is recorded, scored and exported like the work
of the built-in chat agent (`rollout.agents.chat`).

    async def plan_first(task, session):
        await session.generate("Before you act, write down a plan in a few lines.")
        answer = await session.generate("Now carry it out.")
        while answer is not None:
            while answer.tool_calls:
                await session.call()
                answer = await session.generate()
            reply = await session.say(answer.content)
            answer = None if reply is None else await session.generate()

An attempt that is resumed, or that branches from another one, runs the agent again from the start. Up to the front of
the path its requests are answered from the record: no model, tool or user is asked again. So an agent must decide by
what the session gives it (and by `session.random`), not by clocks or globals. One that does something else than what
is recorded begins its attempt again.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from rollout.core.errors import ConfigError, describe_error
from rollout.core.messages import Message, ToolCall, ToolSpec
from rollout.core.plugins import refuse_signature
from rollout.core.task import Task


class Session(Protocol):
    """One attempt, as its agent sees it.

    Every method raises `EpisodeOver` once the attempt has ended (a limit, the monitor, a tool that ends the work). It
    does not derive from `Exception`, so agents need not handle it: it ends `act`, and the attempt is recorded.
    """

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, the system prompt first. A copy."""
        ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that are offered in this turn."""
        ...

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer that have not been made yet."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended and nothing is pending."""
        ...

    @property
    def is_asked(self) -> bool:
        """Whether the last message needs an answer of the agent: it is the user's or a tool's."""
        ...

    @property
    def random(self) -> random.Random:
        """Random numbers from the attempt's seed, the same when it is resumed."""
        ...

    async def generate(self, prompt: str | Sequence[Message | Mapping[str, Any]] | None = None) -> Message:
        """Ask the model for the next answer of the conversation.

        A text is added to the conversation first, as an instruction of the agent's own: the model sees it, the user
        does not. With messages the model is asked about these alone; its answer is no part of the conversation, but it
        is recorded and paid for.
        """
        ...

    async def call(self, /, *calls: ToolCall | str, **arguments: Any) -> list[Message]:
        """Make tool calls and return their results: all pending calls, or those that are given. With the name of a
        tool and its arguments the agent makes a call of its own, without its model. Pending calls that are not made
        before the next answer are recorded as declined."""
        ...

    async def say(self, text: str | None = None) -> str | None:
        """Say something to the user: this text, by default the last answer. Returns the user's reply, or None where the
        conversation is over."""
        ...


class Agent(Protocol):
    """What decides. One instance serves all attempts at once, so it keeps nothing of any of them.

    An agent may set `is_stateless = True` if it decides by the state of the session alone, wherever it begins.
    Then it is not run again over what is recorded, but begins at the front. An agent that passes on what a person does
    may have an `author`, the name of that person: it is recorded with every message that the agent writes.
    """

    async def act(self, task: Task, session: Session) -> None:
        """Work on the task until it is done. Returning ends the attempt."""
        ...


ActFunction = Callable[[Task, Session], Awaitable[None]]


class EpisodeOver(BaseException):
    """The attempt has ended. Raised by a session's methods, and handled by the engine."""


class FunctionAgent:
    """An agent that is a plain async function of task and session."""

    def __init__(self, function: ActFunction) -> None:
        self._function = function

    async def act(self, task: Task, session: Session) -> None:
        await self._function(task, session)


def as_agent(given: Any, name: str) -> Agent:
    """An agent from an object that keeps the contract, a class of such objects, or an async function.

    Raises ConfigError for anything else."""
    try:
        made = given() if isinstance(given, type) else given
    except Exception as error:
        raise ConfigError(
            f"{name}: the agent cannot be made: {describe_error(error)}; give the object itself"
        ) from error
    if inspect.iscoroutinefunction(getattr(made, "act", None)):
        refuse_signature(made.act, f"{name}: act", "task", "session")
        found: Agent = made
        return found
    if inspect.iscoroutinefunction(made) or inspect.iscoroutinefunction(getattr(made, "__call__", None)):  # noqa: B004
        refuse_signature(made, name, "task", "session")
        return FunctionAgent(made)
    raise ConfigError(
        f"{name} is no agent: expected an object with `async def act(task, session)`, or such a function itself"
    )
