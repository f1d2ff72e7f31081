"""Filters that look at one turn at a time: turns that do nothing, break off, repeat, or call what cannot be called.

What SimpleTIR calls a void turn, neither a complete call nor a final answer, is told apart here: `void_turns` for one
that says nothing or leaves its code open, `malformed_calls` for a call that is not complete, `length_truncated` for one
that was cut. A turn
that the server broke off is none of them: see `endings.Infrastructure`.

Each filter is a frozen record of its parameters; what they are by default stands in `rollout.config.filters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from rollout.core.messages import MALFORMED_CALL, ToolCall
from rollout.trajectories.filters.cycles import find_cycles
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.subject import Subject
from rollout.trajectories.filters.texts import measure_repetition, most_repeated, quote
from rollout.trajectories.filters.turns import Turn, call_status, count_answer, is_shorter


class TrajectoryFilter(Protocol):
    """A filter that needs nothing but the trajectory itself. It never raises, whatever the trajectory holds."""

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        """What it finds, in order."""
        ...


class VoidTurns(msgspec.Struct, frozen=True):
    """Turns that ask for no call and give no answer: empty, garbage, or a fragment of code that was never closed.

    Words to a user, also a question, are not void. A fragment that was cut at the limit is `length_truncated`, and one
    that holds the final answer (`answer_pattern`) is not void.
    """

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
            elif pattern is not None and pattern.search(content):
                continue
            elif turn.has_open_code and turn.finish_reason != "length":
                yield Found("no call, and a block of code that never ends", quote(content[-100:]), turn.turn)
            elif pattern is not None and turn.is_final_answer:
                yield Found("ended without a final answer (answer_pattern)", quote(content[-300:]), turn.turn)


class PrematureEnd(msgspec.Struct, frozen=True):
    """Turns that ended by themselves within fewer tokens than an answer has, and trajectories without any answer.

    The token that ends the turn is not counted, nor is reasoning. A short answer that was scored as solved was long
    enough.
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
            is_short = not (is_solved and turn.is_final_answer) and is_shorter(subject, turn.message, self.min_tokens)
            if turn.is_empty:
                yield Found("ended by itself after nothing", "", turn.turn)
            elif is_short:
                said = f"{count_answer(subject, turn.message)} tokens, fewer than {self.min_tokens}"
                yield Found(
                    f"ended by itself after {said}", quote(subject.messages[turn.message].content or ""), turn.turn
                )


class Repetition(msgspec.Struct, frozen=True):
    """Turns whose text repeats its n-grams, and turns that make the same calls once more: see `cycles`."""

    n: int
    ratio: float
    min_words: int
    calls: Literal["same_answer", "any", "off"]

    def find(self, subject: Subject, turns: Sequence[Turn]) -> Iterator[Found]:
        again = {} if self.calls == "off" else find_cycles(subject, turns, any_answer=self.calls == "any")
        for turn in turns:
            message = subject.messages[turn.message]
            spoken = subject.spoken(turn.message)
            ratio = measure_repetition(spoken, self.n) if len(spoken) >= self.min_words else 0.0
            if len(spoken) >= self.min_words and ratio >= self.ratio:
                ngram, times = most_repeated(spoken, self.n)
                yield Found(f"{ratio:.0%} of its {self.n}-grams repeat", quote(f"{times} x {ngram!r}"), turn.turn)
            period = again.get(turn.turn)
            if period is not None:
                what = "the calls of the turn before" if period == 1 else f"the calls of the last {period} turns"
                yield Found(f"makes {what} once more", _written(message.tool_calls), turn.turn)


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
            # Of several calls the worst counts, and only a malformed one is worse.
            if turn.parse_status not in ("unknown_tool", "malformed"):
                continue
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


def _written(calls: Sequence[ToolCall]) -> str:
    return quote("; ".join(f"{call.name}({call.arguments})" for call in calls))
