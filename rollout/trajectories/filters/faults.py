"""Filters that look at one turn at a time: turns that do nothing, break off, repeat, or call what cannot be called.

What SimpleTIR calls a void turn, neither a complete call nor a final answer, is split here: `void_turns` for one
that says nothing or leaves its code open, `malformed_calls` for a call that is not complete, `length_truncated` for one
that was cut. A turn that the server broke off is none of them: see `endings.InfrastructureErrors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field, field_validator

from rollout.core.messages import MALFORMED_CALL, ToolCall
from rollout.trajectories.filters.cycles import find_cycles
from rollout.trajectories.filters.filter import TurnFilter
from rollout.trajectories.filters.marks import Found, Policy
from rollout.trajectories.filters.texts import measure_repetition, most_repeated, quote
from rollout.trajectories.filters.turns import MIN_TOKENS, NGRAM, Turn, call_status, count_answer, is_shorter
from rollout.trajectories.trajectory import Trajectory


class VoidTurns(TurnFilter):
    """Turns without a call and without an answer: empty, garbage, or a block of code that never ends.

    Words to a user, also a question, are not void. A fragment that was cut at the limit is `length_truncated`, and one
    that holds the final answer (`answer_pattern`) is not void.
    """

    answer_pattern: str | None = None
    """A regular expression that the last answer must hold, where tasks ask for a form, such as `\\\\boxed\\{`."""

    @field_validator("answer_pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from None
        return value

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        pattern = None if self.answer_pattern is None else re.compile(self.answer_pattern)
        for turn in turns:
            message = trajectory.messages[turn.message]
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


class PrematureEnd(TurnFilter):
    """Turns that ended by themselves after next to nothing, and trajectories without an answer."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""
    min_tokens: int = Field(MIN_TOKENS, ge=0)
    """An answer without a call has at least this many tokens, reasoning and the end of turn not counted, unless it was
    scored as solved."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        if not turns:
            yield Found("the agent never answered")
            return
        is_solved = trajectory.success and trajectory.scored
        for turn in turns:
            if turn.parse_status != "none" or turn.is_broken_off or turn.finish_reason == "length":
                continue
            may_be_short = is_solved and turn.is_final_answer
            is_short = not may_be_short and is_shorter(trajectory, turn.message, self.min_tokens)
            if turn.is_empty:
                yield Found("ended by itself after nothing", "", turn.turn)
            elif is_short:
                said = f"{count_answer(trajectory, turn.message)} tokens, fewer than {self.min_tokens}"
                yield Found(
                    f"ended by itself after {said}", quote(trajectory.messages[turn.message].content or ""), turn.turn
                )


class Repetition(TurnFilter):
    """Turns whose words repeat, and turns that make the same calls again."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""
    n: int = Field(NGRAM, ge=1)
    """Words of an n-gram."""
    ratio: float = Field(0.5, gt=0, le=1)
    """From this share of n-grams that were there before."""
    min_words: int = Field(20, ge=1)
    """Shorter texts are not looked at."""
    calls: Literal["same_answer", "any", "off"] = "same_answer"
    """Calls that repeat since the user last spoke, at once or in a cycle: same_answer, unless the world's answers show
    progress; any; off."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        again = {} if self.calls == "off" else find_cycles(trajectory, turns, any_answer=self.calls == "any")
        for turn in turns:
            message = trajectory.messages[turn.message]
            spoken = trajectory.spoken(turn.message)
            ratio = measure_repetition(spoken, self.n) if len(spoken) >= self.min_words else 0.0
            if len(spoken) >= self.min_words and ratio >= self.ratio:
                ngram, times = most_repeated(spoken, self.n)
                yield Found(f"{ratio:.0%} of its {self.n}-grams repeat", quote(f"{times} x {ngram!r}"), turn.turn)
            period = again.get(turn.turn)
            if period is not None:
                what = "the calls of the turn before" if period == 1 else f"the calls of the last {period} turns"
                yield Found(f"makes {what} once more", _written(message.tool_calls), turn.turn)


class MalformedCalls(TurnFilter):
    """Turns with a call that could not be read: broken JSON, or a call written into the text."""

    bad_arguments: bool = False
    """Also calls whose arguments can be read and do not fit the tool's schema."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            if turn.is_broken_off or turn.parse_status not in ("malformed", "bad_args"):
                continue
            calls = trajectory.answered_calls(turn.message)
            if not calls:
                content = trajectory.messages[turn.message].content or ""
                yield Found("a call that could not be read is in its text", quote(content), turn.turn)
            for call, _, kind in calls:
                status = call_status(call, kind)
                if status == "malformed":
                    what = "a call in its text" if call.name == MALFORMED_CALL else f"the call of {call.name}"
                    yield Found(f"{what} could not be read", _written([call]), turn.turn)
                    break
                if status == "bad_args" and self.bad_arguments:
                    yield Found(f"the arguments do not fit {call.name}", _written([call]), turn.turn)
                    break


class UnknownTools(TurnFilter):
    """Turns that call a tool that was not offered."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            # Of several calls the worst counts, and only a malformed one is worse.
            if turn.parse_status not in ("unknown_tool", "malformed"):
                continue
            for call, _, kind in trajectory.answered_calls(turn.message):
                if call_status(call, kind) == "unknown_tool":
                    yield Found(f"there is no tool {call.name!r}", _written([call]), turn.turn)
                    break


class LengthTruncated(TurnFilter):
    """Turns that were cut at the limit of tokens: their end was never sampled."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            if turn.finish_reason == "length":
                message = trajectory.messages[turn.message]
                counted = "" if turn.tokens is None else f" at {turn.tokens} tokens"
                yield Found(f"cut{counted}", quote((message.content or message.reasoning or "")[-100:]), turn.turn)


def _written(calls: Sequence[ToolCall]) -> str:
    return quote("; ".join(f"{call.name}({call.arguments})" for call in calls))
