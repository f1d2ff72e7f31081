"""A finished trajectory as filters see it: its head and messages, and what is known of each beside them.

What is known beside the messages comes from the journal's nodes (`read_path`). A line alone does not have it; then
finish reasons and token counts are unknown, and nothing is made up in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rollout.core.messages import Message, ToolCall
from rollout.trajectories.filters.texts import words
from rollout.trajectories.generation import Generation
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody


class Subject(msgspec.Struct, frozen=True):
    """One trajectory. Places are those in `messages`, which are the line's."""

    head: Head
    messages: Sequence[Message]
    dataset: str = ""
    opening: int = 0
    """How many messages were there before the agent began: none of them is its own."""
    generations: Mapping[int, Generation] = {}
    """How the agent's answers came about, by their places."""
    error_kinds: Mapping[int, str] = {}
    """The kinds of error observations, by their places."""
    system: str | None = None
    """The system prompt, where it is known."""
    tools: frozenset[str] = frozenset()
    """The names of the tools that the agent was offered, where they are known."""

    _spoken: dict[int, list[str]] = msgspec.field(default_factory=dict)

    def spoken(self, place: int) -> Sequence[str]:
        """The words of the answer at a place, worked out once for all who ask."""
        if place not in self._spoken:
            self._spoken[place] = spoken_words(self.messages[place])
        return self._spoken[place]

    @property
    def group(self) -> str:
        return str(self.head.metadata.get("group") or self.head.task_id)

    @property
    def stop_reason(self) -> str:
        return str(self.head.metadata.get("stop_reason"))

    def results_of(self, place: int) -> list[tuple[ToolCall, Message | None, str | None]]:
        """The calls of the answer at a place, each with its result and the kind of error that this is."""
        if not self.messages[place].tool_calls:
            return []
        following: list[int] = []
        for after in range(place + 1, len(self.messages)):
            if self.messages[after].role != "tool":
                break
            following.append(after)
        found: list[tuple[ToolCall, Message | None, str | None]] = []
        for call in self.messages[place].tool_calls:
            answer = next((after for after in following if self.messages[after].tool_call_id == call.id), None)
            if answer is None:
                found.append((call, None, None))
            else:
                # Two calls may have the same id; results stand in the order of the calls.
                following.remove(answer)
                found.append((call, self.messages[answer], self.error_kinds.get(answer)))
        return found


def spoken_words(message: Message) -> list[str]:
    """The words of what a message thinks and says."""
    return words(" ".join(filter(None, (message.reasoning, message.content))))


def read_path(
    opening: Sequence[Message], nodes: Iterable[NodeBody]
) -> tuple[list[Message], dict[int, Generation], dict[int, str]]:
    """The messages of a path, and by their places the agent's generations and the kinds of error observations."""
    messages = list(opening)
    generations: dict[int, Generation] = {}
    kinds: dict[int, str] = {}
    for body in nodes:
        said = body.said
        if said is None:
            continue
        if body.kind == "generation" and body.generation is not None:
            generations[len(messages)] = body.generation
        if body.error_kind is not None:
            kinds[len(messages)] = body.error_kind
        messages.append(said)
    return messages, generations, kinds
