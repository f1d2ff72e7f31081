"""A small causal language model behind the interfaces of vLLM and SGLang: real ids, real logprobs, a real template.

The tokenizer is byte-level BPE, trained here on the shipped policies; the model is a Llama of two layers with random
weights, too small to say anything of sense. So it may be made to write given texts: `script` says what, from the text
of the prompt. Those texts are spelt as models spell, not always with the tokens that the tokenizer itself would choose,
and their logprobs are the model's own. Everything follows from the prompt and the seed, so that a run can be resumed
and compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from aiohttp import web
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "rollout" / "models" / "local" / "chatml_tools.jinja"
POLICIES = ROOT / "rollout" / "examples" / "datasets" / "single_domain" / "policies"
START, END = "<|im_start|>", "<|im_end|>"
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
Script = Callable[[str], str | None]


def make_tokenizer(folder: Path, size: int = 1200) -> None:
    """Train a tokenizer and save it, with its chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[START, END], initial_alphabet=alphabet)
    bpe.train([str(path) for path in sorted(POLICIES.glob("*.md"))], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, additional_special_tokens=[START])
    tokenizer.chat_template = TEMPLATE.read_text()
    tokenizer.save_pretrained(str(folder))


class Sample(NamedTuple):
    """What was sampled, under the model: for each id its logprob, and the likeliest at its place behind its own."""

    ids: list[int]
    logprobs: list[float]
    likeliest: list[dict[int, float]]
    finish: str


