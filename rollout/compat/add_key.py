"""AgentSkiller's records, ready to be tokenised (`add_key.py`).

Every message has the same five keys. The whole trajectory is in it, with all reasoning; arguments are the text that the
model wrote.
"""

from __future__ import annotations

from rollout.core.messages import JSON, Message, message_to_json
from rollout.trajectories.exports.exporter import JsonLinesExporter, refuse_images
from rollout.trajectories.labels import Example

KEYS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id")


class AddKey(JsonLinesExporter):
    """`{"messages": […], "id", "data_source": "agent", "use_cot": true, "tools": […]}`."""

    def convert(self, example: Example) -> JSON:
        refuse_images(example)
        return {
            "messages": [_with_all_keys(message) for message in example.messages],
            "id": example.id,
            "data_source": "agent",
            "use_cot": True,
            "tools": example.tools,
        }


def _with_all_keys(message: Message) -> JSON:
    entry = message_to_json(message)
    return {key: entry.get(key) for key in KEYS}
