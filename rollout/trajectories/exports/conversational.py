"""The conversational form of TRL and Hugging Face: `messages` for a chat template, and `tools`.

Arguments are objects, because templates write them out as JSON; a text that is none is the object that the model was
shown in its place. A tool's message has the tool's name, which some templates need. Reasoning is in
`reasoning_content`, all of it: a template knows which of it its model is to see.

For single turns (`--per-turn`) the record is `prompt` and `completion`, so that only the turn itself is learnt.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollout.core.messages import JSON, Message, message_to_json, read_arguments
from rollout.trajectories.exports.exporter import JsonLinesExporter, refuse_images
from rollout.trajectories.labels import Example


class Conversational(JsonLinesExporter):
    """One JSON object a line, for `datasets.load_dataset("json", …)`."""

    holds_context = True

    def convert(self, example: Example) -> JSON:
        refuse_images(example)
        messages = entries(example.messages)
        record: JSON = {"id": example.id, "task_id": example.task_id, "success": example.success}
        if example.context is None:
            record["messages"] = messages
        else:
            record["prompt"] = messages[: example.context]
            record["completion"] = messages[example.context :]
        record["tools"] = example.tools
        return record


def entries(messages: Iterable[Message]) -> list[JSON]:
    """The messages as a chat template reads them."""
    made: list[JSON] = []
    names: dict[str, str] = {}
    for message in messages:
        entry = message_to_json(message)
        if message.tool_calls:
            for call, written in zip(message.tool_calls, entry["tool_calls"], strict=True):
                written["function"]["arguments"] = read_arguments(call)
                names[call.id] = call.name
        if message.tool_call_id in names:
            entry["name"] = names[message.tool_call_id]
        made.append(entry)
    return made
