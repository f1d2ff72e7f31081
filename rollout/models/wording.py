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

from rollout.core.messages import JSON, Message, ToolCall, ToolSpec, Toolset

_SECRET = re.compile(r"pin\b|_pin|password|secret|token", re.IGNORECASE)
_IDENTIFIES = re.compile(r"authori[sz]|authenticate|verify_|log_?in|sign_?in", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_GREETING = re.compile(
    r"^(hi|hello|hey|good (day|morning|afternoon|evening))( there| again)?\b[\s,!.:;]*", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"\bPIN\b|\S+@\S+|\b[A-Z]{0,2}\d{5,}\b", re.IGNORECASE)
_AGREES = re.compile(
    r"^\W*(yes|yep|yeah|sure|ok(ay)?|correct|right|exactly|confirmed|go ahead|please do|do it|do both|fine|perfect|great|"
    r"sounds (good|great)|that'?s right)\b",
    re.IGNORECASE,
)
REFUSES = re.compile(
    r"\b(can't|cannot|can not|couldn't|could not|unable to|not possible|not allowed|may not|must not|won't|"
    r"only the [A-Z]|no refund)\b"
)
_ASKS_WHO = re.compile(r"\b(PIN|student id|traveller id|email on file|who (you|I)\b.*)", re.IGNORECASE)
_ASKS_CONSENT = re.compile(r"\b(shall i|should i|may i|do you want me|is that right|go ahead|confirm)\b", re.IGNORECASE)
_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-")
_MAX_QUOTE = 120
_MAX_PURPOSE = 80


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
    return chance.choice(("Let me look that up.", "One moment, I'm checking.", "I'll have a look.", ""))


def reason_for_call(
    name: str, arguments: JSON | None, last: Recent, path: Sequence[Message], tools: Toolset, chance: random.Random
) -> str:
    """Why this call is made now. `arguments` is None where they are not known."""
    spec = _spec(tools, name)
    parts = [_take_up(name, arguments, last, chance)]
    if last.call is not None and (last.call.name == name or last.error is not None):
        return " ".join(filter(None, parts)) or f"I call {name} again."
    purpose = _purpose(name, spec.description if spec is not None else "")
    if _changes(spec):
        parts.append(
            chance.choice((f"Now I {purpose}", f"The next change is to {purpose}", f"I use {name} to {purpose}"))
        )
        detail = _origins(arguments or {}, path)
        parts[-1] += f": {detail}." if detail else "."
    elif _IDENTIFIES.search(name):
        parts.append(
            chance.choice(
                (
                    "Before I look at anything I have to know who is writing, and the details for that are here.",
                    f"No record may be opened before they are identified, so I start with {name}.",
                    f"They gave what {name} needs, so I identify them first.",
                )
            )
        )
    else:
        detail = _origins(arguments or {}, path)
        parts.append(
            chance.choice(
                (
                    f"I still have to {purpose}",
                    f"To answer I need to {purpose}",
                    f"{name} lets me {purpose}",
                    f"I do not know enough yet and {purpose}",
                )
            )
            + (f", with {detail}." if detail else ".")
        )
    return " ".join(filter(None, parts))


def reason_for_answer(reply: str, last: Recent, chance: random.Random) -> str:
    """Why the turn ends with this reply."""
    known = _outcome(last)
    if last.error is not None:
        return f"{known} I cannot put that right here, so the user gets an honest answer."
    if reply.rstrip().endswith("?") or _ASKS_WHO.search(reply):
        if not last.has_called and _ASKS_WHO.search(reply) and not _ASKS_CONSENT.search(reply):
            return chance.choice(
                (
                    "I cannot open any record before I know who is writing, so I ask for their details.",
                    "They have not identified themselves yet. That comes first.",
                )
            )
        if REFUSES.search(reply):
            why = "What they want is not possible as it stands, so I say why and ask how they want to go on."
        elif _ASKS_CONSENT.search(reply):
            why = chance.choice(
                (
                    "Nothing may be changed without a clear yes, so I say exactly what would happen and ask.",
                    "Before I change anything I name the details and wait for their consent.",
                    "I know enough to make a proposal. They have to agree to it first.",
                )
            )
        else:
            why = chance.choice(
                (
                    "I cannot decide this for them, so I say what I found and ask.",
                    "There is a choice to make, and it is theirs.",
                )
            )
    elif REFUSES.search(reply):
        why = chance.choice(
            (
                "The rules do not allow what they ask for. I say so, with the reason.",
                "I have to decline this, and they should hear why.",
            )
        )
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
    return f"I'm sorry, I could not do that. The system refused it: {_SENTENCE.split(error.strip())[0].rstrip('.')}."


def _spec(tools: Toolset, name: str) -> ToolSpec | None:
    return tools.by_name.get(name)


def _changes(spec: ToolSpec | None) -> bool:
    return spec is not None and (spec.is_write is True or "confirm" in (spec.parameters.get("properties") or {}))


@lru_cache(maxsize=1024)
def _purpose(name: str, description: str) -> str:
    """What a tool is for, as a verb phrase: from the first clause of its description, else from its name."""
    clause = re.split(r"[.;:(\n]", description.strip(), maxsplit=1)[0].strip()
    if len(clause) > _MAX_PURPOSE:
        clause = clause.split(", ")[0]
    first, _, rest = clause.partition(" ")
    if not rest or len(clause) > _MAX_PURPOSE or not first.isalpha() or first.lower().endswith("s"):
        return name.replace("_", " ")
    verb = {"show": "see", "list": "see", "display": "see"}.get(first.lower(), first.lower())
    return f"{verb} {rest}"


def _take_up(name: str, arguments: JSON | None, last: Recent, chance: random.Random) -> str:
    """The sentence about what came just before."""
    if last.call is None:
        if last.was_silent:
            return "My last message was empty, and the user is still waiting."
        quote = _quote(last.said)
        if not quote:
            return "They have given me their details." if _CREDENTIALS.search(last.said) else ""
        if _AGREES.match(quote):
            return chance.choice((f'They agreed: "{quote}"', f'That is a clear yes: "{quote}"'))
        return chance.choice((f'The user writes: "{quote}"', f'The request is: "{quote}"', f'They say: "{quote}"'))
    error = last.error
    if error is None:
        if last.call.name == name and _decoded(last.call.arguments) == arguments:
            return f"{_outcome(last)} I want to be sure of it and call {name} once more."
        return _outcome(last) + ("" if last.call.name != name else f" I call {name} for the next one.")
    if last.call.name != name:
        if error.startswith("There is no tool"):
            return f"There is no tool {last.call.name}. The one I want is {name}."
        return f"{_outcome(last)} I go on with {name}."
    before = _decoded(last.call.arguments)
    if not isinstance(before, dict):
        return f"My call of {name} was cut off and is not valid JSON. I send it again in full."
    differing = [key for key in {**before, **(arguments or {})} if before.get(key) != (arguments or {}).get(key)]
    if not differing:
        return f"{_outcome(last)} I try the same call once more."
    key = differing[0]
    if arguments is None or key not in arguments:
        return f"{_outcome(last)} {name} takes no {key}, so I leave it out."
    if _SECRET.search(key) or key not in before:
        return f"{_outcome(last)} I did not give {key} correctly. I call it again."
    return f"{_outcome(last)} I gave {key} as {_shown(before[key])}, and it has to be {_shown(arguments[key])}."


def _outcome(last: Recent) -> str:
    """What the last call led to, as a sentence; empty where there was none."""
    if last.call is None:
        return ""
    error = last.error
    if error is not None:
        text = _SENTENCE.split(error.strip())[0].rstrip(".")
        return f'{last.call.name} failed: "{_cut(_SECRET_VALUE.sub("…", text))}".'
    facts = _facts(_decoded(last.result))
    if not facts:
        return f"{last.call.name} has answered."
    return f"{last.call.name} gives {facts}."


_SECRET_VALUE = re.compile(r"(?<=pin\W{3})\d+|(?<=pin\\\W{4})\d+", re.IGNORECASE)


def _facts(value: Any) -> str:
    """The first things that a result says."""
    if not isinstance(value, dict):
        return ""
    found = []
    for key, entry in value.items():
        if key == "success" or _SECRET.search(key):
            continue
        words = key.replace("_", " ")
        if isinstance(entry, list):
            found.append(f"{len(entry) or 'no'} {words[:-1] if len(entry) == 1 and words.endswith('s') else words}")
        elif isinstance(entry, dict):
            inner = next((text for text in entry.values() if _is_telling(text)), None)
            found.append(f"the {words}" + (f" {inner}" if inner is not None else ""))
        elif _is_telling(entry):
            found.append(f"{words} {_shown(entry)}")
        if len(found) == 3:
            break
    return found[0] if len(found) == 1 else ", ".join(found[:-1]) + f" and {found[-1]}" if found else ""


def _is_telling(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, (int, float)) or (
        isinstance(value, str) and 0 < len(value) < 40 and not _UUID.match(value)
    )


def _origins(arguments: JSON, path: Sequence[Message]) -> str:
    """The telling arguments of a call, each with where its value was seen."""
    found = []
    for key, value in arguments.items():
        if key == "confirm" or _SECRET.search(key) or not _is_telling(value):
            continue
        words, text = key.replace("_", " "), _shown(value)
        source = _source(str(value), path) if isinstance(value, str) and len(value) > 2 else ""
        found.append(f"{words} {text}{source}")
        if len(found) == 2:
            break
    return " and ".join(found)


def _source(value: str, path: Sequence[Message]) -> str:
    calls: dict[str | None, str] = {}
    for message in path:
        if message.role == "user" and value in (message.content or ""):
            return ", as they said"
        if message.role == "tool" and value in (message.content or "") and message.tool_call_id in calls:
            return f", from {calls[message.tool_call_id]}"
        for call in message.tool_calls:
            calls[call.id] = call.name
    return ""


def _quote(said: str) -> str:
    """The user's words without greeting and credentials, cut to a sentence or two."""
    kept: list[str] = []
    for sentence in _SENTENCE.split(_GREETING.sub("", said.strip())):
        if _CREDENTIALS.search(sentence) and kept:
            break
        clean = sentence if not _CREDENTIALS.search(sentence) else ""
        if not clean:
            # A wish and the details in one sentence: the clauses before the details are the wish.
            clauses = re.split(r"(?<=[,;:])\s+", sentence)
            clean = " ".join(clause for clause in clauses[:-1] if not _CREDENTIALS.search(clause)).rstrip(",;:")
        if clean:
            kept.append(clean)
        if sum(map(len, kept)) > 60:
            break
    return _cut(" ".join(kept).replace('"', "'"))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def _shown(value: Any) -> str:
    return _cut(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
