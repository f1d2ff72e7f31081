"""Premature ends: answers of fewer than `min_tokens`, from servers that count the end of turn and that do not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rollout.core.messages import Message
from rollout.trajectories.generation import Usage
from tests.trajectories.filters.attempts import attempt, call, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, TALKS, THOUGHTS, rotate, talk
from tests.trajectories.lines import make_nodes

# Texts with how many tokens common tokenizers make of them, the end of turn left out.
SHORT = {"I": 1, "The": 1, "Sure": 1, "Let": 1, "To": 1, "{": 1, "Ich": 1, "好": 1, "#": 1, "1": 1, "-": 1, "Based": 1}
TWO = {"Yes.": 2, "Let me": 2, "24.": 2, "Ok!": 2, "Of course": 2, "No,": 2, "- I": 2, "Na gut": 2}
LONGER = {
    "I am going": 3,
    "It is 7.": 4,
    "はい、そうです。": 5,
    "Let me look at": 4,
    "I will check that": 4,
    "Je ne sais pas": 4,
    "The answer is": 3,
}
LONG_WORDS = {
    "Entschuldigung": 4,
    "Unfortunately": 2,
    "Understood": 2,
    "Fehlgeschlagen.": 5,
    "antidisestablishmentarianism": 6,
}


def cases() -> Iterator[Case]:
    for text, count in {**SHORT, **TWO, **LONGER, **LONG_WORDS}.items():
        for end in (0, 1):
            for kind in TALKS:
                counted = count + end
                made, turn = talk(kind, say(text), text, kind, tokens=counted)
                yield Case(f"{text} {end}", made, {turn: count < 2})
                if kind in ("alone", "after_call"):
                    least = 4
                    made, turn = talk(kind, say(text), text, kind, tokens=counted)
                    yield Case(f"{text} {end} of 4", made, {turn: count < least}, params={"min_tokens": least})
    for text, count in {**SHORT, **TWO}.items():
        # No count at all: a line of a file.
        made, turn = talk("then_user", say(text), text)
        yield Case(f"{text} uncounted", made, {turn: count < 2})
        # Reasoning is no part of the answer, however long.
        thought = rotate(THOUGHTS[1:], text)
        made, turn = talk("then_user", say(text, thought), text, tokens=count + 41)
        place = next(place for place, message in enumerate(made.messages) if message.reasoning)
        usage = Usage(completion_tokens=count + 41, reasoning_tokens=40)
        known = msgspec.structs.replace(made.generated[place], usage=usage)
        nodes = make_nodes(made.messages, opening=1, generations={**made.generated, place: known})
        yield Case(f"{text} after reasoning", msgspec.structs.replace(made, nodes=nodes), {turn: count < 2})
        yield Case(f"{text} after reasoning that nobody counted", made, {turn: count < 2})
        # Solved: it was long enough.
        made, turn = talk("alone", say(text), text, tokens=count + 1, success=True)
        yield Case(f"{text} solved", made, {turn: False})
        # Cut or broken off, not ended by itself.
        made, turn = talk("alone", say(text), text, tokens=count, finish="length")
        yield Case(f"{text} cut", made, {turn: False})
        made, turn = talk("alone", say(text), text, tokens=count, finish="abort")
        yield Case(f"{text} aborted", made, {turn: False})
        # A call is something done.
        made, turn = talk("alone", call(content=text), text, tokens=count + 1)
        yield Case(f"{text} and a call", made, {turn: False})
    for number, text in enumerate((None, "", " ", "\n")):
        for kind in TALKS:
            for tokens in (None, 1, 40):
                made, turn = talk(kind, say(text, rotate(THOUGHTS, number, kind)), number, kind, tokens=tokens)
                yield Case(f"empty {text!r} {tokens}", made, {turn: True})
    for text in ANSWERS:
        made, turn = talk(rotate(TALKS, text), say(text), text, tokens=len(text) // 4 + 1)
        yield Case(f"answer {text}", made, {turn: False})
    for number, ask in enumerate(("Hello?", "Bitte hilf mir.", "帮我", "Fix it")):
        yield Case("never answered", attempt(Message(role="user", content=ask), id=f"n{number}"), {None: True})
