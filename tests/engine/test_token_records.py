"""What a run writes down of tokens: against a server whose drifts are scripted, and one that gives no ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.agents.view import ContextView, ReasoningRule
from rollout.config.models import ModelEntry
from rollout.core.messages import NO_TOOLS, Message, encode_message
from rollout.models.model import Request, Sampling
from rollout.models.openai import HttpPool, OpenAIModel
from rollout.models.registry import Registry
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.token_view import view_tokens
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
USER = {"kind": "scripted", "messages": ["And then?", "And after that?"]}
CALL_FIRST = [
    {"when": {"step": 0}, "reply": {"call": "echo", "content": "Let me see."}},
    {"reply": {"content": "Done."}},
]


def config(url: str, *, token_ids: bool = True, **dataset: Any) -> dict[str, Any]:
    chosen = stub_config(url, write_tasks(Path("tasks.jsonl"), "first", "second"), user=USER, max_turns=3, **dataset)
    chosen["models"]["agent"]["token_ids"] = token_ids
    return chosen


def with_reasoning(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**rule, "reply": {**rule["reply"], "reasoning": "hm"}} for rule in rules]


def tokens_of(line: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = line["metadata"]["tokens"]
    return found


async def test_conversation_that_only_grows_never_drifts() -> None:
    async with StubServer({"rules": CALL_FIRST}, keep_requests=True) as stub:
        await roll_out(config(stub.url))
    assert [tokens_of(line) for line in read_lines(OUT)] == [{"exact": True, "drift": []}] * 2
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["tokens"]["data"] == {"exact": 2, "inexact": 0, "drifted": 0, "drift": {}}
    with open_reader(Path("run")) as reader:
        view = view_tokens(reader.whole_path("data", "task0"))
    (segment,) = view.segments
    assert len(segment.spans) == 6


@pytest.mark.parametrize(
    ("rule", "drifting"), [("clear_on_user_turn", [2, 3]), ("keep_all", []), ("drop", [1, 2, 2, 3, 3])]
)
async def test_reasoning_that_is_not_sent_back_is_a_drift(rule: str, drifting: list[int]) -> None:
    async with StubServer({"rules": with_reasoning(CALL_FIRST)}) as stub:
        chosen = config(stub.url)
        chosen["models"]["agent"]["reasoning"] = rule
        await roll_out(chosen)
    drifts = tokens_of(read_lines(OUT)[0])["drift"]
    assert [(drift["cause"], drift["turn"]) for drift in drifts] == [("reasoning", turn) for turn in drifting]
    assert tokens_of(read_lines(OUT)[0])["exact"], "each generation's own ids are what the model was given"
    metrics = json.loads(Path("run/metrics.json").read_text())["tokens"]["data"]
    assert metrics["drift"] == ({"reasoning": 2 * len(drifting)} if drifting else {})


async def test_a_call_that_is_sent_back_otherwise_than_it_was_written_is_a_drift() -> None:
    broken = {"tool_calls": [{"name": "echo", "arguments": '{"text": "cut'}]}
    rules = [{"when": {"answers": 0}, "reply": broken}, {"reply": {"content": "Done."}}]
    async with StubServer({"rules": rules}) as stub:
        await roll_out(config(stub.url))
    drifts = tokens_of(read_lines(OUT)[0])["drift"]
    assert [(drift["generation"], drift["cause"]) for drift in drifts] == [(1, "calls")]


async def test_a_window_is_a_drift_at_each_step_that_it_folds() -> None:
    rules = [{"when": {"answers": {"min": 0, "max": 9}}, "reply": {"call": "echo"}}]
    async with StubServer({"rules": rules}) as stub:
        chosen = config(stub.url, max_steps_per_turn=5)
        dataset = chosen["datasets"]["data"]
        dataset["agent"] |= {"max_rounds": 2}
        dataset |= {"max_turns": 1, "user": None}
        await roll_out(chosen)
    drifts = tokens_of(read_lines(OUT)[0])["drift"]
    assert [(drift["generation"], drift["cause"]) for drift in drifts] == [(3, "window"), (4, "window")]


async def test_a_server_without_ids_works_and_is_not_exact() -> None:
    async with StubServer({"rules": CALL_FIRST}) as stub:
        await roll_out(config(stub.url, token_ids=False))
    assert [tokens_of(line) for line in read_lines(OUT)] == [{"exact": False, "drift": []}] * 2
    assert "tokens" not in json.loads(Path("run/metrics.json").read_text())


def test_a_view_says_why_it_sends_earlier_messages_otherwise() -> None:
    view = ContextView(None, ReasoningRule.KEEP_ALL, lambda name: f"data:{name}", max_images=1)
    view.add(Message("user", "look", images=("a.png",)))
    view.add(Message("assistant", "yes", reasoning="hm"))
    assert view.rewritten is None
    view.add(Message("user", "and this", images=("b.png",)))
    assert view.rewritten == "images"


@pytest.mark.parametrize(
    "entry",
    [
        {"token_in": True},
        {"token_in": True, "tokenizer": "t", "images": True},
        {"token_in": True, "tokenizer": "t", "constrain_tools": True},
    ],
)
def test_ids_are_not_given_without_a_tokenizer_nor_with_what_needs_messages(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="token_in"):
        ModelEntry.model_validate(entry)


async def test_a_check_names_the_tokenizer_that_is_not_there() -> None:
    entry = ModelEntry(api_base="http://localhost/v1", token_in=True, tokenizer=Path("nowhere"))
    async with Registry({"agent": entry}) as registry:
        (problem,) = registry.check("agent")
    assert "tokenizer: nowhere is not there" in problem


async def test_ids_in_the_form_of_sglang_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {
        "choices": [
            {
                "message": {"content": "hi"},
                "finish_reason": "stop",
                "prompt_token_ids": [1, 2, 70000],
                "response_token_ids": [3, 4],
                "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -0.25}]},
            }
        ],
        "metadata": {"weight_version": "v3"},
    }
    generation = await _answered(answer, monkeypatch)
    assert generation.tokens.new_ids.tolist() == [1, 2, 70000]
    assert generation.tokens.completion_ids.tolist() == [3, 4]
    assert generation.tokens.logprobs.tolist() == [-0.5, -0.25]
    assert generation.weight_version == "v3"


async def test_logprobs_that_are_not_one_for_each_id_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = {"message": {"content": "hi"}, "token_ids": [3, 4], "logprobs": {"content": [{"logprob": -0.5}]}}
    generation = await _answered({"choices": [choice], "prompt_token_ids": [1]}, monkeypatch)
    assert generation.tokens.completion_ids.tolist() == [3, 4]
    assert len(generation.tokens.logprobs) == 0


async def _answered(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    async def post(self: OpenAIModel, body: object, url: str | None = None) -> bytes:
        return json.dumps(answer).encode()

    monkeypatch.setattr(OpenAIModel, "_post", post)
    model = OpenAIModel("m", pool=HttpPool(), api_base="http://nowhere/v1", api_model="m", token_ids="openai")
    said = Message("user", "hi")
    return await model.generate(Request([said], [encode_message(said)], NO_TOOLS, Sampling()))
