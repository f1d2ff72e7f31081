"""A view of the last steps only: each older step is one line.

A round is an answer and the results of its calls. With `max_rounds` only that many of the last rounds are sent as
messages. They are always preceded by the system prompt and the task's opening, whose last user message lists the steps
that are no longer sent, and by the page that the first answer of the window responded to, because an answer to
something unseen would make no sense. That page was a tool's result and is sent as a user message, since its call is
gone.

A line names the page by the `title` in the observation's data, and gives the `error` there. Both are saved as captions
in the metadata of the trajectory (`view.captions`), so that the same lines are made again from a saved trajectory.

Each round is removed once. The list grows by a line for each, so the cost is that of the line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from rollout.agents.dialects import NATIVE, Dialect
from rollout.agents.view import ContextView, ReasoningRule
from rollout.core.messages import JSON, Message
from rollout.core.results import error_of
from rollout.trajectories.earlier_observations import recover_page

FOLDED = "\n\nSteps you have taken before those shown below:"
MAX_ACTION = 200
_ACTION = re.compile(r"^\W*Action\W*:\W*(\S.*)$", re.MULTILINE)


class Caption(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a line about a step says of an observation."""

    title: str | None = None
    """None where it shows no page."""
    error: str | None = None


NO_CAPTION = Caption()
_Seen = tuple[Message, Caption]


class FoldingView(ContextView):
    """The conversation as a model with a short window sees it. For conversations of one turn: a user is not folded."""

    __slots__ = ("_anchor", "_begin", "_captions", "_folded", "_head", "_max_rounds", "_saved", "_starts", "_whole")

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
        """`opening`: how many messages the task's own opening has. Without a user message in it nothing is folded, as
        there is no place for the list."""
        self._max_rounds = max_rounds
        self._head = opening + (system is not None)
        self._anchor: int | None = None
        self._folded = 0
        self._whole: list[Message] = []
        self._captions: list[Caption] = []
        """Of each of the records."""
        self._saved: list[JSON] = []
        """The captions that came from data, by the places of their messages in the trajectory."""
        self._begin = int(system is not None)
        self._starts: deque[int] = deque()
        """Where the rounds of the window begin."""
        super().__init__(system, rule, image_url, dialect, max_images)

    @property
    def path(self) -> Sequence[Message]:
        return self._whole

    @property
    def captions(self) -> list[JSON] | None:
        return self._saved or None

    def add(self, message: Message, data: JSON | None = None) -> None:
        self._whole.append(message)
        caption = _caption(message, data)
        if data is not None:
            self._saved.append({"message": len(self._whole) - 1 - self._begin, **msgspec.to_builtins(caption)})
        place = len(self._whole) - 1
        if place < self._head:
            if message.role == "user":
                self._anchor = place
        elif message.role == "assistant":
            if len(self._starts) == self._max_rounds and self._anchor is not None:
                self._fold(self._anchor)
            self._starts.append(len(self.messages))
        self._captions.append(caption)
        super().add(message)

    def _fold(self, anchor: int) -> None:
        start = self._starts.popleft()
        end = self._starts[0] if self._starts else len(self.messages)
        seen = list(zip(self._records, self._captions, strict=True))
        before, ((answer, _), *results) = seen[self._head : start], seen[start:end]
        self._folded += 1
        self.rewritten = "window"
        line = f"\n{_fold_round(self._folded, before, answer, results)}"
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
        for listed in (self._records, self._captions, self.messages, self.wire):
            del listed[begin:end]

        def moved(places: Sequence[int]) -> list[int]:
            return [place if place < begin else place - gone for place in places if not begin <= place < end]

        self._pictured = deque(moved(self._pictured))
        self._reasoned = moved(self._reasoned)
        self._starts = deque(moved(self._starts))

    def _join_loose(self) -> None:
        """A window is short, and its beginning changes."""


def _fold_round(number: int, before: Sequence[_Seen], answer: Message, results: Sequence[_Seen]) -> str:
    """One line for a round: where it was done, what was done, and the outcome. `before`: what was seen until then."""
    title = next((caption.title for _, caption in reversed(before) if caption.title is not None), None)
    where = f" on [{_short(title, 80)}]" if title else ""
    return f"Step {number}{where}: {_action(answer)} ({_outcome(before, results)})"


def _action(answer: Message) -> str:
    said = _ACTION.search(answer.content or "")
    if said is not None:
        return _short(said[1].rstrip(" *_"), MAX_ACTION)
    calls = ", ".join(f"{call.name} {call.arguments}" for call in answer.tool_calls)
    return _short(calls or answer.content or "nothing", MAX_ACTION)


def _outcome(before: Sequence[_Seen], results: Sequence[_Seen]) -> str:
    errors = [caption.error for _, caption in results if caption.error is not None]
    if errors:
        return f"failed: {_short(errors[0], MAX_ACTION)}"
    if not _shows_page(results):
        return _short(results[-1][0].content or "", MAX_ACTION) if results else "no result"
    now, then = _page(results), _page(before)
    return "the page changed" if then is None or now != then else "the page stayed the same"


def _page(seen: Sequence[_Seen]) -> tuple[str | None, tuple[str, ...]] | None:
    """The last page that was shown: its text and its images."""
    for record, caption in reversed(seen):
        if record.images or caption.title is not None:
            return record.content, record.images
    return None


def _shows_page(seen: Sequence[_Seen]) -> bool:
    return _page(seen) is not None


def _caption(message: Message, data: JSON | None) -> Caption:
    if data is not None:
        title, error = data.get("title"), data.get("error")
        return Caption(None if title is None else str(title), None if error is None else _short(str(error), MAX_ACTION))
    if message.role == "assistant" or message.role == "system":
        return NO_CAPTION
    page = recover_page(message.content)
    return Caption(None if page is None else page.title, error_of(message.content or ""))


def _short(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"
