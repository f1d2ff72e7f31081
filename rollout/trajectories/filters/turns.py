"""What each answer of the agent was, fact by fact: could its calls be read, was it the last word, how did it end.

Facts only: whether any of them is a fault is for filters to say, and for whoever makes training data. They are kept
apart so that no later rule has to be guessed back out of one boolean.
"""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from rollout.messages import MALFORMED_CALL, ToolCall, is_readable
from rollout.trajectories.filters.subject import Subject
from rollout.trajectories.filters.texts import count_garbled, count_tokens, is_garbled, measure_repetition, words
from rollout.trajectories.generation import FinishReason
from rollout.trajectories.stop import WORDLESS_ENDS

ParseStatus = Literal["ok", "none", "malformed", "unknown_tool", "bad_args"]
MIN_TOKENS = 2
NGRAM = 4
_WORST: tuple[ParseStatus, ...] = ("malformed", "unknown_tool", "bad_args", "ok")
_UNREAD_CALL = re.compile(
    r"^\s*(<tool_call>|<function_call>|<function=|<\|tool_call|<｜tool▁call|\[TOOL_CALLS\]|<\|python_tag\|>)",
    re.MULTILINE,
)


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

    @property
    def is_broken_off(self) -> bool:
        """The server did not let it end; that says nothing about the agent."""
        return self.finish_reason in ("abort", "content_filter")


def read_turns(subject: Subject, *, min_tokens: int = MIN_TOKENS, ngram: int = NGRAM) -> list[Turn]:
    """The agent's answers, in order. `min_tokens`: an answer of fewer is premature; `ngram`: for `repetition`."""
    answers = [
        place
        for place, message in enumerate(subject.messages)
        if message.role == "assistant" and place >= subject.opening
    ]
    return [_read(subject, number, answers, min_tokens, ngram) for number, place in enumerate(answers)]


def _read(subject: Subject, number: int, answers: list[int], min_tokens: int, ngram: int) -> Turn:
    place = answers[number]
    message = subject.messages[place]
    content = message.content or ""
    generation = subject.generations.get(place)
    finish: FinishReason = "unknown" if generation is None else generation.finish_reason
    status = _parse_status(subject, place)
    garbled = is_garbled(content)
    says = status == "none" and bool(content.strip()) and not garbled
    is_whole = finish not in ("length", "abort", "content_filter")
    is_last = number == len(answers) - 1
    ended_world = is_last and status == "ok" and subject.stop_reason in WORDLESS_ENDS
    after = subject.messages[place + 1].role if place + 1 < len(subject.messages) else None
    counted = None if generation is None else generation.usage.completion_tokens or None
    tokens = None if generation is None else generation.tokens
    if counted is None and tokens is not None and tokens.completion_ids:
        counted = len(tokens.completion_ids)
    length = counted if counted is not None else count_tokens(content)
    logprobs = () if tokens is None else tokens.logprobs
    said = " ".join(filter(None, (message.reasoning, content)))
    return Turn(
        turn=number,
        message=place,
        parse_status=status,
        is_final_answer=ended_world or (is_last and says and is_whole),
        speaks_to_user=says and is_whole and after == "user",
        is_empty=status == "none" and not content.strip(),
        is_garbled=garbled,
        finish_reason=finish,
        premature=status == "none" and is_whole and (length < min_tokens or not content.strip()),
        repetition=round(measure_repetition(words(said), ngram).ratio, 6),
        tokens=counted,
        garbled=count_garbled(content),
        mean_logprob=round(math.fsum(logprobs) / len(logprobs), 6) if logprobs else None,
        min_logprob=round(min(logprobs), 6) if logprobs else None,
    )


def _parse_status(subject: Subject, place: int) -> ParseStatus:
    message = subject.messages[place]
    found = {call_status(call, kind) for call, _, kind in subject.results_of(place)}
    if not found:
        return "malformed" if _UNREAD_CALL.search(message.content or "") else "none"
    return next(status for status in _WORST if status in found)


def call_status(call: ToolCall, error_kind: str | None) -> ParseStatus:
    """How far one call could be read; `error_kind` is that of its result."""
    if error_kind == "unknown_tool":
        return "unknown_tool"
    if call.name == MALFORMED_CALL and error_kind in (None, MALFORMED_CALL):
        return "malformed"
    if call.arguments and not is_readable(call):
        return "malformed"
    return "bad_args" if error_kind == "bad_arguments" else "ok"
