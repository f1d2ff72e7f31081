"""A finished attempt: its record and its messages, as scorers, filters, exporters, trainers and people read it.

A trajectory is a `Head` (status, scores, reward, usage, …) with messages. Where the nodes of its path are known, it
holds them, and everything about single messages is read off them: how an answer came about, which observations are
errors, their data, the tokens. One that was read from a line alone has messages only; what a line does not tell is
empty and never made up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rollout.core.messages import JSON, Message, ToolCall
from rollout.trajectories.filters.texts import words
from rollout.trajectories.generation import Generation
from rollout.trajectories.line import Head
from rollout.trajectories.token_view import TokenView, view_tokens
from rollout.trajectories.tree import NodeBody

T = TypeVar("T")


class _Path(msgspec.Struct, frozen=True):
    """What the nodes of a path say of its messages, by their indexes."""

    messages: tuple[Message, ...]
    generated: dict[int, Generation]
    error_kinds: dict[int, str]
    undone: set[int]
    data: dict[int, JSON]


class Trajectory(Head, frozen=True, dict=True, kw_only=True, eq=False):
    """A finished attempt. Indexes of messages are those in `messages`."""

    nodes: Sequence[NodeBody] | None = None
    """Every node from the task's opening to the leaf; None where only the messages are known."""
    given: Sequence[Message] | Callable[[], Sequence[Message]] = ()
    """The messages, or a function that reads them, where there are no nodes."""
    given_errors: Mapping[int, str] = {}
    """The kinds of tool errors by message index, for trajectories without nodes where they are known."""
    image_url: Callable[[str], str] | None = None
    """An image of a message, by its name, as a `data:` URL; None where images are not kept."""
    image_path: Callable[[str], str] | None = None
    """The path of an image's file, by the image's name; None where images are not kept."""
    prompt: Callable[[], tuple[str | None, list[JSON]]] | None = None
    """Reads the system prompt and the tools as they were sent; None where they are not known."""
    offers: Callable[[], dict[int, list[JSON]]] | None = None
    """Reads the tools of each turn at which they changed; None where they are not known."""

    def __repr__(self) -> str:
        return f"Trajectory({self.id!r}: {self.status} ({self.stop_reason}), reward {self.reward})"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same attempt: the same record and the same messages."""
        if not isinstance(other, Trajectory):
            return NotImplemented
        return _record(self) == _record(other) and list(self.messages) == list(other.messages)

    def __hash__(self) -> int:
        return hash((self.id, self.task_id))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle everything that would be read later, except for images: they stay in the run directory."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["nodes"] = None if self.nodes is None else tuple(self.nodes)
        fields["given"] = tuple(self.messages) if self.nodes is None else ()
        for name in ("prompt", "offers"):
            if fields[name] is not None:
                fields[name] = functools.partial(_given_back, fields[name]())
        return functools.partial(type(self), **fields), ()

    @functools.cached_property
    def messages(self) -> Sequence[Message]:
        """The whole conversation, from the task's opening on, with all reasoning. The system prompt is not part of it:
        see `system`."""
        if self.nodes is not None:
            return self._path.messages
        return self.given() if callable(self.given) else self.given

    @property
    def opening(self) -> int:
        """The number of messages that the task began with; 0 where that is not on record."""
        if self.nodes is None:
            return super().opening
        count = 0
        for body in self.nodes:
            if body.kind != "opening":
                break
            count += 1
        return count

    @property
    def system(self) -> str | None:
        """The system prompt as it was sent; None if there was none or it is not known."""
        return self._prompt[0]

    @property
    def tools(self) -> list[JSON]:
        """The tools as they were sent; empty if there were none or they are not known."""
        return self._prompt[1]

    @property
    def tools_by_turn(self) -> dict[int, list[JSON]]:
        """The turns at which the tools changed, each with the tools from then on. The first user message is turn 0."""
        return {} if self.offers is None else self.offers()

    @functools.cached_property
    def tokens(self) -> TokenView | None:
        """The token ids, masks and logprobs of the whole path, as given to the model and sampled from it. None where
        the nodes were not kept; its `is_exact` says whether every generation came with its ids."""
        return None if self.nodes is None else view_tokens(self.nodes)

    @functools.cached_property
    def tool_names(self) -> frozenset[str]:
        """The names of the tools that were offered, where they are known."""
        found = (entry.get("function", entry) for entry in self.tools if isinstance(entry, dict))
        return frozenset(str(tool["name"]) for tool in found if isinstance(tool, dict) and "name" in tool)

    @functools.cached_property
    def _prompt(self) -> tuple[str | None, list[JSON]]:
        return (None, []) if self.prompt is None else self.prompt()

    @functools.cached_property
    def _path(self) -> _Path:
        return _read_path(self.nodes or ())

    @functools.cached_property
    def generated(self) -> Mapping[int, Generation]:
        """The agent's answers as generations, by message index: usage, latency, and token ids and logprobs where the
        server gave them."""
        return self._path.generated

    @functools.cached_property
    def error_kinds(self) -> Mapping[int, str]:
        """The kinds of tool errors, by message index."""
        return self.given_errors if self.nodes is None else self._path.error_kinds

    @property
    def undone(self) -> Collection[int]:
        """The message indexes of results whose calls the world undid. A replay skips these calls."""
        return self._path.undone

    @property
    def data(self) -> Mapping[int, JSON]:
        """The data of observations (`ToolResult.data`), by message index."""
        return self._path.data

    @property
    def called(self) -> bool:
        """Whether any tool call has a result."""
        return any(message.role == "tool" for message in self.messages)

    def spoken(self, place: int) -> list[str]:
        """The words of the message at this index, reasoning included. They are computed once."""
        if place not in self._spoken:
            self._spoken[place] = spoken_words(self.messages[place])
        return self._spoken[place]

    @functools.cached_property
    def _spoken(self) -> dict[int, list[str]]:
        return {}

    def answered_calls(self, place: int) -> list[tuple[ToolCall, Message | None, str | None]]:
        """The tool calls of the message at this index, each with its result and, if that is an error, its kind."""
        messages = self.messages
        if not messages[place].tool_calls:
            return []
        following: list[int] = []
        for after in range(place + 1, len(messages)):
            if messages[after].role != "tool":
                break
            following.append(after)
        found: list[tuple[ToolCall, Message | None, str | None]] = []
        for call in messages[place].tool_calls:
            answer = next((after for after in following if messages[after].tool_call_id == call.id), None)
            if answer is None:
                found.append((call, None, None))
            else:
                # Two calls may have the same id; results are in the order of the calls.
                following.remove(answer)
                found.append((call, messages[answer], self.error_kinds.get(answer)))
        return found


def _record(head: Head) -> tuple[str, str, bool, JSON]:
    return head.id, head.task_id, head.success, head.metadata


def _given_back(value: T) -> T:
    return value


def _read_path(nodes: Iterable[NodeBody]) -> _Path:
    """All of it in one pass: every scorer, filter and export begins with this."""
    messages: list[Message] = []
    generated: dict[int, Generation] = {}
    error_kinds: dict[int, str] = {}
    undone: set[int] = set()
    data: dict[int, JSON] = {}
    for body in nodes:
        said = body.said
        if said is None:
            continue
        place = len(messages)
        messages.append(said)
        if body.kind == "generation":
            if body.generation is not None:
                generated[place] = body.generation
            continue
        if body.error_kind is not None:
            error_kinds[place] = body.error_kind
        if body.data is not None:
            data[place] = body.data
        if body.is_undone:
            undone.add(place)
    return _Path(tuple(messages), generated, error_kinds, undone, data)


def trajectory_of(head: Head, nodes: Sequence[NodeBody], image_url: Callable[[str], str] | None = None) -> Trajectory:
    """A trajectory from its record and its path."""
    return Trajectory(head.id, head.task_id, head.success, head.metadata, nodes=nodes, image_url=image_url)


def spoken_words(message: Message) -> list[str]:
    """The words of what a message thinks and says."""
    return words(" ".join(filter(None, (message.reasoning, message.content))))
