"""Filters that look at one turn at a time: turns that do nothing, break off, repeat, or call what cannot be called.

What SimpleTIR calls a void turn, neither a complete call nor a final answer, is told apart here: `void_turns` for one
that tries nothing, `malformed_calls` for a call that is not complete, `length_truncated` for one that was cut. A turn
that the server broke off is none of them: see `endings.Infrastructure`.

Each filter is a frozen record of its parameters; what they are by default stands in `rollout.config.filters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from rollout.messages import MALFORMED_CALL, ToolCall, read_arguments
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.subject import Subject
from rollout.trajectories.filters.texts import count_tokens, measure_repetition, quote, words
from rollout.trajectories.filters.turns import Turn, call_status

INFRASTRUCTURE = frozenset({"timeout", "crash"})
"""Kinds of error observations after which calling again is sensible."""


class TrajectoryFilter(Protocol):
    """A filter that needs nothing but the trajectory itself. It never raises, whatever the trajectory holds."""

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        """What it finds, in order."""
        ...


class VoidTurns(msgspec.Struct, frozen=True):
    """Turns that ask for no call and say nothing: empty, or garbage. Words to a user, also a question, are not void."""

    answer_pattern: str | None

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        pattern = None if self.answer_pattern is None else re.compile(self.answer_pattern)
        for turn in turns:
            message = subject.messages[turn.message]
            content = message.content or ""
            if turn.is_broken_off or turn.parse_status != "none":
                continue
            if turn.is_empty:
                thought = message.reasoning
                yield Found(
                    "no call and no words" + (", only reasoning" if thought else ""), quote(thought or ""), turn.turn
                )
            elif turn.is_garbled:
                yield Found("no call, and words that say nothing", quote(content), turn.turn)
            elif pattern is not None and turn.is_final_answer and not pattern.search(content):
                yield Found("ended without a final answer (answer_pattern)", quote(content[-300:]), turn.turn)


class PrematureEnd(msgspec.Struct, frozen=True):
    """Turns that ended by themselves within fewer tokens than an answer has, and trajectories without any answer.

    A short answer that was scored as solved was long enough.
    """

    min_tokens: int

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        if not turns:
            yield Found("the agent never answered")
            return
        is_solved = subject.head.success and bool(subject.head.metadata.get("scored"))
        for turn in turns:
            if turn.parse_status != "none" or turn.is_broken_off or turn.finish_reason == "length":
                continue
            content = subject.messages[turn.message].content or ""
            length = count_tokens(content) if turn.tokens is None else turn.tokens
            if turn.is_empty or (length < self.min_tokens and not (is_solved and turn.is_final_answer)):
                said = "nothing" if turn.is_empty else f"{length} tokens, fewer than {self.min_tokens}"
                yield Found(f"ended by itself after {said}", quote(content), turn.turn)


class Repetition(msgspec.Struct, frozen=True):
    """Turns whose text repeats its n-grams, and turns that make the calls of the turn before once more.

    Calling again after a time-out or a crash is no repetition. With `same_answer` calls count only where the world
    answered as before or with an error: scrolling down a page is no repetition.
    """

    n: int
    ratio: float
    min_words: int
    calls: Literal["same_answer", "any", "off"]

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        before: Turn | None = None
        for turn in turns:
            message = subject.messages[turn.message]
            said = words(" ".join(filter(None, (message.reasoning, message.content))))
            if len(said) >= self.min_words:
                repeated = measure_repetition(said, self.n)
                if repeated.ratio >= self.ratio:
                    reason = f"{repeated.ratio:.0%} of its {self.n}-grams repeat"
                    yield Found(reason, quote(f"{repeated.times} x {repeated.ngram!r}"), turn.turn)
            if not message.tool_calls:
                continue
            if self.calls != "off" and before is not None and self._is_again(subject, before, turn):
                yield Found("makes the calls of the turn before once more", _written(message.tool_calls), turn.turn)
            before = turn

    def _is_again(self, subject: Subject, before: Turn, turn: Turn) -> bool:
        first, second = subject.results_of(before.message), subject.results_of(turn.message)
        if [_key(call) for call, _, _ in first] != [_key(call) for call, _, _ in second]:
            return False
        if any(kind in INFRASTRUCTURE for _, _, kind in first):
            return False
        return self.calls == "any" or all(
            kind is not None or (old is not None and new is not None and old.content == new.content)
            for (_, old, _), (_, new, kind) in zip(first, second, strict=True)
        )


class MalformedCalls(msgspec.Struct, frozen=True):
    """Turns with a call that could not be read."""

    bad_arguments: bool

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            if turn.is_broken_off or turn.parse_status not in ("malformed", "bad_args"):
                continue
            calls = subject.results_of(turn.message)
            if not calls:
                content = subject.messages[turn.message].content or ""
                yield Found("a call that nobody could read stands in its text", quote(content), turn.turn)
            for call, _, kind in calls:
                status = call_status(call, kind)
                if status == "malformed":
                    what = "a call in its text" if call.name == MALFORMED_CALL else f"the call of {call.name}"
                    yield Found(f"{what} could not be read", _written([call]), turn.turn)
                    break
                if status == "bad_args" and self.bad_arguments:
                    yield Found(f"the arguments do not fit {call.name}", _written([call]), turn.turn)
                    break


class UnknownTools(msgspec.Struct, frozen=True):
    """Turns that call a tool that was not offered."""

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            for call, _, kind in subject.results_of(turn.message):
                if call_status(call, kind) == "unknown_tool":
                    yield Found(f"there is no tool {call.name!r}", _written([call]), turn.turn)
                    break


class LengthTruncated(msgspec.Struct, frozen=True):
    """Turns that were cut at the limit of tokens: their end was never sampled."""

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            if turn.finish_reason == "length":
                message = subject.messages[turn.message]
                counted = "" if turn.tokens is None else f" at {turn.tokens} tokens"
                yield Found(f"cut{counted}", quote((message.content or message.reasoning or "")[-100:]), turn.turn)


def _key(call: ToolCall) -> tuple[str, object]:
    """A call without what differs between two that ask for the same."""
    return call.name, read_arguments(call)


def _written(calls: Sequence[ToolCall]) -> str:
    return quote("; ".join(f"{call.name}({call.arguments})" for call in calls))
