"""Attempts and exchanges for tests, made by hand or by hypothesis; and a tokenizer that is small and real."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rollout.core.messages import Message, ToolCall, message_to_json
from rollout.trajectories.line import Head
from rollout.trajectories.rows.exchange import Attempted, Exchange, Ids, pack

TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
    "{% generation %}"
    "{%- if message.reasoning_content is string and (keep_thoughts or loop.last) %}"
    "{{ '<think>' + message.reasoning_content + '</think>' }}{% endif %}"
    "{{- message.content if message.content is string else '' }}"
    "{%- for call in message.tool_calls or [] %}"
    "{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}"
    "{{- '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{%- else %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}{% endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Drops reasoning of earlier answers, as many templates do; with `keep_thoughts` in front it keeps it."""


def save_tokenizer(folder: Path, *, keeps_thoughts: bool = True) -> Path:
    """A byte-level tokenizer with ends of turns, as `transformers` saves it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>"])
    template = TEMPLATE.replace("keep_thoughts", "true" if keeps_thoughts else "false")
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|pad|>", chat_template=template
    ).save_pretrained(folder)
    return folder


# ---- by hand ---------------------------------------------------------------------------------------------------------


def exchange(request: list[Message], answer: Message, **more: Any) -> Exchange:
    """An exchange without ids, all of whose messages are sent as they are."""
    return Exchange([message_to_json(message) for message in request], answer, message_to_json(answer), **more)


def attempted(
    name: str, messages: list[Message], reward: float | None = 1.0, opening: int = 1, **more: Any
) -> Attempted:
    """An attempt whose model was always sent everything."""
    number = int(name.rpartition("~")[2]) if "~" in name else 0
    places = [place for place, message in enumerate(messages) if message.role == "assistant" and place >= opening]
    exchanges = [exchange(messages[:place], messages[place], key=(number, step)) for step, place in enumerate(places)]
    metadata = {"status": "completed", "stop_reason": "user_stop"}
    head = Head(name, "task", bool(reward), metadata)
    values = None if reward is None else [reward] * len(exchanges)
    known: dict[str, Any] = {"values": values, **more}
    return Attempted(name, "task", number, head, tuple(messages), opening, exchanges, reward, **known)


def asked(text: str = "Count.") -> Message:
    return Message(role="user", content=text)


def said(text: str | None = None, *, call: str | None = None, thought: str | None = None) -> Message:
    calls = (ToolCall(call, "count", '{"to": 3}'),) if call else ()
    return Message(role="assistant", content=text, tool_calls=calls, reasoning=thought)


def told(call: str, text: str = "ok") -> Message:
    return Message(role="tool", content=text, tool_call_id=call)


# ---- any trees -------------------------------------------------------------------------------------------------------

tokens = st.lists(st.integers(0, 7), min_size=1, max_size=4)
"""Few different ones, so that what is not shared looks alike often."""


class Grown:
    """Attempts that branch off each other at random, with ids, and what is true of them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.paths: list[list[Exchange]] = []
        self.broken: list[list[bool]] = []
        """For each attempt and step, whether its prompt does not go on behind what was before it."""
        trunk = pack(draw(tokens))
        for number in range(draw(st.integers(1, 5))):
            path, broken = list[Exchange](), list[bool]()
            if number and draw(st.booleans()):
                parent = draw(st.integers(0, number - 1))
                shared = draw(st.integers(0, len(self.paths[parent]) - 1))
                path, broken = self.paths[parent][:shared], self.broken[parent][:shared]
            for step in range(len(path), len(path) + draw(st.integers(1, 4))):
                breaks = bool(path) and draw(st.integers(0, 3)) == 0
                path.append(self._step(draw, path, trunk, (number, step), breaks))
                broken.append(breaks)
            self.paths.append(path)
            self.broken.append(broken)

    def _step(
        self, draw: st.DrawFn, path: list[Exchange], trunk: array[int], key: tuple[int, int], breaks: bool
    ) -> Exchange:
        prompt = trunk
        if path:
            before = path[-1].ids
            assert before is not None
            prompt = before.prompt + before.completion + pack(draw(tokens))
            if breaks:
                # A token that no other prompt of the path has there: this one goes on behind nothing by chance.
                prompt = trunk + pack([9 + len(path)]) + pack(draw(tokens))
        completion = pack(draw(tokens))
        logprobs = array("d", [-0.5 - key[0] - token / 8 for token in completion])
        return exchange(
            [asked()], said("."), key=key, ids=Ids(prompt, completion, logprobs), is_learnt=draw(st.integers(0, 4)) > 0
        )


@st.composite
def grown(draw: st.DrawFn) -> Grown:
    return Grown(draw)
