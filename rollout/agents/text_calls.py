"""Tool calls that a model writes into its text, as Qwen and Hermes models do.

A call is `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, several of them stand one after the other, words may
stand around them, and reasoning before all of it: `<think>…</think>`, or text up to a lone `</think>` where the chat
template wrote the opening mark itself.

Reading is strict and loses nothing. Strict: what is no call by these rules is not made one by guessing. Loses nothing:
an attempt at a call that cannot be read is a call all the same, one that is answered by what was wrong with it; the
message keeps the whole text beside what was read out of it. Marks within the strings of a call's JSON are only text.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import msgspec

from rollout.core.calls import malformed_call
from rollout.core.messages import CALL_BEGIN, CALL_END, MALFORMED_CALL, WRITTEN_CALL, Message
from rollout.models.completion import read_calls

UNCALLED = "the answer calls no tool"
THINK_BEGIN, THINK_END = "<think>", "</think>"
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_name = msgspec.json.Decoder(str).decode
_SPACE = re.compile(r"\s*")


class Asked(msgspec.Struct, frozen=True):
    """A call as a text has it: what it asks for, or what is wrong with it."""

    name: str = ""
    arguments: str = "{}"
    problem: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """What a text holds."""

    said: str
    """The words around the calls."""
    asked: tuple[Asked, ...]


def read_answer(message: Message, seed: int | None, *, must_call: bool) -> Message:
    """An answer with the calls that are written in its text. `must_call`: words alone are a malformed call, too."""
    text = message.content or ""
    thought, rest = (None, text) if message.reasoning is not None else split_reasoning(text)
    reading = read_calls_of(rest)
    asked = reading.asked
    if must_call and not asked:
        is_cut = thought is not None and THINK_END not in text
        why = f"the answer ends within {THINK_BEGIN}" if is_cut else UNCALLED
        asked = (Asked(problem=_wrong(why)),)
    if not asked and thought is None:
        return message
    read = read_calls([(None, entry.name, entry.arguments) for entry in asked], seed)
    calls = tuple(
        call if entry.problem is None else malformed_call(call.id, entry.problem)
        for call, entry in zip(read, asked, strict=True)
    )
    said = reading.said.strip() or None
    return Message(
        role="assistant",
        content=said,
        tool_calls=calls,
        reasoning=thought or message.reasoning,
        raw=text if text != (said or "") else None,
    )


def split_reasoning(text: str) -> tuple[str | None, str]:
    """The reasoning at the beginning of a text, None where there is none, and the rest. Without an end it is all."""
    begin = _skip_space(text, 0)
    if text.startswith(THINK_BEGIN, begin):
        thought, _, rest = text[begin + len(THINK_BEGIN) :].partition(THINK_END)
        return thought.strip(), rest.lstrip()
    end = _lone_end(text)
    return (None, text) if end < 0 else (text[:end].strip(), text[end + len(THINK_END) :].lstrip())


def _lone_end(text: str) -> int:
    """Where a lone `</think>` stands that is not within the JSON of a call; -1 where there is none."""
    end = text.find(THINK_END)
    begin = text.find(CALL_BEGIN)
    while 0 <= begin < end:
        close = _json_end(text, begin + len(CALL_BEGIN))
        if close is not None and close > end:
            end = text.find(THINK_END, close)
        begin = text.find(CALL_BEGIN, begin + len(CALL_BEGIN) if close is None else close)
    return end


def read_calls_of(text: str) -> Reading:
    """The calls of a text without reasoning, in order, and the words around them."""
    said: list[str] = []
    asked: list[Asked] = []
    place = 0
    while True:
        begin, end = text.find(CALL_BEGIN, place), text.find(CALL_END, place)
        if begin < 0 and end < 0:
            said.append(text[place:])
            return Reading("".join(said), tuple(asked))
        if begin < 0 or 0 <= end < begin:
            said.append(text[place:end])
            asked.append(Asked(problem=_wrong(f"{CALL_END} stands without {CALL_BEGIN} before it")))
            place = end + len(CALL_END)
            continue
        said.append(text[place:begin])
        call, place = _read_call(text, begin + len(CALL_BEGIN))
        asked.append(call)


def _read_call(text: str, start: int) -> tuple[Asked, int]:
    """The call whose JSON begins here, and where the text goes on behind it."""
    close = _json_end(text, start)
    if close is not None and text.startswith(CALL_END, close):
        return _read_object(text[start:close]), close + len(CALL_END)
    after = start if close is None else close
    end, following = text.find(CALL_END, after), text.find(CALL_BEGIN, after)
    if end < 0 or 0 <= following < end:
        return Asked(problem=_wrong(f"{CALL_END} is missing")), len(text) if following < 0 else following
    if close is None:
        problem = _json_problem(text[start:end])
    else:
        problem = f"something stands between the JSON object and {CALL_END}"
    return Asked(problem=_wrong(problem)), end + len(CALL_END)


def _read_object(text: str) -> Asked:
    try:
        fields = _read_fields(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        return Asked(problem=_wrong(f"it is not one JSON object ({error})"))
    try:
        name = _read_name(fields["name"])
    except (KeyError, msgspec.MsgspecError):
        name = ""
    if not name or name == MALFORMED_CALL:
        return Asked(problem=_wrong("it has no name of a tool"))
    arguments = fields.get("arguments")
    if arguments is not None:
        return Asked(name, bytes(arguments).decode())
    if len(fields) > 1:
        return Asked(problem=_wrong(f"{name}: it has no arguments; expected an object of their own"))
    return Asked(name)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def _json_end(text: str, start: int) -> int | None:
    """Where the JSON value that begins here ends, the space behind it included; None where there is none."""
    try:
        _, end = _decoder.raw_decode(text, _skip_space(text, start))
    except (ValueError, RecursionError):
        return None
    return _skip_space(text, end)


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _json_problem(text: str) -> str:
    try:
        _decoder.decode(text)
    except json.JSONDecodeError as error:
        return f"it is not valid JSON ({error.msg} at character {error.pos})"
    except (ValueError, RecursionError) as error:
        return f"it is not valid JSON ({error})"
    return "it is not valid JSON"


def _wrong(problem: str) -> str:
    return f"The call could not be read: {problem}. Write {WRITTEN_CALL}"
