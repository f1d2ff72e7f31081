"""A very small language model on CPU, behind a real OpenAI-compatible server with token ids and log-probabilities.

Its vocabulary is a few dozen pieces, so that it learns within seconds; everything else is as with a large one: a chat
template, sampling by temperature and seed, `return_token_ids`, `logprobs`, a version of its weights in every answer.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from aiohttp import web
from torch import nn

COLOURS = ("red", "green", "blue", "yellow", "black", "white")
CALL = '<tool_call>{"name": "press", "arguments": {"button": "'
END_CALL = '"}}</tool_call>'
PIECES = (
    "<bos>",
    "<user>",
    "<assistant>",
    "<eos>",
    CALL,
    END_CALL,
    "Press",
    "the",
    "button",
    "pressed",
    "Done.",
    *COLOURS,
)
IDS = {piece: number for number, piece in enumerate(PIECES)}
EOS = IDS["<eos>"]
_SPLIT = re.compile("|".join(re.escape(piece) for piece in sorted(PIECES[4:], key=len, reverse=True)))
MAX_LENGTH = 64


def encode(text: str) -> list[int]:
    """The pieces of a text. What is no piece (system prompts, punctuation) is not seen by this model."""
    return [IDS[found.group()] for found in _SPLIT.finditer(text)]


def encode_chat(messages: list[dict[str, Any]]) -> list[int]:
    """The chat template: what an answer is sampled from."""
    ids = [IDS["<bos>"]]
    for message in messages:
        if message["role"] == "assistant":
            ids += [IDS["<assistant>"], *encode(message["content"] or ""), EOS]
        elif message["role"] != "system":
            ids += [IDS["<user>"], *encode(message["content"] or "")]
    return [*ids, IDS["<assistant>"]]


class TinyModel(nn.Module):
    """A causal transformer with 2 layers."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(PIECES), width)
        self.places = nn.Embedding(MAX_LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, len(PIECES))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the token behind each one."""
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.tokens(ids) + self.places(torch.arange(length))
        return torch.log_softmax(self.out(self.layers(hidden, mask=mask, is_causal=True)), -1)

    @torch.no_grad()
    def sample(self, prompt: list[int], temperature: float, seed: int, most: int = 8) -> tuple[list[int], list[float]]:
        """An answer and the log-probability of each of its tokens."""
        chance = torch.Generator().manual_seed(seed)
        ids, logprobs = list(prompt), []
        while len(ids) < min(MAX_LENGTH, len(prompt) + most):
            scores = self(torch.tensor([ids]))[0, -1]
            chosen = int(torch.multinomial((scores / max(temperature, 1e-3)).softmax(-1), 1, generator=chance))
            ids.append(chosen)
            logprobs.append(float(scores[chosen]))
            if chosen == EOS:
                break
        return ids[len(prompt) :], logprobs


class Server:
    """The model as an OpenAI-compatible server. `version` is told with every answer."""

    def __init__(self, model: TinyModel) -> None:
        self.model = model
        self.version = 0
        self.answers = 0
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)

    async def __aenter__(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.answers += 1
        prompt = encode_chat(body["messages"])
        ids, logprobs = self.model.sample(prompt, body.get("temperature", 1.0), body.get("seed") or self.answers)
        is_whole = ids[-1:] == [EOS]
        text = "".join(PIECES[number] for number in (ids[:-1] if is_whole else ids))
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if is_whole else "length",
            "token_ids": ids,
            "logprobs": {"content": [{"token": PIECES[n], "logprob": p} for n, p in zip(ids, logprobs, strict=True)]},
        }
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
        return web.json_response(
            {
                "id": f"tiny-{self.answers}",
                "object": "chat.completion",
                "model": "tiny",
                "choices": [choice],
                "usage": usage,
                "prompt_token_ids": prompt,
            }
        )
