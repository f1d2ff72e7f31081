"""Cases written after the filters were adjusted, to find what they still get wrong. All of them are held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.trajectories.filters.attempts import say
from tests.trajectories.filters.labelled import HARD, Case
from tests.trajectories.filters.labelled.pieces import TALKS, THOUGHTS, rotate, talk

VOID = {
    "'''python\nprint(len(divisors(360))": True,
    "def f(x):\n    return x +": True,
    '<pre><code class="python">\nfor row in rows:': True,
    "\\begin{lstlisting}\nint main() {": True,
    "Let me compute.\n```python\nx = 1\n\nOutput:\n```output\n24\n": True,
    "``` python\nimport math": True,
    "\u200b\u200b\n\u200b": True,
    "Assistant:": True,
    "I will now": True,
    "```mermaid\ngraph TD;\n  A-->B;\n": True,
    "- item\n  ```sh\n  ls\n- next item": True,
    "```\n\n\n": True,
    "Title\n~~~~~\n\nThis is reStructuredText, and the line above underlines the title.": False,
    "~~~~ waves ~~~~ are drawn like this": False,
    "```python\nprint('```')\n```": False,
    "```diff\n-```python\n+```py\n```": False,
    "The log ends with\n```": True,
    "```markdown\nUse:\n```python\nprint(1)\n```\n```\nThat is nested.": False,
    "Use `` ` `` for a backtick and ```` ``` ```` for a fence.": False,
    "<code>x = 1</code> is inline and <code>y</code> too.": False,
    "a\n\n    ```\n    an indented literal\n    ```\n": False,
    "```text\nhello\n``` <- the end": False,
    "OK 👌": False,
    "¯\\_(ツ)_/¯": False,
    "42": False,
    "π ≈ 3.14159": False,
    "No hay ningún libro.": False,
    "~~~\nall closed\n~~~\n": False,
    "€": False,
    "*shrugs*": False,
}
MALFORMED = {
    "Action - find_loans - Input - m1": True,
    'Tool: find_loans\nInput: {"member": "m1"}': True,
    'ACTION: find_loans\nARGS: {"member": "m1"}': True,
    "call find_loans with member=m1": False,
    '<invoke name="find_loans"><parameter name="member">m1</parameter></invoke>': True,
    '{"tool": "find_loans", "args": {"member": "m1"}}': True,
    'Let me call it: find_loans({"member": "m1"})': True,
    "```tool_code\nfind_loans(member='m1')\n```": True,
    "print(find_loans(member='m1'))": True,
    "Action: search: red kettle": True,
    "Thought: I know it now.\nAction: Finish[24]": True,
    "Action: click [a12]": True,
    '<tool_call>{"name": "search", "arguments": {"query": "x"}}': True,
    "Sure.<tool_call>": True,
    "행동: search\n행동 입력: kettle": True,
    '{"name": "search", "arguments": {"query": "kettle"}}\n\nI will wait for the result.': True,
    '{"name": "Ada", "arguments": ["for", "against"]}': False,
    "Our form has two fields.\nAction: what you want\nAction Input: free text": False,
    "Action: Search[1] and Browse[2] are both fine": False,
    "Action: click\nReason: the button is blue": True,
    "In LangChain one writes\n\n    Action: search\n    Action Input: kettle\n\nand parses it.": False,
    "The template is `Action: search`.": False,
    "I searched (twice) [see above].": False,
    "{'name': 'search'}": False,
    "search(1) in the manual pages explains it": False,
    "Note: click()": False,
    "Status: find_loans() returned 2 rows.": False,
    "Action (done): refund": False,
    "Actions taken:\n1. find_loans\n2. renew_loan": False,
    "Reaction: search me!": False,
}
LEAKED = {
    "Sure.\nHuman: and now the next question": True,
    "User: thanks\nAssistant: you are welcome": True,
    "<s>Hello</s>": True,
    "<bos>Hi": True,
    "[SYSTEM_PROMPT]be brief[/SYSTEM_PROMPT]": True,
    "</THINK> So it is 24.": True,
    "◁/think▷ So it is 24.": True,
    "[/THINK]So it is 24.": True,
    "</reasoning>\n24": True,
    "<|endoftext": True,
    "Sure.</think": True,
    "reasoning…\n</think>\n\n`24`": True,
    "`a` </think> `b`": True,
    "<think>one <think>two</think>": True,
    "###STOP### is what ends our tests": True,
    "STOP": False,
    "### STOP HERE ###": False,
    "Press <ESC> or <|>": False,
    "List<Thinker> thinkers": False,
    "<think-tank> is a custom element": False,
    "In XML: `<think>` opens and `</think>` closes.": False,
    "```html\n<think>\n```": False,
    "~~~\n</thinking>\n~~~": False,
    "a <thought> b </thought>": False,
    "if (a <think> b)": False,
    "[INST-4711] was closed": False,
    "&lt;|im_end|&gt;": False,
    "I'd think </b> is unbalanced there.": False,
    "tool_response: 200": False,
    "Use `\\n</think>` as the stop string.": False,
}
REPEATED = {
    "A A A A A A A A A A A A A A A A A A A A A A A A": True,
    "I am sorry for the wait. " * 3 + "I am really sorry for the long wait. " * 3 + "So sorry for the wait! " * 3: True,
    "the the the cat sat sat on on the the mat mat " * 3: True,
    "One moment please while I check. Just a moment please while I check. " * 2: False,
    "Check the loan. Check the fee. " * 6: True,
    "1. renew\n2. renew\n3. renew\n4. renew\n5. renew\n6. renew\n7. renew\n8. renew\n9. renew\n10. renew\n": True,
    "Yes! " * 19: True,
    "The paragraph below is said twice, word by word, which is a fault. " * 2: True,
    "ha" * 200: True,
    "x = x + 1\n" * 12: True,
    "| 1 | open |\n| 2 | open |\n| 3 | open |\n| 4 | open |\n| 5 | open |\n| 6 | open |\n| 7 | shut |\n": False,
    "0 1 0 1 1 0 1 0 0 1 1 1 0 0 0 1 0 1 1 0 1 1 1 0 0 1 0 1": False,
    "Mon 9-17, Tue 9-17, Wed 9-17, Thu 9-17, Fri 9-17, Sat 10-14, Sun closed; in May Mon 9-17, Tue 9-17.": False,
    "GATTACA GATTACA TTAGACC GATTACA CCAGATT TTAGACC AGATTAC CCAGATT GGATTAC ATTACAG ACAGATT TTACAGA CAGATTA": False,
    "Round the town we go, round the town we go. Past the mill and the market, over the bridge and home again.": False,
    "<li>a</li><li>b</li><li>c</li><li>d</li><li>e</li><li>f</li><li>g</li><li>h</li><li>i</li>": False,
    "true, true, true, false, true, true, false, true, true, true, false, false, true, true, true, true": False,
    "Das Buch, das Sie suchen, ist da. Das Buch, das Ihr Bruder sucht, ist verliehen. Das dritte ist bestellt.": False,
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24": False,
    "never gonna give it up, never gonna let it down, never gonna run around and leave the loan unpaid": False,
}


def void() -> Iterator[Case]:
    return _cases(VOID)


def malformed() -> Iterator[Case]:
    return _cases(MALFORMED)


def leaked() -> Iterator[Case]:
    return _cases(LEAKED)


def repeated() -> Iterator[Case]:
    return _cases(REPEATED)


def _cases(texts: Mapping[str, bool]) -> Iterator[Case]:
    tools = frozenset({"find_loans", "renew_loan", "search", "click"})
    for text, label in texts.items():
        made, turn = talk(rotate(TALKS, text), say(text, rotate(THOUGHTS, text)), text, tools=tools)
        yield Case(f"{HARD}{text}", made, {turn: label})
