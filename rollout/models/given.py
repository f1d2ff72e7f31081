"""Models that a program brings itself: objects with `generate`, classes of them, and plain async functions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rollout.core.errors import ConfigError, ModelError, describe_error
from rollout.core.messages import Message, message_from_json
from rollout.core.plugins import refuse_signature
from rollout.models.model import Capability, Model, Request
from rollout.models.reference import AgentModel, ReferenceModel
from rollout.trajectories.generation import Generation

Answer = Generation | Message | Mapping[str, Any] | str
"""What a function may return: a `Generation`, a message, a message as OpenAI's API writes it, or the text alone."""
AnswerFunction = Callable[[Request], Awaitable[Answer]]


class FunctionModel:
    """A model that is a plain async function of the request."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, function: AnswerFunction, name: str) -> None:
        self.name = name
        self._function = function

    async def generate(self, request: Request) -> Generation:
        return read_answer(await self._function(request), self.name, f"call_{len(request.messages)}")

    async def close(self) -> None:
        pass


def read_answer(answer: Any, name: str, unnamed: str) -> Generation:
    """The generation that an answer stands for; calls without an id get one that begins with `unnamed`. Raises
    ModelError where it is none."""
    if isinstance(answer, Generation):
        return answer
    if isinstance(answer, str):
        answer = Message(role="assistant", content=answer)
    elif hasattr(answer, "model_dump"):
        answer = answer.model_dump()  # a message of the OpenAI SDK
    if isinstance(answer, Mapping):
        try:
            if "choices" in answer:  # a whole chat completion
                answer = answer["choices"][0]["message"]
            answer = message_from_json({"role": "assistant", **answer}, unnamed)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"{name} returned no message: {describe_error(error)}") from error
    if not isinstance(answer, Message) or answer.role != "assistant":
        raise ModelError(
            f"{name} returned {type(answer).__name__}; expected a Generation, an assistant's message as a dict, or text"
        )
    return Generation(answer, "tool_calls" if answer.tool_calls else "stop", model=name)


def as_model(given: Any, name: str) -> AgentModel:
    """A model from an object that keeps the contract, a class of such objects, or an async function of the request.

    Raises ConfigError for anything else."""
    try:
        made = given() if isinstance(given, type) else given
    except Exception as error:
        raise ConfigError(f"model {name!r} cannot be made: {describe_error(error)}") from error
    if isinstance(made, ReferenceModel):
        return made
    if callable(getattr(made, "generate", None)):
        refuse_signature(made.generate, f"model {name!r}: generate", "request")
        found: Model = made
        return found
    if inspect.iscoroutinefunction(made) or inspect.iscoroutinefunction(getattr(made, "__call__", None)):  # noqa: B004
        refuse_signature(made, f"model {name!r}", "request")
        return FunctionModel(made, name)
    raise ConfigError(
        f"model {name!r} is no model: expected an object with `async def generate(request)`, or an async function of "
        "the request"
    )
