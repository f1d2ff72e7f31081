"""A view of the last steps only: what is older is one line each.

A round is an answer and the results of its calls. With `max_rounds` only so many of the last rounds are sent as
messages. Before them stand, always: the system prompt and the task's opening, whose last user message lists the steps
that are no longer sent; and the page that the first answer of the window was given to, because an answer to something
unseen would make no sense. That page was a tool's result and is sent as a user's message, since its call is gone.

Each round is taken out once. The list grows by a line for each, which costs what the line is long.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from rollout.agents.dialects import NATIVE, Dialect
from rollout.agents.view import ContextView, ReasoningRule
from rollout.core.messages import Message
from rollout.core.results import error_of
from rollout.trajectories.web_page import read_text

FOLDED = "\n\nSteps you have taken before those shown below:"
MAX_ACTION = 200
_ACTION = re.compile(r"^\W*Action\W*:\W*(\S.*)$", re.MULTILINE)


class FoldingView(ContextView):
    """The conversation as a model with a short window sees it. For conversations of one turn: a user is not folded."""

    __slots__ = ("_anchor", "_folded", "_head", "_max_rounds", "_starts", "_whole")

    def __init__(
        self,
        system: str | None,
        rule: ReasoningRule = ReasoningRule.CLEAR_ON_USER_TURN,
        image_url: Callable[[str], str] | None = None,
        dialect: Dialect = NATIVE,
        max_images: int | None = None,
        *,
        max_rounds: int,
        opening: int,
    ) -> None:
        """`opening`: how many messages the task's own opening has. Without a user's message in it, nothing is folded,
        as there is no place for the list."""
        self._max_rounds = max_rounds
        self._head = opening + (system is not None)
        self._anchor: int | None = None
        self._folded = 0
        self._whole: list[Message] = []
        self._starts: deque[int] = deque()
        """Where the rounds of the window begin."""
        super().__init__(system, rule, image_url, dialect, max_images)

    @property
    def path(self) -> Sequence[Message]:
        return self._whole

    def add(self, message: Message) -> None:
        self._whole.append(message)
        place = len(self._whole) - 1
        if place < self._head:
            if message.role == "user":
                self._anchor = place
        elif message.role == "assistant":
            if len(self._starts) == self._max_rounds and self._anchor is not None:
                self._fold(self._anchor)
            self._starts.append(len(self.messages))
        super().add(message)

    def _fold(self, anchor: int) -> None:
        start = self._starts.popleft()
        end = self._starts[0] if self._starts else len(self.messages)
        before, (answer, *results) = self._records[self._head : start], self._records[start:end]
        self._folded += 1
        self.rewritten = "window"
        line = f"\n{fold_round(self._folded, before, answer, results)}"
        asked = self._records[anchor]
        text = (asked.content or "") + (FOLDED if self._folded == 1 else "") + line
        self._records[anchor] = msgspec.structs.replace(asked, content=text)
        self._show_anew(anchor)
        if _shows_page(before) and not _shows_page(results):
            # An error alone does not say where the agent is.
            self._take_out(start, end)
            return
        self._take_out(self._head, start + 1)
        for place in range(self._head, self._head + len(results)):
            self._records[place] = Message(
                role="user", content=self._records[place].content, images=self._records[place].images
            )
            self._show_anew(place)

    def _take_out(self, begin: int, end: int) -> None:
        gone = end - begin
        for listed in (self._records, self.messages, self.wire):
            del listed[begin:end]

        def moved(places: Sequence[int]) -> list[int]:
            return [place if place < begin else place - gone for place in places if not begin <= place < end]

        self._pictured = deque(moved(self._pictured))
        self._reasoned = moved(self._reasoned)
        self._starts = deque(moved(self._starts))

    def _join_loose(self) -> None:
        """A window is short, and its beginning changes."""


def fold_round(number: int, before: Sequence[Message], answer: Message, results: Sequence[Message]) -> str:
    """One line for a round: where it was done, what was done, what came of it. `before`: what was seen until then."""
    title = next((title for record in reversed(before) if (title := _title(record)) is not None), None)
    where = f" on [{_short(title, 80)}]" if title else ""
    return f"Step {number}{where}: {_action(answer)} ({_outcome(before, results)})"


def _action(answer: Message) -> str:
    said = _ACTION.search(answer.content or "")
    if said is not None:
        return _short(said[1].rstrip(" *_"), MAX_ACTION)
    calls = ", ".join(f"{call.name} {call.arguments}" for call in answer.tool_calls)
    return _short(calls or answer.content or "nothing", MAX_ACTION)


def _outcome(before: Sequence[Message], results: Sequence[Message]) -> str:
    errors = [error for result in results if (error := error_of(result.content or "")) is not None]
    if errors:
        return f"failed: {_short(errors[0], MAX_ACTION)}"
    if not _shows_page(results):
        return _short(results[-1].content or "", MAX_ACTION) if results else "no result"
    now, then = _page(results), _page(before)
    return "the page changed" if then is None or now != then else "the page stayed the same"


def _page(records: Sequence[Message]) -> tuple[str | None, tuple[str, ...]] | None:
    """The last page that was shown: its text and its images."""
    for record in reversed(records):
        if record.images or _title(record) is not None:
            return record.content, record.images
    return None


def _shows_page(records: Sequence[Message]) -> bool:
    return _page(records) is not None


def _short(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"


def _title(record: Message) -> str | None:
    page = read_text(record.content or "")
    return None if page is None else page.title
