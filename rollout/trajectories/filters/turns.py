"""Turns: facts about each answer of the agent. Could its calls be read, was it the last word, how did it end?

Facts only: whether any of them is a fault is for filters to say, and for training data. They are kept
apart so that no later rule has to be guessed back out of one boolean.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from rollout.core.messages import MALFORMED_CALL, ToolCall, is_readable
from rollout.trajectories.filters.code_blocks import read_blocks
from rollout.trajectories.filters.texts import count_garbled, count_tokens, is_garbled, measure_repetition
from rollout.trajectories.filters.written_calls import has_written_call
from rollout.trajectories.generation import FinishReason, Generation
from rollout.trajectories.stop import WORDLESS_ENDS
from rollout.trajectories.trajectory import Trajectory

ParseStatus = Literal["ok", "none", "malformed", "unknown_tool", "bad_args"]
MIN_TOKENS = 2
NGRAM = 4
_WORST: tuple[ParseStatus, ...] = ("malformed", "unknown_tool", "bad_args", "ok")


class Turn(msgspec.Struct, frozen=True):
    """One answer of the agent."""

    turn: int
    """Its number among the agent's answers, from 0."""
    message: int
    """Its place in the messages."""
    parse_status: ParseStatus
    """`none`: it asks for no call. `malformed`: a call that is no name and JSON object, or was left standing in the
    text. `unknown_tool`: not offered. `bad_args`: an object that does not fit the tool's schema. Of several calls the
    worst counts."""
    is_final_answer: bool
    """The agent's last word, said: in whole words, or by a call that ended the work."""
    speaks_to_user: bool
    """It says something, asks for no call, and the user speaks next: an answer or a question."""
    is_empty: bool
    """No call and no words; reasoning alone says nothing to anybody."""
    is_garbled: bool
    """Words are there and are garbage."""
    finish_reason: FinishReason
    """`unknown` where only the line is known."""
    premature: bool
    """It ended by itself, without a call, within fewer tokens than an answer has."""
    repetition: float
    """The share of n-grams of its words and reasoning that repeat."""
    tokens: int | None
    """As the server counted them."""
    garbled: int
    """Characters that no writer means."""
    mean_logprob: float | None
    min_logprob: float | None
    has_open_code: bool = False
    """It asks for no call, and a block of code in its words never ends."""

    @property
    def is_broken_off(self) -> bool:
        """The server did not let it end; that says nothing about the agent."""
        return self.finish_reason in ("abort", "content_filter")


def read_turns(trajectory: Trajectory, *, min_tokens: int = MIN_TOKENS, ngram: int = NGRAM) -> list[Turn]:
    """The agent's answers, in order. `min_tokens`: an answer of fewer is premature; `ngram`: for `repetition`."""
    opening = trajectory.opening
    answers = [
        place for place, message in enumerate(trajectory.messages) if message.role == "assistant" and place >= opening
    ]
    return [_read(trajectory, number, answers, min_tokens, ngram) for number, place in enumerate(answers)]


def _read(trajectory: Trajectory, number: int, answers: list[int], min_tokens: int, ngram: int) -> Turn:
    place, messages = answers[number], trajectory.messages
    message = messages[place]
    content = message.content or ""
    generation = trajectory.generated.get(place)
    finish: FinishReason = "unknown" if generation is None else generation.finish_reason
    status = _parse_status(trajectory, place)
    garbled = is_garbled(content)
    says = status == "none" and bool(content.strip()) and not garbled
    is_fragment = says and read_blocks(content).is_open
    is_whole = finish not in ("length", "abort", "content_filter")
    is_last = number == len(answers) - 1
    ended_world = is_last and status == "ok" and trajectory.stop_reason in WORDLESS_ENDS
    after = messages[place + 1].role if place + 1 < len(messages) else None
    counted = None if generation is None else _counted(generation)
    tokens = None if generation is None else generation.tokens
    logprobs = () if tokens is None else tokens.logprobs
    return Turn(
        turn=number,
        message=place,
        parse_status=status,
        is_final_answer=ended_world or (is_last and says and is_whole and not is_fragment),
        speaks_to_user=says and is_whole and after == "user",
        is_empty=status == "none" and not content.strip(),
        is_garbled=garbled,
        finish_reason=finish,
        premature=status == "none" and is_whole and (not content.strip() or is_shorter(trajectory, place, min_tokens)),
        repetition=round(measure_repetition(trajectory.spoken(place), ngram), 6),
        tokens=counted,
        garbled=count_garbled(content),
        mean_logprob=round(math.fsum(logprobs) / len(logprobs), 6) if logprobs else None,
        min_logprob=round(min(logprobs), 6) if logprobs else None,
        has_open_code=is_fragment,
    )


def count_answer(trajectory: Trajectory, place: int) -> int:
    """How many tokens the answer at a place has, without its reasoning and without the token that ends the turn.

    Some servers count that last token and some do not, and nothing in their answer says which. So a count is taken as
    one that has it, unless the text itself shows that it has more tokens.
    """
    return max(count_tokens(trajectory.messages[place].content or ""), _least(trajectory, place))


def is_shorter(trajectory: Trajectory, place: int, tokens: int) -> bool:
    """Whether the answer at a place has fewer tokens than this."""
    return _least(trajectory, place) < tokens and count_answer(trajectory, place) < tokens


def _least(trajectory: Trajectory, place: int) -> int:
    """How many tokens an answer has by the server's count at least."""
    generation = trajectory.generated.get(place)
    counted = None if generation is None else _counted(generation)
    if generation is None or counted is None:
        return 0
    reasoning = generation.usage.reasoning_tokens
    if trajectory.messages[place].reasoning and not reasoning:
        return 0  # it is in the count, and the share of it is unknown
    return counted - reasoning - 1


def _counted(generation: Generation) -> int | None:
    """All tokens of an answer, as the server counted them or gave them; None where it did neither."""
    tokens = generation.tokens
    return generation.usage.completion_tokens or (None if tokens is None else len(tokens.completion_ids) or None)


def _parse_status(trajectory: Trajectory, place: int) -> ParseStatus:
    message = trajectory.messages[place]
    found = {call_status(call, kind) for call, _, kind in trajectory.answered_calls(place)}
    if not found:
        return "malformed" if has_written_call(message.content or "", lambda: _known_tools(trajectory)) else "none"
    return next(status for status in _WORST if status in found)


def _known_tools(trajectory: Trajectory) -> frozenset[str]:
    """The tools that were offered, or at least those that answered."""
    called = (call.name for message in trajectory.messages for call in message.tool_calls)
    return trajectory.tool_names or frozenset(called)


def call_status(call: ToolCall, error_kind: str | None) -> ParseStatus:
    """How far one call could be read; `error_kind` is that of its result."""
    if error_kind == "unknown_tool":
        return "unknown_tool"
    if call.name == MALFORMED_CALL and error_kind in (None, MALFORMED_CALL):
        return "malformed"
    if call.arguments and not is_readable(call):
        return "malformed"
    return "bad_args" if error_kind == "bad_arguments" else "ok"
