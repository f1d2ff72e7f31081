"""One task to attempt, as the rest of the package sees it.

A task comes from one line of a JSONL file (`rollout.tasks.jsonl` reads it). AgentSkiller's fields keep their meaning;
the reference actions, the user's later lines and the good replies are our additions under `task_info`, used by the
built-in models, by scripted users and by scorers. A model's request never contains them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, ToolSpec, message_from_json


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that solves part of the task. A value `{"$from": "2/row/id"}` is read from action 2's result."""

    name: str
    arguments: JSON = msgspec.field(default_factory=dict)
    turn: int = 0
    """The conversation turn it belongs to: 0 is the turn of the first user message."""
    ordered: bool = False
    """Whether scoring requires it to come after the ordered actions before it."""


def call(name: str, /, **arguments: Any) -> Action:
    """A reference action: `call("add", item="mug", count=2)`."""
    return Action(name, arguments)


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to attempt."""

    id: str
    messages: tuple[Message, ...] = ()
    """The opening: usually one user message, written beforehand. Empty: the simulated user speaks first."""
    user_system_prompt: str = ""
    tools: tuple[ToolSpec, ...] | None = None
    """Tools of this task alone, for the mode `wrong_tool`."""
    actions: tuple[Action, ...] | None = None
    """Reference actions; None where the task has none. An empty list means: the right thing is to do nothing."""
    user_actions: tuple[Action, ...] = ()
    """Calls that the user makes with its own tools, each before it speaks in that turn."""
    user_turns: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    communicate: tuple[str, ...] = ()
    max_steps: int | None = None
    """Replaces the dataset's `max_steps_per_turn`."""
    info: JSON = msgspec.field(default_factory=dict)
    """The whole `task_info` of the task's line."""

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            messages: str | Iterable[Message] = (),
            user_system_prompt: str = "",
            tools: Iterable[ToolSpec] | None = None,
            actions: Iterable[Action] | None = None,
            user_actions: Iterable[Action] = (),
            user_turns: Iterable[str] = (),
            replies: Iterable[str] = (),
            communicate: Iterable[str] = (),
            max_steps: int | None = None,
            info: JSON = ...,
        ) -> None:
            """`messages` may be the text of the first user message alone."""

    def __post_init__(self) -> None:
        given: Any = self.messages
        if isinstance(given, str):
            msgspec.structs.force_setattr(self, "messages", (Message(role="user", content=given),))
        if type(self.id) is not str:
            msgspec.structs.force_setattr(self, "id", str(self.id))
        for field, kind in _TUPLES.items():
            value: Any = getattr(self, field)
            if value is None or (type(value) is tuple and all(type(entry) is kind for entry in value)):
                continue
            try:
                if isinstance(value, str | bytes | Mapping):
                    raise TypeError(f"expected a list, got {value!r}")
                read = tuple(entry if isinstance(entry, kind) else _read_entry(entry, kind) for entry in value)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise ConfigError(f"task {self.id!r}: {field}: {error}") from error
            msgspec.structs.force_setattr(self, field, read)
        if not isinstance(self.info, dict):
            raise ConfigError(f"task {self.id!r}: info: expected a dict, got {self.info!r}")
        if self.max_steps is not None and not isinstance(self.max_steps, int):
            raise ConfigError(f"task {self.id!r}: max_steps: expected a number, got {self.max_steps!r}")

    def copy(self) -> Task:
        """The same task with an `info` of its own, which a world or an agent may change."""
        return msgspec.structs.replace(self, info=copy.deepcopy(self.info))

    @property
    def opening_users(self) -> int:
        """The number of user messages in the opening."""
        return sum(1 for message in self.messages if message.role == "user")

    def turn_after(self, user_messages: int) -> int:
        """The turn that a conversation with this number of user messages is in. Turn 0 begins with the last user
        message of the opening."""
        return user_messages - max(self.opening_users, 1)


_TUPLES: dict[str, type[Any]] = {
    "messages": Message,
    "tools": ToolSpec,
    "actions": Action,
    "user_actions": Action,
    "user_turns": str,
    "replies": str,
    "communicate": str,
}
"""The fields that hold several values, and of which kind."""


def _read_entry(entry: Any, kind: type[Any]) -> Any:
    """An entry of a task's field that is written as a dict."""
    if kind is Message:
        return message_from_json(entry)
    if kind is ToolSpec:
        return ToolSpec.from_json(entry)
    return msgspec.convert(entry, kind)


def resolve_arguments(arguments: JSON, results: list[Any]) -> JSON:
    """Fill each `{"$from": "INDEX/path"}` of a reference action from the results of the actions before it.

    Raises KeyError, IndexError or TypeError where the path leads nowhere; the caller knows which action that was.
    """
    return {key: _resolve(value, results) for key, value in arguments.items()}


def follow(value: Any, path: Iterable[str]) -> Any:
    """What a path of keys and numbers leads to. Raises KeyError, IndexError, TypeError or ValueError."""
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _resolve(value: Any, results: list[Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$from"}:
            index, *path = str(value["$from"]).split("/")
            return follow(results[int(index)], path)
        return {key: _resolve(inner, results) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolve(inner, results) for inner in value]
    return value
