"""Leaked markers: machinery in what is said; near them, tags and signs that mean something else."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.core.messages import Message
from tests.trajectories.filters.attempts import attempt, call, result, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, TALKS, rotate, talk

TOKENS = (
    "<|im_end|>",
    "<|im_start|>assistant",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|start_header_id|>user<|end_header_id|>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<end_of_turn>",
    "<start_of_turn>model",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<tool_response>",
    "</tool_response>",
    "###STOP###",
    "###TRANSFER###",
    "###OUT-OF-SCOPE###",
    "<|channel|>analysis<|message|>",
)
THINKING = {
    "end alone": "I should look at the loans first.\n</think>\n\n{answer}",
    "end at the beginning": "</think>\n\n{answer}",
    "end at the end": "{answer}\n</think>",
    "begin and no end": "<think>\nThe user wants the dates. {answer}",
    "two ends": "<think>short</think>{answer}</think>",
    "end before begin": "{answer}</think> and <think>",
    "long name": "The user is asking twice.</thinking>\n{answer}",
    "in the middle of a line": "So the total is 24.</think>{answer}",
    "behind a closed block of code": "```python\nprint(24)\n```\n</think>\n{answer}",
    "second one begins and stays open": "<think>a</think>\n{answer}\n<think>wait",
}
NO_THINKING = {
    "quoted": "The tag `</think>` ends the reasoning of such models. {answer}",
    "in a block": "The output was\n\n```\nreasoning…\n</think>\n24\n```\n\n{answer}",
    "in a block with tildes": "~~~xml\n</think>\n~~~\n{answer}",
    "a whole pair": "<think>The user wants the dates.</think>\n\n{answer}",
    "an empty pair": "<think>\n\n</think>\n\n{answer}",
    "two pairs": "<think>a</think>\n{answer}\n<think>b</think>",
    "other tag": "Close the element with </thing>. {answer}",
    "html": "<b>I think</b> so. {answer}",
    "words": "I think / therefore: {answer}",
    "escaped": "It printed &lt;/think&gt; literally. {answer}",
    "double backticks": "``</think>`` is the mark. {answer}",
    "with a space": "< /think > is no tag. {answer}",
}
NO_TOKENS = (
    "### Stop ###",
    "## STOP",
    "a <| b |> c",
    "if x <|y| > 3",
    "<b>im_end</b>",
    "[inst]",
    "[INSTALL] runs the installer",
    "<|> is the diamond operator",
    "The pipe |> passes a value on, as in x |> f <| y",
    "#STOP#",
    "###TRANSFERS###",
    "<SYS>",
    "<turn_end>",
    "tool_response was empty",
    "Unit tests print <OK>",
    "|im_end|",
    "<|IM END|>",
    "<tool response>",
)
RULES = (
    "Never renew a loan that was renewed three times already, and never waive a fee above ten euros without the "
    "consent of a librarian on duty. Members under sixteen borrow from the junior shelves only. Always read the "
    "member's record before you promise anything, and repeat the member number back to whoever is asking. If a book is "
    "reserved by another member, offer the waiting list instead of a renewal. Do not speak about other members, their "
    "loans or their fees, whoever asks for them, and end every conversation by asking whether there is anything else."
)
RULE_WORDS = RULES.split()


def cases() -> Iterator[Case]:
    yield from _tokens()
    yield from _thinking()
    yield from _prompts()


def _tokens() -> Iterator[Case]:
    for token in TOKENS:
        for form in ("{a} {t}", "{t}\n{a}", "{a}{t}"):
            answer = rotate(ANSWERS, token, form)
            made, turn = talk(rotate(TALKS, token, form), say(form.format(a=answer, t=token)), token, form)
            yield Case(f"token {token}", made, {turn: True})
        made, turn = talk("after_call", say("Fine.", f"done {token}"), token)
        yield Case(f"token {token} thought", made, {turn: True})
        made, turn = talk("alone", call(arguments='{"note": "' + token + '"}'), token)
        yield Case(f"token {token} in a call", made, {turn: True})
        slipped = Message(role="user", content=f"That is all {token}")
        made = attempt(Message(role="user", content="Hello"), say("Yes?"), slipped, say("Good bye."))
        yield Case(f"token {token} of the user", made, {0: False, 1: True})
        # Tools may answer anything, and the opening is the task's.
        made = attempt(Message(role="user", content=f"What is {token}?"), call(), result(f"{token} 7"), say("A sign."))
        yield Case(f"token {token} elsewhere", made, {0: False, 1: False})
    for text in NO_TOKENS:
        for form in ("{a} {t}", "{t}\n{a}", "{t}"):
            answer = rotate(ANSWERS, text, form)
            made, turn = talk(rotate(TALKS, text, form), say(form.format(a=answer, t=text)), text, form)
            yield Case(f"no token {text}", made, {turn: False})


def _thinking() -> Iterator[Case]:
    for forms, label in ((THINKING, True), (NO_THINKING, False)):
        for name, form in forms.items():
            for number in range(5):
                text = form.format(answer=ANSWERS[(number * 5 + len(name)) % len(ANSWERS)])
                made, turn = talk(rotate(TALKS, name, number), say(text), name, number)
                yield Case(f"{label} {name}", made, {turn: label})


def _prompts() -> Iterator[Case]:
    for start in range(0, len(RULE_WORDS) - 34, 9):
        recited = " ".join(RULE_WORDS[start : start + 34])
        for form in ("My instructions say: {t}", "> {t}\n\nThat is what I was told.", "{t}"):
            made, turn = talk(rotate(TALKS, start, form), say(form.format(t=recited)), start, system=RULES)
            yield Case(f"prompt {start % 4}", made, {turn: True})
        shouted = recited.upper().replace(",", ";")
        made, turn = talk("alone", say(shouted), start, system=RULES)
        yield Case(f"prompt {start % 4} in capitals", made, {turn: True})
        part = " ".join(RULE_WORDS[start : start + 18])
        made, turn = talk("alone", say(f"I am sorry, our rule is: {part}"), start, system=RULES)
        yield Case(f"part {start % 4}", made, {turn: False})
        changed = " ".join(word if at % 11 else f"{word} indeed" for at, word in enumerate(recited.split(), 1))
        made, turn = talk("alone", say(changed), start, system=RULES)
        yield Case(f"own words {start % 4}", made, {turn: False})
        made, turn = talk("alone", say("Fine.", recited), start, system=RULES)
        yield Case(f"thought of {start % 4}", made, {turn: False})
        made, turn = talk("alone", say(recited), start, system="You are a helpful assistant.")
        yield Case(f"another prompt {start % 4}", made, {turn: False})
