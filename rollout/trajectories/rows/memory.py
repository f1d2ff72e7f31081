"""The form `memory`: prompts of the task, what is remembered, and what is seen now.

Each step becomes a row of its own whose prompt a *memory builder* writes, so that prompts stay short however long the
episode is. The model never saw these prompts; rows of this form are never exact. A builder of your own is any function
from `Memory` to the messages of the prompt, named as `module:function`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
from pydantic import Field, field_validator

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, message_to_json
from rollout.core.plugins import find_plugin
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.form import RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import RowMaker
from rollout.trajectories.rows.stretches import Stretch, per_step

LAST_STEPS = 3


class Remembered(msgspec.Struct, frozen=True):
    """A step that lies behind: what was seen and what was done. Reasoning is dropped."""

    observation: tuple[Message, ...]
    action: Message


class Memory(msgspec.Struct, frozen=True):
    """What a builder has to work with."""

    system: str | None
    task: tuple[Message, ...]
    """What the task began with."""
    steps: tuple[Remembered, ...]
    """Every step so far; a builder takes as many as it wants."""
    observation: tuple[Message, ...]
    """What was seen since the last step; empty at the first one."""
    last_steps: int = LAST_STEPS
    """How many steps the caller asked for."""


MemoryBuilder = Callable[[Memory], Sequence[Message]]


class MemoryRows(RowForm):
    """One answer behind a prompt that a memory builder writes."""

    has_advantages: ClassVar[bool] = True
    memory: str | None = None
    """Who writes the prompts, as `module:function`; by default the built-in builder, `last_steps`."""
    last: int = Field(LAST_STEPS, ge=0)
    """How many steps are remembered."""

    @field_validator("memory")
    @classmethod
    def _is_a_builder(cls, value: str | None) -> str | None:
        try:
            find_builder(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        # What a memory builder writes was never sent, so ids are written only where they are asked for.
        builder = find_builder(self.memory)
        return MemoryMaker(tokens.has_ids(False), tokens.tokenizer, builder=builder, last_steps=self.last)


class MemoryMaker(RowMaker, frozen=True, kw_only=True):
    """Rows of one answer each, behind prompts that were never sent."""

    builder: MemoryBuilder
    last_steps: int

    def exchanges(self, attempted: Attempted) -> Iterator[Exchange]:
        return remember(attempted, self.builder, self.last_steps)

    def divide(self, exchanges: Iterable[Exchange]) -> Iterator[Stretch]:
        return per_step(exchanges)


def last_steps(memory: Memory) -> list[Message]:
    """The built-in builder: the system prompt, and one user message with the task, the last steps and what is seen."""
    said = [_text(message) for message in memory.task]
    kept = memory.steps[-memory.last_steps :] if memory.last_steps else ()
    if kept:
        said.append(f"You have taken {len(memory.steps)} steps. The last {len(kept)} of them:")
        for number, step in enumerate(kept, len(memory.steps) - len(kept) + 1):
            seen = "\n".join(map(_text, step.observation))
            said.append(
                (f"Step {number}\nSeen: {seen}\n" if seen else f"Step {number}\n") + f"Done: {_text(step.action)}"
            )
    if memory.observation:
        said.append("Now you see:\n" + "\n".join(map(_text, memory.observation)))
    prompt = [Message(role="user", content="\n\n".join(said))]
    return prompt if memory.system is None else [Message(role="system", content=memory.system), *prompt]


def find_builder(name: str | None) -> MemoryBuilder:
    """The builder of a name: the built-in one, an entry point of `rollout.memories`, or `module:function`."""
    if name is None or name == "last_steps":
        return last_steps
    found = find_plugin("rollout.memories", name)
    if not callable(found):
        raise ConfigError(f"{name!r} is no memory builder; expected last_steps, or your own as module:function")
    builder: MemoryBuilder = found
    return builder


def remember(attempted: Attempted, builder: MemoryBuilder, count: int = LAST_STEPS) -> Iterator[Exchange]:
    """The exchanges of an attempt with prompts that the builder wrote. Raises Unfit where there are images."""
    if any(message.images for message in attempted.messages):
        raise Unfit("has images")
    opening = attempted.messages[: attempted.opening]
    system = opening[0].content if opening and opening[0].role == "system" else None
    task = opening if system is None else opening[1:]
    steps: list[Remembered] = []
    seen: list[Message] = []
    exchanges = iter(attempted.exchanges)
    for message in attempted.messages[attempted.opening :]:
        if message.role != "assistant":
            seen.append(message)
            continue
        exchange = next(exchanges, None)
        if exchange is None:
            return  # The rest was cut off by a filter.
        memory = Memory(system, task, tuple(steps), tuple(seen), count)
        request = [_checked(entry) for entry in builder(memory)]
        yield msgspec.structs.replace(exchange, request=request, ids=None)
        steps.append(Remembered(tuple(seen), message.without_reasoning()))
        seen = []


def _checked(entry: object) -> JSON:
    if not isinstance(entry, Message):
        raise ConfigError(f"a memory builder gave a {type(entry).__name__}; expected rollout.core.messages.Message")
    return message_to_json(entry)


def _text(message: Message) -> str:
    calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return "\n".join(filter(None, (message.content, *calls)))
