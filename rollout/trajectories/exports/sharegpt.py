"""ShareGPT with tools, as LLaMA-Factory reads it: `formatting: sharegpt`, columns `conversations`, `system`, `tools`.

Its rules: turns of `human` and `observation` take turns with those of `gpt` and `function_call`, and the last is one of
the latter. So it ends with the agent's last answer, messages of the same speaker in a row become one turn, and so do
the results of calls that were made together. What cannot be brought into that order is left out.

A `function_call` holds the calls as JSON. What the agent said or thought with them stands before, and the calls then
between `<tool_call>` and `</tool_call>`, which LLaMA-Factory reads from 0.9.5 on. Reasoning is in `<think>`.
"""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON, Message, read_arguments
from rollout.trajectories.exports.exporter import JsonLinesExporter, Unfit, refuse_images, up_to_last_answer
from rollout.trajectories.labels import Example

BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""What LLaMA-Factory itself puts between the results of calls that were made together."""
_CALLS_BEGIN, _CALLS_END = "<tool_call>", "</tool_call>"
_JOINTS = {"human": "\n\n", "gpt": "\n\n", "observation": BETWEEN_RESULTS}
_ASKING = ("human", "observation")


class ShareGPT(JsonLinesExporter):
    """`{"id", "conversations": [{"from", "value"}, …], "system", "tools"}`; `tools` is JSON in a string."""

    holds_context = True
    """By its reader's setting `mask_history: true`."""

    def convert(self, example: Example) -> JSON:
        refuse_images(example)
        example = up_to_last_answer(example)
        messages = list(example.messages)
        system = messages.pop(0).content or "" if messages[0].role == "system" else ""
        turns: list[JSON] = []
        for message in messages:
            speaker, text = _turn(message)
            if turns and turns[-1]["from"] == speaker and speaker in _JOINTS:
                turns[-1]["value"] += _JOINTS[speaker] + text
            else:
                turns.append({"from": speaker, "value": text})
        for place, turn in enumerate(turns):
            if (turn["from"] in _ASKING) != (place % 2 == 0):
                raise Unfit("its turns do not alternate")
        tools = msgspec.json.encode(example.tools).decode() if example.tools else ""
        return {"id": example.id, "conversations": turns, "system": system, "tools": tools}


def _turn(message: Message) -> tuple[str, str]:
    content = message.content or ""
    if message.role == "user":
        return "human", content
    if message.role == "tool":
        return "observation", content
    if message.role == "system":
        raise Unfit("a system message in the middle")
    said = f"<think>\n{message.reasoning}\n</think>\n\n{content}" if message.reasoning is not None else content
    if not message.tool_calls:
        return "gpt", said
    calls = [{"name": call.name, "arguments": read_arguments(call)} for call in message.tool_calls]
    # Written so that no argument can look like an end of the calls.
    written = msgspec.json.encode(calls[0] if len(calls) == 1 else calls).decode().replace("<", "\\u003c")
    if not said:
        return "function_call", written
    if _CALLS_BEGIN in said:
        raise Unfit(f"{_CALLS_BEGIN} in the text beside a call")
    return "function_call", f"{said}\n{_CALLS_BEGIN}\n{written}\n{_CALLS_END}"