class TinyServer:
    """Serves the model while its `async with` block runs. `asked` keeps every prompt and completion in order.

    `context` is how many tokens a prompt and its completion may have. What is longer is refused in vLLM's words.
    """

    def __init__(self, tokenizer: Path, script: Script = lambda prompt: None, context: int = 4096) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(str(tokenizer))
        torch.set_num_threads(1)
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(self.tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=context,
        )  # fmt: skip
        self.model = LlamaForCausalLM(config).eval()
        self.script = script
        self.context = context
        self.asked: list[tuple[list[int], list[int]]] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/generate", self._generate)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def sample(self, prompt: list[int], max_tokens: int, salt: object, alternatives: int = 0) -> Sample:
        """An answer. Raises web.HTTPBadRequest where there is no room for one."""
        room = self.context - len(prompt)
        if room < 0:
            raise _refusal(f"This model's maximum context length is {self.context} tokens.", "input_tokens")
        if room == 0:
            raise _refusal("max_tokens must be at least 1, got 0.", "max_tokens")
        max_tokens = min(max_tokens, room)
        seed = int.from_bytes(hashlib.sha256(repr((prompt, salt)).encode()).digest()[:4], "little")
        torch.manual_seed(seed)
        forced = self.script(self.tokenizer.decode(prompt))
        if forced is not None:
            ids = self._encode_as_sampled(forced, seed)[:max_tokens]
        else:
            with torch.no_grad():
                given = torch.tensor([prompt])
                ids = self.model.generate(
                    given, attention_mask=torch.ones_like(given), do_sample=True, max_new_tokens=max_tokens,
                    eos_token_id=self.tokenizer.eos_token_id, pad_token_id=self.tokenizer.eos_token_id,
                )[0, len(prompt):].tolist()  # fmt: skip
        with torch.no_grad():
            scores = torch.log_softmax(self.model(torch.tensor([prompt + ids])).logits[0], -1)
        rows = scores[len(prompt) - 1 : len(prompt) - 1 + len(ids)]
        logprobs = rows[torch.arange(len(ids)), torch.tensor(ids)].tolist()
        likeliest = [
            {token: logprob} | dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
            for token, logprob, row in zip(ids, logprobs, rows, strict=True)
            for top in [row.topk(alternatives)]
        ]
        self.asked.append((prompt, ids))
        return Sample(ids, logprobs, likeliest, "stop" if ids[-1] == self.tokenizer.eos_token_id else "length")

    def _encode_as_sampled(self, text: str, seed: int) -> list[int]:
        """Pieces of the text by themselves, split where the seed says: one of the many ways to spell it."""
        chance = torch.Generator().manual_seed(seed)
        ids: list[int] = []
        for word in re.findall(r"\s*\S+|\s+$", text):
            cut = int(torch.randint(1, len(word) + 1, (1,), generator=chance))
            for piece in (word[:cut], word[cut:]):
                ids += self.tokenizer.encode(piece, add_special_tokens=False)
        return [*ids, self.tokenizer.eos_token_id]

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("top_logprobs") and not body.get("logprobs"):
            raise _refusal("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
        messages = body["messages"]
        for message in messages:
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        written = self.tokenizer.apply_chat_template(
            messages, tools=body.get("tools"), add_generation_prompt=True, tokenize=False
        )
        prompt = self.tokenizer.encode(written, add_special_tokens=False)
        wanted = body.get("top_logprobs") or 0
        sample = self.sample(prompt, body.get("max_tokens") or 64, body.get("seed"), wanted)
        ids = sample.ids
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        calls = [json.loads(found) for found in CALL.findall(text)]
        answer: dict[str, Any] = {"role": "assistant", "content": CALL.sub("", text).strip() or None}
        if calls:
            answer["tool_calls"] = [
                {
                    "id": f"call_{len(messages)}_{number}",
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
                }
                for number, call in enumerate(calls)
            ]
        choice = {
            "index": 0,
            "message": answer,
            "finish_reason": "tool_calls" if calls else sample.finish,
            "token_ids": ids,
            "logprobs": {"content": [self._entry(sample, place, wanted) for place in range(len(ids))]},
        }
        return web.json_response({"choices": [choice], "prompt_token_ids": prompt, "usage": _usage(prompt, ids)})

    def _entry(self, sample: Sample, place: int, wanted: int) -> dict[str, Any]:
        """One of a chat's logprobs. Of the alternatives the first is the sampled token, and only so many are told."""
        told = [
            {"token": self.tokenizer.decode([token]), "logprob": logprob}
            for token, logprob in sample.likeliest[place].items()
        ]
        return {**told[0], "top_logprobs": told[:wanted]}

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        sample = self.sample(body["prompt"], body["max_tokens"], body.get("seed"), body["logprobs"])
        ids, logprobs, finish = sample.ids, sample.logprobs, sample.finish
        by_id = body.get("return_tokens_as_token_ids")
        # By their texts, alternatives that are no whole character are one.
        name = "token_id:{}".format if by_id else lambda token: self.tokenizer.decode([token])
        choice = {
            "text": self.tokenizer.decode(ids, skip_special_tokens=True),
            "finish_reason": finish,
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
            "logprobs": {
                "token_logprobs": logprobs,
                "tokens": [name(token) for token in ids],
                "top_logprobs": [
                    {name(token): logprob for token, logprob in entry.items()} for entry in sample.likeliest
                ],
            },
        }
        return web.json_response({"choices": [choice], "usage": _usage(body["prompt"], ids)})

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        params = body["sampling_params"]
        wanted = body.get("top_logprobs_num", 0)
        sample = self.sample(body["input_ids"], params["max_new_tokens"], params.get("sampling_seed"), wanted)
        ids, logprobs = sample.ids, sample.logprobs
        told = {
            "finish_reason": {"type": sample.finish},
            "output_token_logprobs": [[value, token, None] for value, token in zip(logprobs, ids, strict=True)],
            "output_top_logprobs": [
                [[logprob, token, None] for token, logprob in entry.items()] for entry in sample.likeliest
            ],
            "weight_version": "7",
            **_usage(body["input_ids"], ids),
        }
        return web.json_response({"text": self.tokenizer.decode(ids), "output_ids": ids, "meta_info": told})


def _usage(prompt: list[int], ids: list[int]) -> dict[str, int]:
    return {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}


def _refusal(text: str, key: str) -> web.HTTPBadRequest:
    error = {"message": f"{text} (parameter={key})", "type": "BadRequestError", "param": key, "code": 400}
    return web.HTTPBadRequest(text=json.dumps({"error": error}), content_type="application/json")
