"""Repetition: text that loops and calls that loop; near them, refrains, parallel lists, polling and retries."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.core.messages import Message
from tests.trajectories.filters.attempts import attempt, call, result, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, PREAMBLES, TALKS, rotate, talk

LOOPS = (
    "I will look at the loans of the member. ",
    "Wait, let me think again about this. ",
    "Ich prüfe das noch einmal für Sie. ",
    "Lo siento, voy a intentarlo de nuevo. ",
    "本を返してください。",
    "请稍等，我再检查一次。",
    "The answer is 24. So the answer is 24. ",
    "No no no no ",
    '{"id": 7, "status": "due"}, ',
    "- renew the loan\n- check the fee\n",
    "0, ",
    "<div><div>",
    "Sorry! ",
    "def f(x): return f(x)\n",
    "| a | b |\n",
    "But wait. The user asked for two books. One is due. But which? ",
)
WOBBLY = (
    ["Let me check step {n}. I will look at the loans of the member again. "] * 9,
    ["Attempt {n}: I am sorry, the page did not load, so I will try to load the page again. "] * 8,
    ["Hmm, maybe {n}. But wait, the user asked for the total and not for the parts. "] * 9,
    ["Versuch {n}: Die Seite antwortet nicht, ich versuche es noch einmal von vorn. "] * 8,
)
REFRAINS = (
    "The rain fell on the roof all night and nobody came to the door. And still she waited by the window.\n"
    "The clock struck one, the fire burned low, a fox went by the garden wall. And still she waited by the window.\n"
    "At dawn a letter lay upon the mat, unsigned, with foreign stamps. And still she waited by the window.",
    "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream.",
    "To renew: open *Loans*, pick the book, press **Renew**. To return: open *Loans*, pick the book, press **Return**. "
    "To reserve: open *Search*, find the title, choose a branch and press **Reserve**; you will get a message.",
    "Dear Ada,\n\nyour loan of Dune is due on Friday. You may renew it twice.\n\nDear Ben,\n\nyour loan of Emma was "
    "returned with a torn page, so a fee of 4 € was added.\n\nDear Cy,\n\nwelcome to the library; your card is ready.",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n    return a * b\n\n"
    "def div(a, b):\n    if b == 0:\n        raise ZeroDivisionError('b')\n    return a / b\n",
    "SELECT a.id, b.id FROM a JOIN b ON a.id = b.a WHERE a.x > 3\nUNION ALL\nSELECT c.id, d.id FROM c JOIN d ON c.id = "
    "d.c WHERE d.y < 9 ORDER BY 1",
    "Ja, ja, ich weiß: zuerst das Konto, dann die Karte, dann die Adresse, dann das Konto noch einmal zur Kontrolle.",
    "The total is 12 + 12 + 12 + 12 = 48. Half of it is 24, a third is 16, a quarter is 12, and a sixth of it is 8.",
    "不，不，不。第一本书周五到期，第二本书下周一到期，第三本书已经续借过两次，不能再续借了，请您按时归还。",
    "2026-11-01 INFO start\n2026-11-01 INFO read config\n2026-11-01 WARN slow disk\n2026-11-02 INFO start\n2026-11-02 "
    "ERROR no space left\n2026-11-03 INFO start\n2026-11-03 INFO stop, code 0",
    "She said that he said that she said that it was late, which everybody who was there that night can confirm.",
    "If it is due today, renew it. If it is due tomorrow, renew it too. If it was due yesterday, pay the fee first.",
)
PARALLEL = (
    "- book {n}: due on the {n}. of May, renewed {n} times\n",
    "| {n} | Kettle {n} | {n}.99 € | in stock |\n",
    "{n}. Open page {n}, copy the number {n}{n}, and close it.\n",
    "Flight LX{n}{n} leaves gate {n} at {n}:30 and arrives at {n}:55.\n",
    '{{"id": {n}, "title": "Volume {n}", "due": "2026-05-{n}"}},\n',
    "assert divisors({n}{n}) == {n}\n",
)
WORLDS = (
    # a, b, c: calls; the first answers, another answer, an error
    (("find_loans", '{"member": "m1"}'), ("renew", '{"loan": 7}'), ("fees", "{}"), "[7]", "[7, 9]", "no such member"),
    (("click", '{"id": "a12"}'), ("scroll", '{"to": "end"}'), ("back", "{}"), "page 1", "page 2", "element is gone"),
    (("status", '{"job": 4}'), ("wait", '{"s": 5}'), ("logs", '{"job": 4}'), "pending", "done", "job is locked"),
    (("sql", '{"q": "select 1"}'), ("sql", '{"q": "select 2"}'), ("sql", '{"q": "x"}'), "1 row", "2 rows", "syntax"),
    (("search", '{"q": "kettle"}'), ("open", '{"n": 1}'), ("search", '{"q": "pot"}'), "12 hits", "13 hits", "HTTP 429"),
    (("weather", '{"ort": "Köln"}'), ("geo", '{"ort": "Köln"}'), ("zeit", "{}"), "8 °C", "9 °C", "Dienst gestört"),
    (("bash", '{"cmd": "make"}'), ("edit", '{"f": "a.c"}'), ("bash", '{"cmd": "ls"}'), "ok", "ok 2", "exit code 2"),
)
# A step is a call (A, B, C) with its answer: 1 the usual one, 2 and 3 others, E an error of the tool, T a time-out;
# `!` behind it is a turn that should be marked. U: the user speaks; S: the agent says something and the user answers.
SEQUENCES = (
    "A1 A1!",
    "A1 A1! A1!",
    "A1 A1! B1",
    "B1 A1 A1! C1",
    "A1 B1 B1! C1",
    "A1 AE!",
    "AE AE!",
    "AE AE! AE! AE!",
    "A1 A2 A2!",
    "A1 U A1 A1!",
    "A1 S A1 A1! B1",
    "A1 B1 A1! B1!",
    "A1 B1 A1! B1! A1! B1!",
    "C1 A1 B1 A1! B1!",
    "A1 B1 A1! B1! C1",
    "A1 B1 C1 A1! B1! C1!",
    "AE BE AE! BE!",
    "A1 B1 AE! BE!",
    "A1 U B1 C1 B1! C1!",
    "B1 C1 B1! C1! U A1",
    "A1 A1! U A1 A1!",
    "A1 A2",
    "A1 A2 A3",
    "A1 A1 A2",
    "A1 A1 A1 A1 A2 B1",
    "AT A1",
    "AT AT A1",
    "AE A1",
    "AE AE A1 B1",
    "AT AT AT A1",
    "A1 U A1",
    "A1 S A1",
    "A1 S A1 S A1",
    "AE S AE",
    "A1 U A1 U A1 U A1",
    "A1 B1 A1",
    "A1 B1 A2",
    "A1 B1 A1 C1",
    "A1 B1 A1 C1 A1",
    "A1 B1 A2 B1",
    "A1 B1 A1 B1 A2",
    "A1 B1 A1 B2",
    "A1 B1 C1 A1",
    "A1 B1 C1 A1 B1",
    "A1 B1 S A1 B1",
    "A1 B1 U A1 B1 C1",
    "A1 B1 C1",
    "B1 A1 U A1 B1",
    "A1 C1 B1 C2 A1",
)


def cases() -> Iterator[Case]:
    yield from _texts()
    for sequence in SEQUENCES:
        for number in range(len(WORLDS)):
            yield _sequence(sequence, number)


def _texts() -> Iterator[Case]:
    for number, loop in enumerate(LOOPS):
        for times in (12, 40):
            text = rotate(PREAMBLES, loop, times) + loop * max(times, 80 // len(loop))
            made, turn = talk(rotate(TALKS, loop, times), say(text), loop, times)
            yield Case(f"loop {loop}", made, {turn: True})
        made, turn = talk("after_call", say("Book 7.", loop * max(12, 80 // len(loop))), loop)
        yield Case(f"loop in thought {loop}", made, {turn: True})
        made, turn = talk("alone", call(content=loop * 30, arguments=f'{{"n": {number}}}'), loop)
        yield Case(f"loop beside a call {loop}", made, {turn: True})
    for lines in WOBBLY:
        text = "".join(line.format(n=number) for number, line in enumerate(lines))
        for kind in TALKS:
            made, turn = talk(kind, say(text), text[:20], kind)
            yield Case(f"wobbly {lines[0]}", made, {turn: True})
    for text in (*REFRAINS, *ANSWERS):
        for kind in TALKS[:2]:
            made, turn = talk(kind, say(text), text, kind)
            yield Case(f"refrain {text[:60]}", made, {turn: False})
    for form in PARALLEL:
        for count in (9, 14):
            text = "".join(form.format(n=number) for number in range(1, count + 1))
            made, turn = talk(rotate(TALKS, form), say(text), form, count)
            yield Case(f"parallel {form}", made, {turn: False})


def _sequence(sequence: str, number: int) -> Case:
    world = WORLDS[number]
    answers = {"1": world[3], "2": world[4], "3": world[4] + " more", "E": world[5], "T": "no answer within 30 s"}
    messages = [Message(role="user", content="Please go on.")]
    labels: dict[int | None, bool] = {}
    kinds: dict[int, str] = {}
    for step in sequence.split():
        if step == "U":
            messages.append(
                Message(role="user", content=rotate(("Once more, please.", "Nochmal!", "再来一次"), number))
            )
            continue
        if step == "S":
            labels[len(labels)] = False
            messages += [say("Here is what I found."), Message(role="user", content="Look again, it may have changed.")]
            continue
        name, arguments = world["ABC".index(step[0])]
        if len(labels) % 2:
            arguments = arguments.replace(": ", ":")
        labels[len(labels)] = step.endswith("!")
        if step[1] in "ET":
            kinds[len(messages) + 1] = "timeout" if step[1] == "T" else "tool"
        # What B and C answer is their own.
        answer = answers[step[1]] if step[0] == "A" or step[1] in "ET" else f"{step[0]}: {answers[step[1]]}"
        messages += [call(name, arguments), result(answer)]
    labels[len(labels)] = False
    messages.append(say("That is all I found."))
    return Case(sequence, attempt(*messages, kinds=kinds), labels)
