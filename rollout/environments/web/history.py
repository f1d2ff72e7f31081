"""The calls and answers of a browser world, so that a lost context can be brought back.

A new context is brought to the state of a lost one by making the calls again. Each result is compared with the earlier
one, as the engine does with the record of a resumed episode: a page that now shows something else is not the page that
the agent saw, and nothing may go on there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rollout.core.comparison import describe_difference, is_same_message
from rollout.core.errors import ReplayMismatch, WorldError
from rollout.core.messages import Message, ToolResult
from rollout.core.world import Invocation

AFTER_LOSS = "the browser was lost, and in a new one"


class Past:
    """The calls of one message and what they were answered. Images are not kept."""

    def __init__(self, calls: Sequence[Invocation], results: Sequence[ToolResult]) -> None:
        self.calls = tuple(calls)
        self._messages = [result.to_message() for result in results]

    def check(self, results: Sequence[ToolResult]) -> None:
        """Raise ReplayMismatch where these results are not the earlier ones."""
        for call, before, result in zip(self.calls, self._messages, results, strict=True):
            now = result.to_message()
            if not is_same_message(before, now):
                told = describe_difference(before, now)
                raise ReplayMismatch(f"{AFTER_LOSS} {call.name} was answered otherwise: {told}", transient=True)


class History:
    """All calls of a world, in order."""

    def __init__(self, irreversible: Collection[str] = ()) -> None:
        """`irreversible`: the names of calls that must not be made again."""
        self._irreversible = frozenset(irreversible)
        self._opening: Message | None = None
        self._past: list[Past] = []

    def __len__(self) -> int:
        return sum(len(past.calls) for past in self._past)

    def __iter__(self) -> Iterator[Past]:
        return iter(self._past)

    def begin(self, opening: Message) -> None:
        """Keep what the start page showed."""
        self._opening = opening
        self._past = []

    def add(self, calls: Sequence[Invocation], results: Sequence[ToolResult]) -> None:
        """Keep the calls of one message."""
        self._past.append(Past(calls, results))

    def check_opening(self, opening: Message) -> None:
        """Raise ReplayMismatch where the start page shows something else than at first."""
        if not is_same_message(self._opening, opening):
            told = describe_difference(self._opening, opening)
            raise ReplayMismatch(f"{AFTER_LOSS} the start page is another: {told}", transient=True)

    def check_reversible(self, calls: Sequence[Invocation] = ()) -> None:
        """Raise WorldError where one of the calls, those to come included, must not be made again."""
        for call in (*(call for past in self._past for call in past.calls), *calls):
            if call.name in self._irreversible:
                raise WorldError(f"the browser was lost, and {call.name} is irreversible: it is not made again")
