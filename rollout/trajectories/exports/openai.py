"""OpenAI's fine-tuning format: `{"messages": […], "tools": […]}` and nothing else, for a service that refuses the rest.

It ends with the agent's last answer, because the service wants that. It has no place for reasoning. Arguments are text
that is a JSON object. Names of tools keep to the letters that the service allows, which those of our runs do anyway.
"""

from __future__ import annotations

import re

from rollout.core.messages import JSON, Message, with_readable_calls
from rollout.trajectories.exports.exporter import JsonLinesExporter, refuse_images, up_to_last_answer
from rollout.trajectories.labels import Example

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class OpenAI(JsonLinesExporter):
    """Supervised fine-tuning of chat models."""

    holds_reasoning = False
    holds_masks = True
    holds_context = True

    def convert(self, example: Example) -> JSON:
        refuse_images(example)
        example = up_to_last_answer(example)
        messages = [_entry(message) for message in example.messages]
        for place, entry in enumerate(messages):
            if entry["role"] == "assistant" and (place < example.learnt_from or place in example.masked):
                entry["weight"] = 0
        record: JSON = {"messages": messages}
        if example.tools:
            record["tools"] = [_with_legal_name(tool) for tool in example.tools]
        return record


def _entry(message: Message) -> JSON:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content or ""}
    entry: JSON = {"role": message.role, "content": message.content}
    if message.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": _legal(call.name), "arguments": call.arguments}}
            for call in with_readable_calls(message).tool_calls
        ]
    elif message.content is None:
        entry["content"] = ""
    return entry


def _with_legal_name(tool: JSON) -> JSON:
    function = tool.get("function", tool)
    return {"type": "function", "function": {**function, "name": _legal(function["name"])}}


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)
