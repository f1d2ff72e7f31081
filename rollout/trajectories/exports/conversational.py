"""The conversational form of TRL and Hugging Face: `messages` for a chat template, and `tools`.

Arguments are objects, because templates write them out as JSON; a text that is none is the object that the model was
shown in its place. A tool's message has the tool's name, which some templates need. Reasoning is in
`reasoning_content`, all of it: a template knows which of it its model is to see.

For single turns (`--per-turn`) and single steps the record is `prompt` and `completion`, so that only the turn or the
step itself is learnt.

Where the model was sent images, the record also has `images`, the paths of their files. The content of every message
is then a list of parts, in which `{"type": "image"}` marks the place of the next image, as TRL and the processors of
vision-language models read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rollout.core.messages import JSON, Message, message_to_json, read_arguments
from rollout.trajectories.exports.exporter import JsonLinesExporter, refuse_images
from rollout.trajectories.labels import Example


class Conversational(JsonLinesExporter):
    """One JSON object a line, for `datasets.load_dataset("json", …)`."""

    holds_context = True

    def convert(self, example: Example) -> JSON:
        if not example.has_images:
            refuse_images(example)
        messages = entries(example.messages)
        if example.has_images:
            messages = in_parts(messages)
        record: JSON = {"id": example.id, "task_id": example.task_id, "success": example.success}
        if example.context is None:
            record["messages"] = messages
        else:
            record["prompt"] = messages[: example.context]
            record["completion"] = messages[example.context :]
        record["tools"] = example.tools
        if example.has_images:
            record["images"] = example.image_paths()
        return record


def in_parts(messages: Iterable[JSON]) -> list[JSON]:
    """Messages whose contents are lists of parts, with images marked by their places.

    A text alone becomes a list, too: TRL takes a user's message with a text for one that lacks its images.
    """
    return [{**message, "content": _parts(message.get("content"))} for message in messages]


def _parts(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return content
    return [{"type": "image"} if part["type"] == "image_url" else part for part in content]


def entries(messages: Iterable[Message]) -> list[JSON]:
    """The messages as a chat template reads them. Images are only marked by their places."""
    made: list[JSON] = []
    names: dict[str, str] = {}
    for message in messages:
        entry = message_to_json(message)
        if entry.pop("images", None):
            text = [{"type": "text", "text": message.content}] if message.content else []
            entry["content"] = [*text, *({"type": "image"} for _ in message.images)]
        if message.tool_calls:
            for call, written in zip(message.tool_calls, entry["tool_calls"], strict=True):
                written["function"]["arguments"] = read_arguments(call)
                names[call.id] = call.name
        if message.tool_call_id in names:
            entry["name"] = names[message.tool_call_id]
        made.append(entry)
    return made
