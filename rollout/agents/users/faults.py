"""Cheap checks for faults of the simulated user, as marks on the trajectory.

A conversation can fail because of the user rather than the agent; such a trajectory should not teach an agent anything.
These checks read only text and take microseconds. A mark is a suspicion with a name, not a verdict: filters decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollout.core.messages import Message
from rollout.core.task import Task
from rollout.trajectories.tree import UserEnd

CONFIRMED_AND_LEFT = "user_fault:confirmed_and_left"
"""Confirmed something and ended the conversation in the same message, before the agent could act on it."""
TOLD_UNKNOWN = "user_fault:told_unknown_fact"
"""Gave a number, an address or an identifier that is neither in its brief nor said before."""
SPOKE_AS_ASSISTANT = "user_fault:spoke_as_assistant"
REPEATED = "user_fault:repeated_itself"

_ASKS = re.compile(r"\?\s*$|confirm|shall i|should i|would you like|do you want|please let me know", re.IGNORECASE)
_CONFIRMS = re.compile(
    r"^\W*(yes|yep|yeah|sure|ok(ay)?|correct|confirmed|i confirm|go ahead|please do|please go ahead|that'?s right|"
    r"do it)\b",
    re.IGNORECASE,
)
_AS_ASSISTANT = re.compile(
    r"how (can|may) i (help|assist) you|as an ai\b|"
    r"i('| ha)ve (successfully )?(updated|enrolled|registered|cancelled|booked) (you|your)\b|"
    r"is there anything else i can (help|do)|^\s*(assistant|agent)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
# Things that one knows or does not know: e-mail addresses, identifiers with digits, numbers of 4 digits or more.
_FACT = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{4,}\b|\b\d{4,}\b")


def check_reply(task: Task, dialogue: Sequence[Message], text: str | None, end: UserEnd | None) -> tuple[str, ...]:
    """The marks that the user's newest words deserve. `dialogue` is what was said before them."""
    if text is None:
        return ()
    marks: list[str] = []
    heard = next((message.content or "" for message in reversed(dialogue) if message.role == "assistant"), "")
    if end == "stop" and _CONFIRMS.search(text) and _ASKS.search(heard):
        marks.append(CONFIRMED_AND_LEFT)
    if _AS_ASSISTANT.search(text):
        marks.append(SPOKE_AS_ASSISTANT)
    if any(message.role == "user" and _folded(message.content) == _folded(text) for message in dialogue[-6:]):
        marks.append(REPEATED)
    facts = {fact.lower() for fact in _FACT.findall(text)}
    if facts and not facts <= _known_facts(task, dialogue, facts):
        marks.append(TOLD_UNKNOWN)
    return tuple(marks)


def _known_facts(task: Task, dialogue: Sequence[Message], facts: set[str]) -> set[str]:
    brief = " ".join(
        [task.user_system_prompt, *(str(task.info.get(key) or "") for key in ("instruction", "known_info"))]
    ).lower()
    known = {fact for fact in facts if fact in brief}
    for message in dialogue:
        if known == facts:
            break
        said = (message.content or "").lower()
        known |= {fact for fact in facts if fact in said}
    return known


def _folded(text: str | None) -> str:
    return re.sub(r"\W+", " ", (text or "").lower()).strip()
