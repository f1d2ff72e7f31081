"""Saved trajectories for tests: real ones in small, and any that hypothesis can think of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from rollout.core.messages import JSON, Message, ToolCall
from rollout.trajectories.generation import Generation
from rollout.trajectories.labels import Example, Prompt
from rollout.trajectories.line import Head, bare_metadata, encode_line
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, NodeKind

SYSTEM = "Be careful. Ask before you write."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_loans",
            "description": "The loans of a member.",
            "parameters": {
                "type": "object",
                "properties": {"member": {"type": "string"}, "filters": {"type": "object"}},
                "required": ["member"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "renew_loan",
            "description": "",
            "parameters": {"type": "object", "properties": {"loans": {"type": "array", "items": {"type": "integer"}}}},
        },
    },
]
PROMPT = Prompt(SYSTEM, msgspec.json.encode(TOOLS), TOOLS)

CONVERSATION = (
    Message(role="user", content="Renew my loans – all of them, bitte: 漢字 🎈"),
    Message(
        role="assistant",
        reasoning="First I look.",
        tool_calls=(
            ToolCall(
                "c1",
                "find_loans",
                '{"member": "m1", "filters": {"due": [1, null, {"deep": 2.5}], "<tool_call>": true}}',
            ),
            ToolCall("c2", "find_loans", "{}"),
        ),
    ),
    Message(role="tool", content='{"loans": [7]}', tool_call_id="c1"),
    Message(role="tool", content='{"error": "member is missing"}', tool_call_id="c2"),
    Message(role="assistant", content="Just a moment.", tool_calls=(ToolCall("c3", "renew_loan", '{"loans": [7]}'),)),
    Message(role="tool", content="ok", tool_call_id="c3"),
    Message(role="assistant", content="Renewed.", reasoning="Done."),
    Message(role="user", content="Thank you."),
)


def make_nodes(
    messages: Sequence[Message],
    *,
    opening: int = 0,
    errors: Mapping[int, str] | None = None,
    data: Mapping[int, JSON] | None = None,
    generations: Mapping[int, Generation] | None = None,
) -> list[NodeBody]:
    """The path of a conversation. What is known beside its messages is given by their indexes."""
    kinds: dict[str, NodeKind] = {"assistant": "generation", "tool": "tool", "user": "user", "system": "opening"}
    return [
        NodeBody(
            "opening" if place < opening else kinds[message.role],
            message=message,
            generation=(generations or {}).get(place),
            error_kind=(errors or {}).get(place),
            data=(data or {}).get(place),
        )
        for place, message in enumerate(messages)
    ]


def trajectory(
    *messages: Message,
    id: str = "t",
    task: str | None = None,
    success: bool = False,
    reason: StopReason = StopReason.USER_STOP,
    opening: int = 0,
    errors: Mapping[int, str] | None = None,
    data: Mapping[int, JSON] | None = None,
    generations: Mapping[int, Generation] | None = None,
    image_url: Callable[[str], str] | None = None,
    prompt: Prompt | None = None,
    **metadata: Any,
) -> Trajectory:
    """A finished attempt with its nodes. `metadata` beside how it ended."""
    return Trajectory(
        id,
        task or id,
        success,
        {**bare_metadata(reason), **metadata},
        nodes=make_nodes(messages, opening=opening, errors=errors, data=data, generations=generations),
        image_url=image_url,
        prompt=None if prompt is None else lambda: (prompt.system, prompt.tools),
    )


def example(
    messages: Sequence[Message], tools: Sequence[JSON] = (), metadata: JSON | None = None, id: str = "a", **more: Any
) -> Example:
    """A trajectory as exporters see it."""
    return Example(id, id, True, metadata or {}, messages=tuple(messages), tools=list(tools), **more)


def line(
    identifier: str = "a",
    messages: tuple[Message, ...] = CONVERSATION,
    *,
    task: str | None = None,
    success: bool = True,
    reason: StopReason = StopReason.USER_STOP,
    **metadata: Any,
) -> bytes:
    """A line as a run writes it."""
    head: JSON = {**bare_metadata(reason), "marks": [], "tool_errors": {}}
    return encode_line(Head(identifier, task or identifier, success, {**head, **metadata}), messages)


def labelled(*lines: bytes) -> bytes:
    """Lines with their label."""
    made = []
    for entry in map(json.loads, lines):
        entry["messages"].insert(0, {"role": "system", "content": SYSTEM})
        made.append(json.dumps({**entry, "tools": TOOLS}).encode() + b"\n")
    return b"".join(made)


def write(path: Path, *lines: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


# ---- any trajectory --------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, values, max_size=3).map(json.dumps) | texts


@st.composite
def turns(draw: st.DrawFn) -> tuple[Message, ...]:
    """A user's message, steps with calls and their answers, an answer."""
    messages = [Message(role="user", content=draw(texts))]
    for _ in range(draw(st.integers(0, 2))):
        reasoning, content = draw(st.none() | texts.filter(bool)), draw(st.none() | texts)
        calls = tuple(
            ToolCall(f"call_{draw(st.uuids())}", draw(names), draw(arguments)) for _ in range(draw(st.integers(1, 3)))
        )
        messages.append(Message(role="assistant", content=content, reasoning=reasoning, tool_calls=calls))
        messages += [Message(role="tool", content=draw(texts), tool_call_id=call.id) for call in calls]
    messages.append(
        Message(role="assistant", content=draw(st.none() | texts), reasoning=draw(st.none() | texts.filter(bool)))
    )
    return tuple(messages)


conversations = st.tuples(st.lists(turns(), min_size=1, max_size=3), st.booleans()).map(
    lambda drawn: (
        *(message for turn in drawn[0] for message in turn),
        *([Message(role="user", content="Thank you.")] if drawn[1] else []),
    )
)
prompts = st.builds(
    lambda system, tools: Prompt(system, msgspec.json.encode(tools), tools),
    st.none() | texts,
    st.lists(
        st.builds(
            lambda name, description, schema: {
                "type": "function",
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": {"type": "object", "properties": {}, "x": schema},
                },
            },
            names,
            texts,
            values,
        ),
        max_size=3,
        unique_by=lambda tool: tool["function"]["name"],
    ),
)
