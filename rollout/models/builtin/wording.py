"""Text that the built-in oracle writes beside its calls: reasoning, short lead-ins and closings.

All of it follows from what the oracle does in this step and from what the conversation already holds: the user's last
words, the last call and its result, the description of the tool, and where an argument's value was seen before. It says
nothing about later reference actions, and it does not announce a mistake. PINs and passwords are never repeated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, ToolCall, ToolSpec
from rollout.models.builtin.excerpts import (
    CREDENTIALS,
    SECRET,
    SENTENCE,
    cut,
    decoded,
    facts_of,
    origins_of,
    quote_of,
    shown,
)

_IDENTIFIES = re.compile(r"authori[sz]|authenticate|verify_|log_?in|sign_?in", re.IGNORECASE)
_AGREES = re.compile(
    r"^\W*(yes|yep|yeah|sure|ok(ay)?|correct|right|exactly|confirmed|go ahead|please do|do it|do both|fine|perfect|"
    r"great|sounds (good|great)|that'?s right)\b",
    re.IGNORECASE,
)
REFUSES = re.compile(
    r"\b(can't|cannot|can not|couldn't|could not|unable to|not possible|not allowed|may not|must not|won't|"
    r"only the [A-Z]|no refund)\b"
)
_ASKS_WHO = re.compile(r"\b(PIN|student id|traveller id|email on file|who (you|I)\b.*)", re.IGNORECASE)
_ASKS_CONSENT = re.compile(r"\b(shall i|should i|may i|do you want me|is that right|go ahead|confirm)\b", re.IGNORECASE)
_WISHES = re.compile(
    r"\?|\bplease\b|\b(I|we)('d| would)? (like|need|want|love|have to)\b|^(can|could|would|will|book|cancel|change|"
    r"move|add|drop|remove|send|show|tell|give|make|put|sign|enroll|check|find|get|pay|refund|swap|order|update)\b",
    re.IGNORECASE,
)
"""Words that ask for something, unlike an answer or a thank-you."""
_ASKS_CHOICE = re.compile(
    r"^(and )?(which|what|how|when|where|who)\b|\bor\b|\b(shall|should|may) i (look|check|search|find|see|tell)\b",
    re.IGNORECASE,
)
_READING = {"get": "look up the", "list": "see the", "search": "search the", "find": "find the", "fetch": "look up the"}
_LOOKS_UP = re.compile(
    r"(^|_)(get|list|search|find|fetch|look|lookup|show|view|see|read|check|query|browse|describe|count|compare)(_|$)",
    re.IGNORECASE,
)
_FAILED = "I'm sorry, I could not do that."
_MAX_PURPOSE = 105


class Recent(msgspec.Struct):
    """What a step follows on: the user's last words, and the last call since then with its result."""

    said: str = ""
    call: ToolCall | None = None
    result: str = ""
    has_called: bool = False
    was_silent: bool = False
    """Whether the user had to ask again because the agent had said nothing."""

    @property
    def error(self) -> str | None:
        """The text of the error that the last call met, if it met one."""
        if not self.result.startswith('{"error"'):
            return None
        try:
            return str(msgspec.json.decode(self.result)["error"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return self.result


def recent(path: Sequence[Message]) -> Recent:
    """Read it off the end of a conversation."""
    found = Recent()
    for place in range(len(path) - 1, -1, -1):
        message = path[place]
        if message.role == "user":
            found.said = message.content or ""
            before = path[place - 1] if place else message
            found.was_silent = before.role == "assistant" and not before.content and not before.tool_calls
            break
        if message.role == "tool" and not found.has_called and not found.result:
            found.result = message.content or ""
        elif message.tool_calls and not found.has_called:
            found.call, found.has_called = message.tool_calls[-1], True
    return found


def lead_in(spec: ToolSpec | None, name: str, last: Recent, chance: random.Random) -> str:
    """What is said to the user beside a call. Only the first call of a turn is introduced."""
    if last.has_called:
        return ""
    if _IDENTIFIES.search(name):
        return chance.choice(("Thank you. Let me verify your details first.", "I'll verify your details first.", ""))
    if _changes(spec):
        return chance.choice(("All right, I'm doing that now.", "Thank you. I'm making the change now.", ""))
    if not _reads(spec, name):
        return chance.choice(("I'll do that now.", "One moment, please.", "All right.", ""))
    return chance.choice(("Let me look that up.", "One moment, I'm checking.", "I'll have a look.", ""))


_WHO_FIRST = (
    "Before I look at anything I have to know who is writing, and the details for that are here.",
    "No record may be opened before they are identified, so I start with {name}.",
    "They gave what {name} needs, so I identify them first.",
)
_ALSO_THERE = (
    "This system identifies them separately, with the same details.",
    "{name} comes first here, too, before any record is opened.",
)


def reason_for_call(
    name: str,
    arguments: JSON | None,
    last: Recent,
    path: Sequence[Message],
    spec: ToolSpec | None,
    chance: random.Random,
) -> str:
    """Why this call is made now. `arguments` is None where they are not known; `spec` is the tool that is meant."""
    parts = [_take_up(name, arguments, last, chance, is_consent=_changes(spec))]
    if last.call is not None and (last.call.name == name or last.error is not None):
        return " ".join(filter(None, parts)) or f"I call {name} again."
    purpose = _purpose(name, spec.description if spec is not None else "")
    if _changes(spec):
        parts.append(
            chance.choice((f"Now I {purpose}", f"The next change is to {purpose}", f"I use {name} to {purpose}"))
        )
        detail = origins_of(arguments or {}, path)
        parts[-1] += f": {detail}." if detail else "."
    elif _IDENTIFIES.search(name):
        parts.append(chance.choice(_ALSO_THERE if _has_identified(path) else _WHO_FIRST).format(name=name))
    else:
        detail = origins_of(arguments or {}, path)
        parts.append(
            chance.choice(
                (
                    f"I still have to {purpose}",
                    f"To answer I need to {purpose}",
                    f"{name} lets me {purpose}",
                    f"That is not enough yet, and I have to {purpose}",
                )
            )
            + (f": {detail}." if detail else ".")
        )
    return " ".join(filter(None, parts))


def reason_for_answer(reply: str, last: Recent, chance: random.Random) -> str:
    """Why the turn ends with this reply."""
    known = _outcome(last) or _take_up("", None, last, chance)
    if reply.startswith(_FAILED):
        return f"{known} I cannot put that right here, so I tell the user that it was not done."
    if reply.rstrip().endswith("?") or _ASKS_WHO.search(reply):
        if not last.has_called and _ASKS_WHO.search(reply) and not _asks_consent(reply):
            return chance.choice(
                (
                    "I cannot open any record before I know who is writing, so I ask for their details.",
                    "They have not identified themselves yet. That comes first.",
                )
            )
        if _asks_consent(reply):
            why = chance.choice(
                (
                    "Nothing may be changed without a clear yes, so I say exactly what would happen and ask.",
                    "Before I change anything I name the details and wait for their consent.",
                    "I know enough to make a proposal. They have to agree to it first.",
                )
            )
        elif REFUSES.search(reply):
            why = "What they want is not possible as it stands, so I say why and ask how they want to go on."
        else:
            why = chance.choice(
                (
                    "I cannot decide this for them, so I say what I found and ask.",
                    "There is a choice to make, and it is theirs.",
                )
            )
    elif REFUSES.search(reply) and not last.has_called and not _WISHES.search(last.said):
        why = chance.choice(
            ("There is nothing more that I can do here.", "They have understood, and I leave it there.")
        )
    elif REFUSES.search(reply):
        why = chance.choice(
            (
                "The rules do not allow what they ask for. I say so, with the reason.",
                "I have to decline this, and they should hear why.",
            )
        )
    elif not last.has_called and _AGREES.match(last.said):
        why = chance.choice(("I confirm it to them.", "That settles it, and I say so."))
    elif last.has_called:
        why = chance.choice(("I report that to the user.", "That is what they wanted to know.", "I can answer now."))
        if last.call is not None and '"confirm":true' in last.call.arguments:
            why = chance.choice(("I tell them what has changed.", "The change is made, and I report it."))
    else:
        why = chance.choice(
            ("I can answer this from what I already know.", "No further look-up is needed for an answer.")
        )
    return f"{known} {why}".strip()


def failure(error: str) -> str:
    """What the user hears when the turn's work did not go through."""
    return f"{_FAILED} The system refused it: {SENTENCE.split(error.strip())[0].rstrip('.')}."


def _asks_consent(reply: str) -> bool:
    """Whether a reply asks for a yes to a change, not for a choice or for leave to look something up."""
    asked = _ASKS_CONSENT.search(reply) is not None
    return asked and _ASKS_CHOICE.search(SENTENCE.split(reply.strip())[-1]) is None


def _has_identified(path: Sequence[Message]) -> bool:
    return any(_IDENTIFIES.search(call.name) for message in path for call in message.tool_calls)


def _changes(spec: ToolSpec | None) -> bool:
    return spec is not None and (spec.is_write is True or "confirm" in (spec.parameters.get("properties") or {}))


def _reads(spec: ToolSpec | None, name: str) -> bool:
    """Whether a call only looks something up, as far as its tool or its name says it."""
    return (spec is not None and spec.is_write is False) or bool(_LOOKS_UP.search(name))


@lru_cache(maxsize=1024)
def _purpose(name: str, description: str) -> str:
    """What a tool is for, as a verb phrase: from the first clause of its description, else from its name."""
    clause = re.split(r"[.;:(\n]", description.strip(), maxsplit=1)[0].strip()
    parts = clause.split(", ")
    for count in range(min(len(parts), 4), 0, -1):
        text = ", ".join(parts[:count]) + (" and more" if count < len(parts) else "")
        if len(text) <= _MAX_PURPOSE:
            break
    first, _, rest = text.partition(" ")
    if not rest or len(text) > _MAX_PURPOSE or not first.rstrip(",").isalpha() or first.lower().endswith("s"):
        return _purpose_by_name(name)
    verb = {"show": "see", "list": "see", "display": "see"}.get(first.lower(), first.lower())
    return f"{verb} {rest}"


def _purpose_by_name(name: str) -> str:
    words = name.split("_")
    for place, word in enumerate(words[:-1]):
        if word in _READING:
            return f"{_READING[word]} {' '.join(words[place + 1 :])}"
    return f"use {name}"


def _take_up(
    name: str, arguments: JSON | None, last: Recent, chance: random.Random, *, is_consent: bool = False
) -> str:
    """The sentence about what came just before. `is_consent`: a yes of the user is what allows this step."""
    if last.call is None:
        if last.was_silent:
            return "My last message was empty, and the user is still waiting."
        quote = quote_of(last.said)
        if not quote or (_IDENTIFIES.search(name) and _AGREES.match(quote)):
            return "They have given me their details." if CREDENTIALS.search(last.said) else ""
        if is_consent and _AGREES.match(quote):
            return chance.choice((f'They agreed: "{quote}"', f'That is a clear yes: "{quote}"'))
        says = (f'The user writes: "{quote}"', f'They say: "{quote}"')
        return chance.choice((*says, f'The request is: "{quote}"') if _WISHES.search(quote) else says)
    error = last.error
    if error is None:
        if last.call.name == name and decoded(last.call.arguments) == arguments:
            return f"{_outcome(last)} I want to be sure of it and call {name} once more."
        if last.call.name != name:
            return _outcome(last)
        return f"{_outcome(last)} {_once_more(name, decoded(last.call.arguments), arguments)}"
    if last.call.name != name:
        if error.startswith("There is no tool"):
            return f"There is no tool {last.call.name}. The one I want is {name}."
        return f"{_outcome(last)} I go on with {name}."
    before = decoded(last.call.arguments)
    if not isinstance(before, dict):
        return f"My call of {name} was cut off and is not valid JSON. I send it again in full."
    differing = [key for key in {**before, **(arguments or {})} if before.get(key) != (arguments or {}).get(key)]
    if not differing:
        return f"{_outcome(last)} I try the same call once more."
    key = differing[0]
    if arguments is None or key not in arguments:
        return f"{_outcome(last)} {name} takes no {key}, so I leave it out."
    if SECRET.search(key) or key not in before:
        return f"{_outcome(last)} I did not give {key} correctly. I call it again."
    return f"{_outcome(last)} I gave {key} as {shown(before[key])}, and it has to be {shown(arguments[key])}."


def _once_more(name: str, before: Any, arguments: JSON | None) -> str:
    """The sentence about a call of the same tool with other arguments."""
    given = before if isinstance(before, dict) else {}
    for key, value in (arguments or {}).items():
        if given.get(key) == value or SECRET.search(key):
            continue
        if key == "confirm":
            return "With their consent I now confirm it."
        return f"I call {name} again, now with {key.replace('_', ' ')} {shown(value)}."
    return f"I call {name} again."


def _outcome(last: Recent) -> str:
    """What the last call led to, as a sentence; empty where there was none."""
    if last.call is None:
        return ""
    error = last.error
    if error is not None:
        text = SENTENCE.split(error.strip())[0].rstrip(".")
        return f'{last.call.name} failed: "{cut(_SECRET_VALUE.sub("…", text))}".'
    value, given = decoded(last.result), decoded(last.call.arguments)
    if isinstance(value, dict) and value.get("needs_confirmation"):
        return f"{last.call.name} has only shown a preview so far."
    if isinstance(value, dict) and _IDENTIFIES.search(last.call.name) and isinstance(value.get("name"), str):
        return f"{value['name']} is identified."
    facts = facts_of(value, given if isinstance(given, dict) else {})
    if isinstance(given, dict) and given.get("confirm") is True:
        return f"{last.call.name} has gone through" + (f": {facts}." if facts else ".")
    return f"{last.call.name} shows {facts}." if facts else f"{last.call.name} has answered."


_SECRET_VALUE = re.compile(r"(?<=pin\W{3})\d+|(?<=pin\\\W{4})\d+", re.IGNORECASE)
