"""A model's own tokenizer and chat template, here: what it needs to be given token ids instead of messages.

A conversation is encoded once. Its beginning is what the template makes of it. What comes behind an answer is encoded
by itself: the template writes a made-up conversation of one answer and the new messages, and all behind that answer is
the suffix. So the ids of the answer stay those that were sampled, whatever the template or the tokenizer would make of
its text.

The same trick tells what the tokens of a context are (`TemplateLabels`): the template writes the messages with a mark
in the place of each text, which shows what it puts around them. Where the ids are not what the tokenizer makes of their
own text, or the template does not write them so, the answer is unknown.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from rollout.core.errors import ConfigError, ModelError
from rollout.core.messages import JSON, NO_TOOLS, Message, Toolset, message_to_json, read_arguments
from rollout.core.text_files import read_text
from rollout.core.tokenizers import load_tokenizer
from rollout.trajectories.token_view import TokenKind

MARK = "\ue000"
"""A character that no template writes."""
ANSWER = f"{MARK}an answer{MARK}"
"""Stands for an answer in a made-up conversation."""


class ChatTemplate:
    """A tokenizer with its chat template. Safe to use from many episodes, one call at a time."""

    def __init__(self, tokenizer: Any, template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._template = template
        if template is None and not tokenizer.chat_template:
            raise ConfigError(f"{tokenizer.name_or_path}: the tokenizer has no chat template; give it chat_template")
        self.end = self._find_end()
        """The id that ends an answer; None where that is not one special token."""

    @classmethod
    def load(cls, source: Path, template: Path | None = None) -> Self:
        """Read a tokenizer from a folder, or out of a GGUF file. Imports transformers, which takes seconds."""
        tokenizer = load_tokenizer(source, "tokenizer")
        try:
            text = None if template is None else read_text(template)
        except (OSError, ValueError) as error:
            raise ConfigError(f"chat_template: {template} cannot be read: {error}") from error
        return cls(tokenizer, text)

    def encode(self, messages: Sequence[Message], tools: Toolset = NO_TOOLS, options: JSON | None = None) -> list[int]:
        """The ids of a whole conversation, up to where the assistant speaks. Raises ModelError where the template
        refuses it."""
        return self._encode(self._render(messages, tools, options))

    def encode_suffix(
        self, known: Sequence[int], messages: Sequence[Message], options: JSON | None = None
    ) -> list[int]:
        """The ids that follow an answer: the end of its turn where it was not sampled, then `messages`, up to where
        the assistant speaks again. Raises ModelError where the template does not write an answer as it is."""
        ids = self._encode(self._behind_answer(messages, options))
        has_end = bool(ids) and bool(known) and known[-1] == ids[0] == self.end
        return ids[1:] if has_end else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an answer, special tokens included but for the end of its turn."""
        ends = {self.end, self._tokenizer.eos_token_id}
        stop = len(ids)
        while stop and ids[stop - 1] in ends:
            stop -= 1
        return str(self._tokenizer.decode(list(ids[:stop]), **_AS_IT_IS))

    def offsets(self, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]] | None:
        """The text of ids and where each of them lies in it; None where the tokenizer would encode that text otherwise,
        so that it is unknown."""
        listed = list(ids)
        text = str(self._tokenizer.decode(listed, **_AS_IT_IS))
        again = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return (text, again["offset_mapping"]) if again["input_ids"] == listed else None

    def write(self, messages: Sequence[Message], tools: Toolset, options: JSON | None, *, is_first: bool) -> str:
        """What the template makes of messages: of a whole conversation, or of what follows an answer. Raises
        ModelError."""
        return self._render(messages, tools, options) if is_first else self._behind_answer(messages, options)

    @property
    def end_text(self) -> str:
        """What `end` looks like."""
        return "" if self.end is None else str(self._tokenizer.decode([self.end], **_AS_IT_IS))

    def _behind_answer(self, messages: Sequence[Message], options: JSON | None) -> str:
        said = [Message("user", "-"), Message("assistant", ANSWER), *messages]
        _, found, suffix = self._render(said, NO_TOOLS, options).partition(ANSWER)
        if not found:
            raise ModelError("the chat template does not write an answer as it is")
        return suffix

    def _render(self, messages: Sequence[Message], tools: Toolset, options: Mapping[str, Any] | None) -> str:
        from jinja2 import TemplateError

        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [_as_templates_expect(message) for message in messages],
                    tools=[spec.to_json() for spec in tools.specs] or None,
                    chat_template=self._template,
                    add_generation_prompt=True,
                    tokenize=False,
                    **(options or {}),
                )
            )
        except (TemplateError, ValueError, TypeError) as error:
            raise ModelError(f"the chat template refuses the conversation: {error}") from error

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _find_end(self) -> int | None:
        try:
            ids = self._encode(self._behind_answer([Message("user", "-")], None))
        except ModelError:
            return None
        return ids[0] if ids and ids[0] in self._tokenizer.all_special_ids else None


