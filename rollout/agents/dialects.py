"""Tool-call dialects: an agent's model gets its tools and asks for them by fields of the protocol, or in the text.

A dialect stands at the border between the record and the model. The record is the same for all of them: messages with
calls, and results that answer calls. A dialect says what the model is shown of it and reads what the model answers;
no other module needs to know which one is spoken.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from rollout.agents.text_calls import UNCALLED, read_answer, split_reasoning
from rollout.core.calls import malformed_call
from rollout.core.messages import CALL_BEGIN, CALL_END, NO_TOOLS, Message, Toolset, with_readable_calls, write_calls
from rollout.trajectories.generation import Generation

UNCALLED_ID = "uncalled_"
"""Prefix of the id of the call that the record has for an answer in words alone."""
RESULT_BEGIN, RESULT_END = "<tool_response>", "</tool_response>"


class Dialect(Protocol):
    """One way to speak of tools. `show` and `read` depend on nothing but what they are given."""

    name: str

    def system(self, system: str | None, tools: Toolset) -> str | None:
        """The system prompt as it is sent to a model that is offered these tools."""
        ...

    def sent(self, tools: Toolset) -> Toolset:
        """What of them goes into the request's `tools`."""
        ...

    def show(self, message: Message) -> Message:
        """A message of the record as the model is sent it."""
        ...

    def export(self, message: Message) -> Message:
        """A message of the record as others are to learn it: in the form it was sent in, with all its reasoning."""
        ...

    def read(self, generation: Generation, seed: int | None) -> Generation:
        """A generation as it goes on record. The seed of its request makes ids of calls that have none."""
        ...


class NativeDialect:
    """Tools, calls and results in the fields that chat completions have for them."""

    name = "native"

    def __init__(self, *, must_call: bool = False) -> None:
        """`must_call`: an answer without a call is a malformed one, since there is no user."""
        self._must_call = must_call

    def system(self, system: str | None, tools: Toolset) -> str | None:
        return system

    def sent(self, tools: Toolset) -> Toolset:
        return tools

    def show(self, message: Message) -> Message:
        message = self.export(message)
        return with_readable_calls(message) if message.tool_calls else message

    def export(self, message: Message) -> Message:
        # Words alone stay words for the model, and what they were answered is said to it.
        if message.role == "tool" and (message.tool_call_id or "").startswith(UNCALLED_ID):
            return Message(role="user", content=message.content)
        if message.tool_calls and message.tool_calls[0].id.startswith(UNCALLED_ID):
            return msgspec.structs.replace(message, tool_calls=())
        return message

    def read(self, generation: Generation, seed: int | None) -> Generation:
        message = generation.message
        if not self._must_call or message.tool_calls:
            return generation
        # Servers refuse an empty answer in a conversation, so that one is shown with its call.
        call_id = f"{UNCALLED_ID if message.content else 'call_'}{seed or 0}"
        call = malformed_call(
            call_id, f"{UNCALLED[0].upper()}{UNCALLED[1:]}. Call one of the tools that you were given."
        )
        return msgspec.structs.replace(generation, message=msgspec.structs.replace(message, tool_calls=(call,)))


class TextDialect:
    """Tools in the system prompt, calls in the answers' text, results in users' messages (Qwen, Hermes)."""

    name = "text"

    def __init__(self, *, must_call: bool = False) -> None:
        """`must_call`: an answer without a call is a malformed one, since there is no user."""
        self._must_call = must_call

    def system(self, system: str | None, tools: Toolset) -> str | None:
        if not len(tools):
            return system
        return describe_tools(tools) if system is None else f"{system}\n\n{describe_tools(tools)}"

    def sent(self, tools: Toolset) -> Toolset:
        return NO_TOOLS

    def show(self, message: Message) -> Message:
        if message.role == "tool":
            text = f"{RESULT_BEGIN}\n{message.content or ''}\n{RESULT_END}"
            return Message(role="user", content=text, images=message.images)
        if message.role != "assistant":
            return message
        text = message.text
        if message.tool_calls and message.raw is None:
            # Calls of an opening, which were not written as text yet.
            text = "\n".join(filter(None, (text, write_calls(message.tool_calls))))
        reasoning = message.reasoning
        thought, rest = split_reasoning(text) if message.raw is not None else (None, text)
        if thought:
            if reasoning is None:
                text = rest
            elif reasoning == thought:
                reasoning = None  # It is in the text, as the model wrote it.
        return Message(role="assistant", content=text, reasoning=reasoning, images=message.images)

    def export(self, message: Message) -> Message:
        shown = self.show(message.without_reasoning())
        return shown if message.reasoning is None else msgspec.structs.replace(shown, reasoning=message.reasoning)

    def read(self, generation: Generation, seed: int | None) -> Generation:
        message = generation.message
        if message.tool_calls:
            # A model that calls by itself, such as the built-in one: what it asks for, as if it had written it.
            text = "\n".join(filter(None, (message.content, write_calls(message.tool_calls))))
            message = Message(role="assistant", content=text, reasoning=message.reasoning)
        read = read_answer(message, seed, must_call=self._must_call)
        return generation if read is generation.message else msgspec.structs.replace(generation, message=read)


class TemplateDialect(NativeDialect):
    """Tools and results in the fields of messages, which a chat template writes out; calls in the answers' text. For a
    model that is given token ids: no server reads its answers."""

    def read(self, generation: Generation, seed: int | None) -> Generation:
        read = read_answer(generation.message, seed, must_call=False)
        if read is not generation.message:
            generation = msgspec.structs.replace(generation, message=read)
        return super().read(generation, seed)


NATIVE = NativeDialect()


def describe_tools(tools: Toolset) -> str:
    """The part of a system prompt that describes tools which are called in the text."""
    listed = "\n".join(msgspec.json.encode(spec.to_json()).decode() for spec in tools.specs)
    return (
        "# Tools\n\n"
        "You can call these tools; each line is the JSON schema of one:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "To call a tool, write its name and its arguments as one JSON object between the marks:\n"
        f'{CALL_BEGIN}\n{{"name": "name_of_the_tool", "arguments": {{"parameter": "value"}}}}\n{CALL_END}\n'
        f"You will be given its result between {RESULT_BEGIN} and {RESULT_END}."
    )
