"""How turns and trajectories ended: cut, broken, over a budget; near them, what looks unfinished and is not."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.core.messages import Message
from rollout.trajectories.stop import StopReason
from tests.trajectories.filters.attempts import attempt, call, result, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, ASKS, TALKS, THOUGHTS, rotate, talk

ABRUPT = (
    "The books that are due are",
    "Zuerst prüfe ich, ob",
    "1. Open the settings\n2.",
    "def f(x):",
    '{"answer": ',
    "因为",
    "and then and then and then",
    "So the total, including tax and",
    "Dear member,",
    "…",
)
BUDGETS = ("max_turns", "max_steps", "context_length", "deadline")
OTHER_ENDS = tuple(str(reason) for reason in StopReason if str(reason) not in BUDGETS and reason != StopReason.ERROR)
ERRORS = ("model", "infra", "world", "timeout", "browser")
NOTES = ("the server is gone", "HTTP 503", "world crashed: exit 9", "", "Verbindung getrennt")


def truncated() -> Iterator[Case]:
    for text in (*ABRUPT, *ANSWERS):
        for kind in TALKS:
            for tokens in (None, 512):
                made, turn = talk(kind, say(text, rotate(THOUGHTS, text)), text, kind, finish="length", tokens=tokens)
                yield Case(f"cut {text}", made, {turn: True})
            finish = rotate(("stop", "unknown", "abort", "content_filter"), text, kind)
            made, turn = talk(kind, say(text), text, kind, finish=finish, tokens=512)
            yield Case(f"not cut {text}", made, {turn: False})
            made, turn = talk(kind, call(content=text), text, kind, tokens=512)
            yield Case(f"call {text}", made, {turn: False})


def broken() -> Iterator[Case]:
    for kind in ERRORS:
        for note in NOTES:
            for text in (None, "", ABRUPT[0], ANSWERS[0]):
                ask = Message(role="user", content=rotate(ASKS, kind, note))
                said = [ask] if text is None else [ask, say(text)]
                error = {"kind": kind, "text": note}
                made = attempt(*said, reason=StopReason.ERROR, error=error)
                yield Case(f"failed {kind} {note}", made, {None: True})
    for text in (*ABRUPT, *ANSWERS):
        for finish in ("abort", "content_filter"):
            made, turn = talk(rotate(TALKS, text), say(text), text, finish=finish)
            yield Case(f"broken off {text}", made, {turn: True})
        for finish in ("stop", "length", "unknown"):
            made, turn = talk(rotate(TALKS, text), say(text), text, finish=finish)
            yield Case(f"ended {text}", made, {turn: False})
    for kind in ("timeout", "crash", "tool", "bad_arguments", "unknown_tool"):
        for number, note in enumerate(("late", "HTTP 500 from the server", '{"error": "infrastructure"}', "killed")):
            ask = Message(role="user", content=ASKS[number])
            made = attempt(ask, call(), result(note), say("Sorry, that failed."), kinds={2: kind})
            yield Case(f"tool {kind}", made, {0: False, 1: False})
            listed = {"tool_errors": ["timeout", "crash"]}
            yield Case(f"tool {kind} listed", made, {0: kind in ("timeout", "crash"), 1: False}, params=listed)
    for reason in OTHER_ENDS:
        made = attempt(Message(role="user", content=ASKS[0]), say("The server is gone."), reason=StopReason(reason))
        yield Case(f"reason {reason}", made, {None: False})


def overlong() -> Iterator[Case]:
    for number, ask in enumerate(ASKS):
        for reason in BUDGETS:
            for text in (ABRUPT[number], ANSWERS[number], ""):
                made = attempt(Message(role="user", content=ask), say(text), reason=StopReason(reason))
                yield Case(f"budget {reason} {number}", made, {None: True})
        for reason in OTHER_ENDS:
            made = attempt(Message(role="user", content=ask), say(ANSWERS[number]), reason=StopReason(reason))
            yield Case(f"other {reason}", made, {None: False})
        for turns in range(1, 7):
            steps = [message for step in range(turns - 1) for message in (call(arguments=f'{{"n": {step}}}'), result())]
            told = [Message(role="user", content=ask), *steps, say(ANSWERS[number])]
            counted = {place: 10 for place, message in enumerate(told) if message.role == "assistant"}
            made = attempt(*told, tokens=counted)
            yield Case(f"turns {turns} {number}", made, {None: turns > 3}, params={"max_turns": 3})
            yield Case(f"tokens {turns} {number}", made, {None: turns > 4}, params={"max_tokens": 40})
