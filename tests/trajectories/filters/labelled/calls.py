"""Calls that cannot be read, calls of tools that were not offered; near them, words about calls and odd good calls."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.core.messages import Message, ToolCall
from tests.trajectories.filters.attempts import attempt, call, result, say
from tests.trajectories.filters.labelled import Case
from tests.trajectories.filters.labelled.pieces import ANSWERS, PREAMBLES, TALKS, THOUGHTS, rotate, talk

TOOLS = ("find_loans", "renew_loan", "search", "click", "get_weather", "execute_sql")
GIVEN = (
    ("find_loans", '{"member": "m1"}'),
    ("renew_loan", '{"loan": 7, "days": 14}'),
    ("search", '{"query": "red kettle under 20 €"}'),
    ("click", '{"id": "a12"}'),
    ("get_weather", '{"city": "Zürich", "unit": "celsius"}'),
    ("execute_sql", '{"statement": "SELECT count(*) FROM loans WHERE due < \'2026-12-01\'"}'),
)
LEFT = {
    "tags": '<tool_call>\n{{"name": "{name}", "arguments": {args}}}\n</tool_call>',
    "tag without end": '<tool_call>\n{{"name": "{name}", "arguments": {args}',
    "function tag": "<function={name}>{args}</function>",
    "mistral": '[TOOL_CALLS][{{"name": "{name}", "arguments": {args}}}]',
    "python tag": "<|python_tag|>{name}.call({args})",
    "function call tag": '<function_call>{{"name": "{name}"}}</function_call>',
    "react": "Thought: I need the data first.\nAction: {name}\nAction Input: {args}",
    "react without input": "Thought: I need the data first.\nAction: {name}\n",
    "react with observation": "Action: {name}\nAction Input: {args}\n"
    "Observation: done\nThought: fine\nFinal Answer: done",
    "react in brackets": "Thought 1: look it up\nAction 1: {name}[{args}]",
    "react as a call": "I will do it now.\n\nAction: {name}({args})",
    "react in bold": "**Thought:** nothing is known yet\n**Action:** `{name}`\n**Action Input:** `{args}`",
    "react in JSON": 'Thought: easy\nAction:\n```json\n{{"action": "{name}", "action_input": {args}}}\n```',
    "react in small letters": "thought: look it up\naction: {name}\naction input: {args}",
    "JSON alone": '{{"name": "{name}", "arguments": {args}}}',
    "JSON with parameters": '{{"name": "{name}", "parameters": {args}}}',
    "JSON in a block alone": '```json\n{{"name": "{name}", "arguments": {args}}}\n```',
    "JSON in a list": '[{{"name": "{name}", "arguments": {args}}}]',
    "JSON of the API": '{{"type": "function", "function": {{"name": "{name}", "arguments": {args}}}}}',
    "tags in a block alone": '```xml\n<tool_call>\n{{"name": "{name}", "arguments": {args}}}\n</tool_call>\n```',
    "python alone": "[{name}(**{args})]",
}
ABOUT = {
    "tag in words": "A `<tool_call>` with {name} is how such models ask.",
    "tag in a line": "Such models write <tool_call> before {name} and {args}.",
    "tag shown in a block": 'The model should write:\n\n```\n<tool_call>\n{{"name": "{name}"}}\n'
    "</tool_call>\n```\n\nbut it does not.",
    "react shown in a block": "ReAct prompts look like this:\n\n```\nAction: {name}\nAction Input: {args}\n"
    "```\n\nWe use real calls.",
    "JSON shown in a block": 'The request body was\n\n```json\n{{"name": "{name}", "arguments": {args}}}\n'
    "```\n\nand it failed.",
    "JSON answer": '{{"name": "{name}", "status": "done", "loans": [7]}}',
    "JSON with other keys": '{{"name": "Ada", "arguments_made": 2, "tool": "{name}"}}',
    "tool by name": "I used {name} and found one loan.",
    "tool in code": "`{name}({args})` returned nothing.",
    "tool as code in a line": "I called {name}({args}) and it returned 7.",
    "action in a sentence": "The action: {name} was done an hour ago, so nothing is left to do.",
    "action as a heading": "Summary\nAction: I have used {name} on your behalf and it went through.\nStatus: done",
    "action in a table": "| Action | Result |\n|---|---|\n| {name} | done |",
    "list of actions": "Actions:\n- {name}: done\n- report: sent",
}
ACTIONS = (
    "Action: none required on your side.",
    "Action: please bring the book back by Friday.",
    "Action items:\n- renew the card\n- pay the fee",
    "Next action: call the front desk.",
    "Aktion: keine. Alles ist erledigt.",
    "Your action: confirm the booking with *yes*.",
    "Class action: the court decided in 2019 that the fee was unlawful.",
    "Issue: late fee\nAction: waived\nReason: first time",
    "**Action:** We refunded 84.20 € to your card.",
    "Action: Refund issued (5 days)",
    "Call to action: sign up today!",
    "Action taken: your password was reset.",
    "Thought: this is a nice question. Final Answer: 24",
    "Thought for the day: read more.",
    "Observation: the meter shows 7 kWh.",
    "Action!\nThe director shouted twice.",
    "Action: pending",
    "Action Input is a field of the old format; we no longer use it.",
    "action = search or browse, as you like",
    "The enum has three values: Action.SEARCH, Action.CLICK, Action.STOP.",
    "Actions speak louder than words: I renewed all three.",
    "Recommended action: Restart (hold the button for 5 s).",
    "Action: N/A",
    "Bitte wählen Sie eine Aktion: [1] verlängern, [2] zurückgeben",
)
BROKEN = (
    '{"member": "m',
    "{member: m1}",
    "{'member': 'm1'}",
    '{"member": "m1",}',
    '{"member": "m1"} and so on',
    "[1, 2]",
    "7",
    '"m1"',
    "null",
    "{]",
    "member=m1",
    '{"a": NaN}',
    "```json\n{}\n```",
    '{"query": "line\nbreak"}',
)
ODD = (
    "{}",
    "",
    " {} ",
    '{ "member" : "m1" }',
    '{"query": "a \\"quoted\\" word"}',
    '{"query": "```python\\nprint(1"}',
    '{"note": "<tool_call> in a string"}',
    '{"text": "Action: search"}',
    '{"query": "日本語"}',
    '{"nested": {"deep": [1, [2, {"x": null}]]}}',
    '{"n": 1e-9, "flag": true}',
    '{"statement": "SELECT \'{\' FROM t"}',
    '{"member": ""}',
    '{"a": 1, "a": 2}',
)
OFFERED = frozenset(TOOLS)


def malformed() -> Iterator[Case]:
    for forms, label in ((LEFT, True), (ABOUT, False)):
        for name, form in forms.items():
            for number, (tool, args) in enumerate(GIVEN):
                text = form.format(name=tool, args=args)
                if "alone" not in name and not name.startswith("JSON"):
                    text = rotate(PREAMBLES, name, number) + text
                kind = rotate(TALKS, name, number)
                made, turn = talk(kind, say(text, rotate(THOUGHTS, name, number)), name, number, tools=OFFERED)
                yield Case(f"{label} {name}", made, {turn: label})
    for text in (*ACTIONS, *ANSWERS):
        for kind in TALKS[:2]:
            made, turn = talk(kind, say(text), text, kind, tools=OFFERED)
            yield Case(f"words {text}", made, {turn: False})
    for number, arguments in enumerate(BROKEN):
        for kind in TALKS:
            made, turn = talk(kind, call(GIVEN[number % 6][0], arguments), number, kind, tools=OFFERED)
            yield Case(f"broken {arguments}", made, {turn: True})
    for number, arguments in enumerate(ODD):
        made, turn = talk(rotate(TALKS, number), call(GIVEN[number % 6][0], arguments), number, tools=OFFERED)
        yield Case(f"odd {arguments}", made, {turn: False})
        # Words about an action beside a call that was read.
        text = f"Thought: fine\nAction: {GIVEN[number % 6][0]}\nAction Input: {{}}"
        made, turn = talk("alone", call(GIVEN[number % 6][0], arguments, text), number, tools=OFFERED)
        yield Case(f"react beside a call {number}", made, {turn: False})
    for kind in ("tool", "bad_arguments", "unknown_tool", "timeout"):
        for tool, args in GIVEN:
            ask = Message(role="user", content="Go on.")
            made = attempt(ask, call(tool, args), result("no"), say("Sorry."), kinds={2: kind}, tools=OFFERED)
            yield Case(f"refused {kind}", made, {0: False, 1: False})
            if kind == "bad_arguments":
                yield Case("misfit", made, {0: True, 1: False}, params={"bad_arguments": True})
    unread = '{"problem": "the JSON ends too early"}'
    for number in range(6):
        ask = Message(role="user", content="Go on.")
        made = attempt(ask, call("malformed_call", unread), result("?"), say("Oh."), kinds={2: "malformed_call"})
        yield Case(f"unread {number}", made, {0: True, 1: False})


UNKNOWN = (
    "find_loan",
    "Find_Loans",
    "find_loans_v2",
    "functions.find_loans",
    "findLoans",
    "find-loans",
    "renew",
    "renew_loan ",
    "browser.click",
    "double_click",
    "web_search",
    "Search",
    "get_wether",
    "weather",
    "sql",
    "execute_sql; drop",
    "python",
    "multi_tool_use.parallel",
    "answer",
    "transfer_to_human",
    "",
    "search\n",
    "検索",
    "clicks",
)


def unknown() -> Iterator[Case]:
    """The kinds of errors come from the reader of calls that a run uses."""
    from rollout.core.calls import CallReader
    from rollout.core.messages import ToolResult, Toolset, ToolSpec

    reader = CallReader(Toolset(tuple(ToolSpec(name) for name in TOOLS)))

    def made(tools: tuple[str, ...], args: str, ask: str) -> Case:
        asked = tuple(ToolCall(f"c{number}", tool, args) for number, tool in enumerate(tools))
        kinds: dict[int, str] = {}
        results = []
        for number, one in enumerate(asked):
            read = reader.read(one)
            if isinstance(read, ToolResult) and read.error_kind is not None:
                kinds[2 + number] = read.error_kind
            results.append(Message(role="tool", content="…", tool_call_id=one.id))
        told = [Message(role="user", content=ask), Message(role="assistant", tool_calls=asked), *results, say("So.")]
        label = any(tool not in OFFERED for tool in tools)
        return Case(f"{label} {' '.join(tools)}", attempt(*told, kinds=kinds), {0: label, 1: False})

    for number, tool in enumerate(UNKNOWN):
        yield made((tool,), "{}", f"ask {number}")
        yield made((tool, TOOLS[number % 6]), '{"a": 1}', f"ask {number}")
        yield made((TOOLS[number % 6], tool), "{}", f"ask {number}")
        yield made((tool, tool), "{}", f"ask {number}")
        yield made((tool,), '{"broken": ', f"ask {number}")
        yield made((TOOLS[number % 6], TOOLS[number % 6], tool), "{}", f"ask {number}")
    for number in range(24):
        one, other = TOOLS[number % 6], TOOLS[(number * 5 + 1) % 6]
        yield made((one,), ODD[number % len(ODD)], f"ask {number}")
        yield made((one, other), "{}", f"ask {number}")
        yield made((one,), BROKEN[number % len(BROKEN)], f"ask {number}")
        yield made((one, other, one), '{"n": 1}', f"ask {number}")
        yield made((other,), "{}", f"ask {number}")
        yield made((other, other), "", f"ask {number}")