_AS_IT_IS = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}


class TemplateLabels:
    """Tells the tokens of a context apart by a template: a `rollout.trajectories.token_view.Labels`."""

    def __init__(
        self,
        template: ChatTemplate,
        tools: Toolset = NO_TOOLS,
        show: Callable[[Message], Message] = lambda message: message,
        options: JSON | None = None,
    ) -> None:
        """`tools` as they were sent, `show` as the dialect shows messages, `options` as the template had them."""
        self._template = template
        self._tools = tools
        self._show = show
        self._options = options

    def label(self, ids: Sequence[int], messages: Sequence[tuple[TokenKind, Message]], *, is_first: bool) -> bytes:
        """See `Labels`. Calls within an opening's answers are glue: the template writes them."""
        unknown = bytes(len(ids))
        found = self._template.offsets(ids)
        spans = None if found is None else self._spans(found[0], messages, is_first)
        if found is None or spans is None:
            return unknown
        starts = [start for start, _, _ in spans]
        kinds = bytearray()
        for begin, end in found[1]:
            # A token that a text shares with what stands around it is the text's.
            number = bisect.bisect_left(starts, end) - 1
            inside = number >= 0 and begin < spans[number][1]
            kinds.append(spans[number][2] if inside else TokenKind.GLUE)
        return bytes(kinds)

    def _spans(
        self, text: str, messages: Sequence[tuple[TokenKind, Message]], is_first: bool
    ) -> list[tuple[int, int, TokenKind]] | None:
        """Where the texts of messages lie in what the template made of them; None where it did not make this."""
        shown = [(kind, self._show(message)) for kind, message in messages]
        texts = [(kind, message.content) for kind, message in shown if message.content]
        marks = iter(range(len(texts)))
        marked = [
            msgspec.structs.replace(message, content=f"{MARK}{next(marks)}{MARK}") if message.content else message
            for _, message in shown
        ]
        try:
            written = self._template.write(marked, self._tools, self._options, is_first=is_first)
        except ModelError:
            return None
        glue = written.split(MARK)[::2]
        if len(glue) != len(texts) + 1:
            return None
        if not is_first and not text.startswith(glue[0]):
            glue[0] = glue[0].removeprefix(self._template.end_text)
        place, spans = 0, []
        for before, (kind, content) in zip(glue, texts, strict=False):
            place += len(before)
            said = content if text.startswith(content, place) else content.strip()
            if not text.startswith(before, place - len(before)) or not text.startswith(said, place):
                return None
            spans.append((place, place + len(said), kind))
            place += len(said)
        return spans if text[place:] == glue[-1] else None


def _as_templates_expect(message: Message) -> JSON:
    """Calls with their arguments as objects, as servers hand them to templates."""
    entry = message_to_json(message)
    if message.content is None:
        entry["content"] = ""
    for call, written in zip(message.tool_calls, entry.get("tool_calls", ()), strict=True):
        written["function"]["arguments"] = read_arguments(call)
    return entry
