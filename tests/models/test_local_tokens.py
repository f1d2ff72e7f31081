"""Token-exact records of a real model with its own tokenizer: SmolLM2 on a llama.cpp server."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="needs the extra rollout-engine[local]")
pytest.importorskip("gguf", reason="needs the extra rollout-engine[train]")

from rollout.models.chat_template import ChatTemplate, TemplateLabels
from rollout.models.local.server import CHAT_TEMPLATE
from rollout.models.local.weights import fetch_weights
from rollout.store.reading.reader import open_reader
from rollout.trajectories.token_view import TokenKind, TokenView, view_tokens
from tests.conftest import read_lines, roll_out, write_tasks

pytestmark = pytest.mark.local
OUT = Path("out.jsonl")
WORDS = ["Say hello.", "Say it in French.", "Thank you, that is all."]


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate.load(fetch_weights(), CHAT_TEMPLATE)


def config(entry: dict[str, Any], **dataset: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "enable_monitor": False,
        "local": {"context": 1024, "parallel": 1},
        "models": {"local/smollm2": entry},
        "datasets": {
            "data": {
                "path": write_tasks(Path("tasks.jsonl"), WORDS[0]),
                "output_path": OUT,
                "mode": "no_tool",
                "agent": {"model": "local/smollm2", "preamble": "Be brief.", "max_tokens": 12, "temperature": 0.9},
                "user": {"kind": "scripted", "messages": WORDS[1:]},
                "max_turns": 3,
                **dataset,
            }
        },
    }


def view_of(template: ChatTemplate, run: str = "run") -> TokenView:
    with open_reader(Path(run)) as reader:
        return view_tokens(reader.whole_path("data", "task0"), TemplateLabels(template), "Be brief.")


async def test_chat_ids_are_those_of_the_models_tokenizer(template: ChatTemplate) -> None:
    await roll_out(config({"token_ids": True}))
    (line,) = read_lines(OUT)
    assert line["metadata"]["tokens"]["exact"]
    view = view_of(template)
    first = view.segments[0]
    prompt = first.ids[: first.spans[0].start].tolist()
    assert template.decode(prompt) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n"
    )
    answers = [message["content"] for message in line["messages"] if message["role"] == "assistant"]
    spans = [(segment, span) for segment in view.segments for span in segment.spans]
    said = [template.decode(segment.ids[span.start : span.end].tolist()) for segment, span in spans]
    assert [text.strip() for text in said] == [answer.strip() for answer in answers]
    assert all(span.has_logprobs for _, span in spans)
    assert line["metadata"]["usage"]["agent"]["completion_tokens"] == sum(span.end - span.start for _, span in spans)


async def test_with_ids_given_a_real_model_never_drifts(template: ChatTemplate) -> None:
    weights = fetch_weights()
    await roll_out(config({"token_in": True, "tokenizer": weights, "chat_template": CHAT_TEMPLATE}))
    (line,) = read_lines(OUT)
    assert line["metadata"]["tokens"] == {"exact": True, "drift": []}
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["tokens"] == {"data": {"exact": 1, "inexact": 0, "drifted": 0, "drift": {}}}
    (segment,) = view_of(template).segments
    assert len(segment.spans) == 3
    told = [token for token, kind in zip(segment.ids, segment.kinds, strict=True) if kind == TokenKind.USER]
    assert template.decode(told) == "".join(WORDS)
    assert TokenKind.CONTEXT not in segment.kinds
    usage = line["metadata"]["usage"]["agent"]
    assert usage["prompt_tokens"] == sum(span.start for span in segment.spans), "the server read what is on record"
    assert usage["completion_tokens"] == sum(segment.loss_mask)


async def test_entropies_come_of_the_alternatives_that_a_server_tells(template: ChatTemplate) -> None:
    agent = {"model": "local/smollm2", "preamble": "Be brief.", "max_tokens": 12, "top_logprobs": 4}
    entry = {"token_in": True, "tokenizer": fetch_weights(), "chat_template": CHAT_TEMPLATE}
    await roll_out(config(entry, agent=agent, max_turns=1))
    with open_reader(Path("run")) as reader:
        path = reader.whole_path("data", "task0")
    (tokens,) = [body.generation.tokens for body in path if body.generation is not None]
    assert tokens is not None
    assert len(tokens.entropies) == len(tokens.logprobs)
    assert all(0 <= entropy <= math.log(4) + 1 / math.e for entropy in tokens.entropies)
    assert len(set(tokens.entropies)) > 1


async def test_calls_that_a_server_writes_anew_are_found_as_drift(template: ChatTemplate) -> None:
    agent = {"model": "local/smollm2", "max_tokens": 150, "temperature": 0.0}
    tools = {"mode": "positive", "tools": ["tests.tools:echo"], "max_steps_per_turn": 2, "max_turns": 1, "user": None}
    await roll_out(config({"token_ids": True, "constrain_tools": True}, agent=agent, **tools))
    (line,) = read_lines(OUT)
    tokens = line["metadata"]["tokens"]
    assert tokens["exact"]
    assert line["messages"][1]["tool_calls"], "greedy, so always the same"
    assert line["metadata"]["generations"] == 2
    # An answer under a schema is JSON of ours, the template writes the call in its own form: it cannot stay the same.
    assert [(drift["generation"], drift["cause"]) for drift in tokens["drift"]] == [(1, "calls")]
