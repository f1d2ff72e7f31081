"""Near-duplicates: trajectories that say nothing new beside another; near them, those that share much and differ.

A fault differs from another trajectory in at most 2 of 100 words, or only in what carries no meaning (ids of calls,
case, punctuation). A near miss shares its task, its plan or most of its sentences, and differs in more than 10 of 100.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from rollout.core.messages import Message, ToolCall
from tests.trajectories.filters.attempts import attempt, say
from tests.trajectories.filters.labelled import Case

BANK = {
    "library": (
        "I have looked at your record and found three loans in it.",
        "Dune is due on Friday and may be renewed once more.",
        "The Dispossessed was renewed twice already, so it has to come back.",
        "Emma is reserved by another member, and I can put you on the waiting list.",
        "There is a late fee of four euros, which I am not allowed to waive.",
        "Please bring the book to any branch before closing time.",
        "Your card itself is valid until the end of next year.",
        "I have renewed the first one for another fourteen days.",
        "You will get a message two days before it is due again.",
        "Members under sixteen borrow from the junior shelves only.",
        "The branch in the old town is closed for repairs until spring.",
        "If you would rather read it on a screen, we have two licences for it.",
        "Nothing else is open on your account at the moment.",
        "I can also send the whole list to your address by mail.",
    ),
    "math": (
        "We count the divisors of the number by its prime factors.",
        "The factor two appears three times and the factor three appears twice.",
        "Five divides it exactly once, and no larger prime divides it at all.",
        "Each exponent may be anything from zero up to its maximum.",
        "So we multiply four by three by two and get twenty four.",
        "As a check we list the pairs that multiply to the number.",
        "One times three hundred sixty is the first pair, two times one hundred eighty the next.",
        "There are twelve such pairs, which agrees with the product above.",
        "Had the number been a square, one pair would have counted once only.",
        "Therefore the count is even, as it has to be here.",
        "The sum of the divisors would need another formula altogether.",
        "It is the product of the partial geometric sums of each prime.",
    ),
    "deutsch": (
        "Ich habe Ihre Buchung gefunden und die Bedingungen des Tarifs gelesen.",
        "Der Flug am Dienstag lässt sich bis morgen Abend kostenlos umbuchen.",
        "Eine Erstattung ist in diesem Tarif leider nicht vorgesehen.",
        "Gegen eine Gebühr von vierzig Euro geht es auch am Mittwoch früh.",
        "Ihr Gepäck bleibt dabei unverändert, ein Koffer und eine Tasche.",
        "Der Sitzplatz am Fenster ist auf dem neuen Flug noch frei.",
        "Soll ich ihn gleich mit reservieren, oder genügt Ihnen der Gang?",
        "Die Bestätigung kommt in wenigen Minuten per Mail.",
        "Am Schalter brauchen Sie nur den Ausweis und die neue Nummer.",
        "Bei Verspätung gelten die üblichen Regeln der Verordnung.",
        "Das Essen an Bord müssten Sie noch einmal neu bestellen.",
        "Sonst ist für die Reise alles beisammen.",
    ),
    "code": (
        "The test fails because the fixture opens the file before it is written.",
        "I moved the write into the setup and closed the handle there.",
        "Then the parser read an empty line at the end and raised.",
        "A line without any words is skipped now, as the format allows it.",
        "The second failure came from the clock, which the test never froze.",
        "With a fixed time the expected name of the report is stable.",
        "I ran the whole folder twice and both runs were green.",
        "The change touches two files and adds one line to the notes.",
        "Nobody else imports the helper, so I removed it.",
        "If you want, I can split this into two commits.",
        "The linter had one remark about an unused name, which is gone.",
        "Coverage stayed where it was, a little above ninety percent.",
    ),
}
OTHER = (
    "Honestly I would do this in another way and begin with the most expensive part of the work.",
    "Let us look at the matter from the other end and see which of the conditions can hold at all.",
    "Before anything else we should ask who needs the result and in which form they can use it.",
    "Ganz anders gesagt kommt es hier nur auf die Reihenfolge der Schritte an, nicht auf ihre Zahl.",
    "None of the earlier attempts looked at the log, so that is what I did first of all.",
    "A simple table with two columns answers the question better than any amount of prose.",
)
Edit = Callable[[list[str], random.Random], list[str]]


def _swap(share: float) -> Edit:
    def edit(told: list[str], chance: random.Random) -> list[str]:
        words = " \n".join(told).split(" ")
        for place in chance.sample(range(len(words)), max(1, round(share * len(words)))):
            words[place] = f"{chance.choice(('quite', 'rather', 'Tuesday', 'seven', 'neu', 'blue'))}{place}"
        return " ".join(words).split(" \n")

    return edit


def _replace(count: int) -> Edit:
    def edit(told: list[str], chance: random.Random) -> list[str]:
        changed = list(told)
        for place in chance.sample(range(len(told)), count):
            changed[place] = chance.choice(OTHER)
        return changed

    return edit


SAME: dict[str, Edit] = {
    "equal": lambda told, _: list(told),
    "capitals": lambda told, _: [text.upper() for text in told],
    "punctuation": lambda told, _: [re.sub(r"[,.]", ";", text) for text in told],
    "spaces": lambda told, _: [text.replace(" ", "  \n") for text in told],
    "one word": _swap(0.0),
    "one word in a hundred": _swap(0.01),
    "two words in a hundred": _swap(0.02),
    "a word more": lambda told, _: [*told[:-1], told[-1] + " Goodbye."],
    "a greeting": lambda told, _: ["Hello! " + told[0], *told[1:]],
}
DIFFERENT: dict[str, Edit] = {
    "half rewritten": _replace(6),
    "a quarter rewritten": _replace(3),
    "two sentences of twelve": _replace(2),
    "one word in eight": _swap(0.12),
    "one word in five": _swap(0.2),
    "first half only": lambda told, _: told[: len(told) // 2],
    "three quarters": lambda told, _: told[: len(told) * 3 // 4],
    "twice as long": lambda told, chance: [text for line in told for text in (line, chance.choice(OTHER))],
    "all other": lambda told, chance: [
        f"{chance.choice(OTHER)} {number} {text[:20]}" for number, text in enumerate(told)
    ],
}


def cases() -> Iterator[Case]:
    for label, edits in ((True, SAME), (False, DIFFERENT)):
        for name, edit in edits.items():
            for topic in BANK:
                for number in range(5):
                    yield _pair(topic, name, edit, number, label)


def _pair(topic: str, name: str, edit: Edit, number: int, label: bool) -> Case:
    chance = random.Random(f"{topic} {name} {number}")
    told = chance.sample(BANK[topic], 12)
    across = number % 2 == 1
    ask = Message(role="user", content=f"Please help me with the {topic}.")
    first = attempt(*_conversation(ask, told, "x", number), id="a1", task="one")
    second = attempt(*_conversation(ask, edit(told, chance), "y", number), id="a2", task="two" if across else "one")
    return Case(f"{topic} {name} {number % 3}", second, {None: label}, beside=(first,))


def _conversation(ask: Message, told: list[str], ids: str, number: int) -> list[Message]:
    """The sentences as answers, calls with their results, and a last word."""
    third = max(1, len(told) // 3)
    parts = [" ".join(told[:third]), " ".join(told[third : 2 * third]), " ".join(told[2 * third :])]
    asked = ToolCall(f"{ids}1", "look_up", f'{{"page": {number}}}')
    return [
        ask,
        Message(role="assistant", content=parts[0], tool_calls=(asked,)),
        Message(role="tool", content=parts[1], tool_call_id=f"{ids}1"),
        say(parts[2]),
    ]
