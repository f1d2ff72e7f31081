"""Token ids for exchanges that have none: their text, through a chat template.

They are what a model of that tokenizer would be given and would have to say, not what was sampled; so their rows are
marked `exact: false` and have no logprobs. An answer is what the template writes for it behind the mark that makes the
assistant speak, up to the end of its turn. Where a template cannot show an answer that way, the exchange gets no ids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.core.tokenizers import load_tokenizer
from rollout.trajectories.exports.conversational import entries
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.exchange import Exchange, Ids, pack
from rollout.trajectories.rows.text_rows import read_text_request

REWRITTEN = "the chat template writes a request otherwise once it is answered"


class ChatTokenizer:
    """A tokenizer with its chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise ConfigError(f"{tokenizer.name_or_path}: not a fast tokenizer; expected a folder with tokenizer.json")
        if not tokenizer.chat_template:
            raise ConfigError(
                f"{tokenizer.name_or_path}: has no chat template; put one beside it (chat_template.jinja)"
            )

    @classmethod
    def read(cls, path: Path) -> ChatTokenizer:
        """Read a tokenizer from a folder, or out of a GGUF file. Asks no network."""
        return cls(load_tokenizer(path, "--tokenizer"))

    def encode(self, exchange: Exchange) -> Exchange:
        """An exchange with the ids of its text, which the template ends as if the model had ended it. Raises Unfit."""
        asked = read_text_request(exchange.request)
        written = entries([*asked, exchange.answer])
        prompt = self.render(written[:-1], exchange.tools, opens=True)
        whole = self.render(written, exchange.tools)
        if not whole.startswith(prompt):
            raise Unfit(REWRITTEN)
        encoded = self._tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        # An id that reaches over the border is of the answer's making.
        cut = sum(end <= len(prompt) for _, end in encoded["offset_mapping"])
        ids = encoded["input_ids"]
        ends = [place for place in range(cut, len(ids)) if ids[place] == self._tokenizer.eos_token_id]
        completion = ids[cut : ends[-1] + 1] if ends else ids[cut:]
        return msgspec.structs.replace(exchange, ids=Ids(pack(ids[:cut]), pack(completion), is_exact=False))

    def render(self, messages: list[JSON], tools: list[JSON], *, opens: bool = False) -> str:
        """The text that the template makes of messages. `opens`: up to where the assistant speaks."""
        import jinja2

        try:
            text = self._tokenizer.apply_chat_template(
                messages, tools=tools or None, tokenize=False, add_generation_prompt=opens
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise Unfit(f"the chat template refuses it: {error}") from error
        return str(text)
