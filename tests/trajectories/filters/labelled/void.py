"""Void turns: nothing said, garbage, or a code fragment that was never closed; near them, answers that are whole."""

from __future__ import annotations

from collections.abc import Iterator

from tests.trajectories.filters.attempts import call, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, CODE, PREAMBLES, TALKS, THOUGHTS, rotate, talk

EMPTY = (
    None,
    "",
    " ",
    "\n\n",
    "\t \n",
    "\u200b",
    "…",
    "...",
    "???",
    "!",
    "--",
    "---\n",
    "***",
    "(...)",
    "。",
    "？！",
    '""',
    "[]",
    "{}",
    "\ufffd\ufffd\ufffd",
    "\x00\x01\x02 a",
    "\ue000\ue001\ue002 \ue003",
    "\u0007\u0007\u0007\u0007 ok",
    "\ufffd \ufffd r\ufffd\ufffd",
    "- \n- \n- ",
    "```\n```",
)
FRAGMENTS = {
    "backticks": "```{lang}\n{code}",
    "backticks, newline at the end": "```{lang}\n{code}\n",
    "tildes": "~~~{lang}\n{code}\n",
    "four backticks around three": "````markdown\n```{lang}\n{code}\n```\n",
    "in a list": "1. First run this:\n\n   ```{lang}\n   {code}\n",
    "quoted": "> ```{lang}\n> {code}\n",
    "opened behind words": "Here it is: ```{lang}\n{code}\n",
    "after one that is closed": "```text\ninput.txt\n```\n\nand then\n\n```{lang}\n{code}\n",
    "closed by the wrong sign": "```{lang}\n{code}\n~~~\n",
    "closed by two backticks": "```{lang}\n{code}\n``\n",
    "only the opening": "Now I will write the code:\n```{lang}",
    "code tag": "<code>\n{code}\n",
    "execute tag": "<execute_python>\n{code}",
    "python tag": "<python>\n{code}\n",
}
WHOLE = {
    "backticks": "```{lang}\n{code}\n```",
    "words after it": "```{lang}\n{code}\n```\n\nRun it and tell me what it prints.",
    "tildes": "~~~{lang}\n{code}\n~~~\n",
    "four backticks around three": "````markdown\n```{lang}\n{code}\n```\n````\n",
    "in a list": "1. First run this:\n\n   ```{lang}\n   {code}\n   ```\n2. Then look at the output.",
    "quoted": "> ```{lang}\n> {code}\n> ```\n",
    "opened behind words": "Here it is: ```{lang}\n{code}\n```\nand that is all.",
    "two blocks": "```{lang}\n{code}\n```\n\nand then\n\n```text\n24\n```",
    "more backticks at the end": "```{lang}\n{code}\n`````\n",
    "spaces behind the end": "```{lang}\n{code}\n```   \nDone.",
    "end on the last line of code": "```{lang}\n{code}```\nThat prints 24.",
    "code tag": "<code>\n{code}\n</code>",
    "execute tag": "<execute_python>\n{code}\n</execute_python>",
    "no fence": "In short:\n\n    {code}\n\nthat is the whole program.",
}
WORDS = (
    "No.",
    "7",
    "👍",
    "はい",
    "Ok",
    "24 €",
    "$x = 3$",
    "→ see above",
    "Use ``` to open a block and ``` to close it.",
    "A fence is three backticks (```), a tilde fence is `~~~`.",
    "Call `foo` with `bar` and you are done.",
    "The missing backtick is here: `foo, before the comma.",
    "```print(24)```",
    'The docstring begins with """ and was never closed, which is why it fails.',
    "Write <code>x</code> for code in HTML.",
    "The tag `<code>` opens inline code.",
    "if (a[0] { // this brace is the bug",
    "Erreur : il manque une parenthèse ( à la ligne 3.",
    "The answer is \\boxed{24}",
    "~~struck out~~ still valid",
    "Naïve – café\t…",
    "+1",
    "N/A",
    "¿?  Sí.",
)
BOXED = {
    "boxed before a fragment": ("So the answer is \\boxed{24}.\n```python\n# check\nprint(", False),
    "fragment and no box": ("Let me check.\n```python\nprint(", True),
    "words and no box": ("It is 24, I think.", True),
    "boxed": ("Therefore $\\boxed{24}$.", False),
    "boxed twice": ("\\boxed{12}, no: \\boxed{24}", False),
    "box of another name": ("\\fbox{24}", True),
}


def cases() -> Iterator[Case]:
    for number, text in enumerate(EMPTY):
        for kind in TALKS[:3] if number % 2 else TALKS[1:]:
            made, turn = talk(kind, say(text, rotate(THOUGHTS, text, kind)), "void", number, kind)
            yield Case(f"empty {text!r}", made, {turn: True})
    for forms, label in ((FRAGMENTS, True), (WHOLE, False)):
        for name, form in forms.items():
            for lang, code in CODE.items():
                kind = rotate(TALKS, name, lang)
                if label and (name.startswith("four") and lang == "json"):
                    continue
                text = rotate(PREAMBLES, name, lang, label) + form.format(
                    lang=lang, code=code.replace("\n", "\n> ") if name == "quoted" else code
                )
                made, turn = talk(kind, say(text, rotate(THOUGHTS, name, lang)), name, lang)
                yield Case(f"{label} {name}", made, {turn: label})
    for text in (*WORDS, *ANSWERS):
        made, turn = talk(rotate(TALKS, text), say(text, rotate(THOUGHTS, text)), text)
        yield Case(f"words {text}", made, {turn: False})
    for name, (text, label) in BOXED.items():
        for kind in ("alone", "after_call"):
            made, turn = talk(kind, say(text), name, kind)
            yield Case(f"box {name}", made, {turn: label}, params={"answer_pattern": r"\\boxed\{"})
    for lang, code in CODE.items():
        fragment = f"I run this:\n```{lang}\n{code}"
        made, turn = talk("alone", say(fragment), lang, finish="length")
        yield Case("fragment that was cut", made, {turn: False})
        made, turn = talk("alone", call(content=fragment), lang)
        yield Case("fragment beside a call", made, {turn: False})
        made, turn = talk("alone", say(fragment), lang, finish="abort")
        yield Case("fragment that the server broke off", made, {turn: False})
