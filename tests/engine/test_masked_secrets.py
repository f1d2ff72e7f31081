"""A run in which tools and the model repeat a key: it is nowhere on disk, and the record is what the model saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rollout.cli import main
from rollout.core import secrets
from rollout.core.calls import CallReader, answer_calls
from rollout.core.messages import Message, ToolCall, ToolResult, Toolset, ToolSpec
from rollout.core.secrets import MASK
from rollout.core.world import Invocation
from rollout.environments.empty import EmptyWorld
from rollout.models.masking import mask_generation
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from rollout.trajectories.token_view import view_tokens
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.tools import LEAKED

OUT = Path("out.jsonl")
RULES = [
    {"when": {"step": 0, "turn": 1}, "reply": {"tool_calls": [{"name": "leak", "arguments": {"text": LEAKED}}]}},
    {"when": {"turn": 1}, "reply": {"content": f"The key is {LEAKED}.", "reasoning": f"I shall tell {LEAKED}."}},
    {"reply": {"content": "Done."}},
]


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_known", set()), ("_redacted", secrets._Forms([])), ("_masked", secrets._Forms([]))):
        monkeypatch.setattr(secrets, name, value)


def config(url: str, **dataset: Any) -> dict[str, Any]:
    user = {"kind": "scripted", "messages": ["And then?"]}
    tasks = write_tasks(Path("tasks.jsonl"), "first")
    chosen = stub_config(url, tasks, user=user, max_turns=2, tools=["tests.tools:leak"], **dataset)
    chosen["models"]["agent"] |= {"token_ids": True, "api_key": LEAKED, "reasoning": "keep_all"}
    return chosen


def files_with(text: str) -> list[Path]:
    return [path for path in Path().rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_key_that_comes_as_the_id_of_a_call_is_masked() -> None:
    secrets.register(LEAKED)
    answer = Generation(Message(role="assistant", tool_calls=(ToolCall(LEAKED, "leak"),)))
    masked = mask_generation(answer)
    assert masked.message.tool_calls == (ToolCall(MASK, "leak"),)
    assert masked.is_masked


async def test_a_key_in_the_data_of_a_result_is_masked() -> None:
    class Leaking(EmptyWorld):
        async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
            data = {"url": f"http://x.test/?key={LEAKED}", "elements": [{"name": LEAKED}], LEAKED: 1}
            return [ToolResult(call.call_id, "shown", data=data) for call in calls]

    secrets.register(LEAKED)
    toolset = Toolset((ToolSpec("look"),))
    (result,) = await answer_calls([ToolCall("a", "look")], CallReader(toolset), Leaking(toolset))
    assert result.data == {"url": f"http://x.test/?key={MASK}", "elements": [{"name": MASK}], MASK: 1}


async def test_a_key_is_masked_before_the_model_sees_it_and_before_it_is_kept() -> None:
    async with StubServer({"rules": RULES}, keep_requests=True) as stub:
        await roll_out(config(stub.url))
        sent = json.dumps(stub.requests)
    assert files_with(LEAKED) == []
    assert files_with("dmVyeS1wcml2YXRl") == []
    assert LEAKED not in sent, "later prompts hold what is on record"
    (line,) = read_lines(OUT)
    _, call, result, said, *_ = line["messages"]
    assert call["tool_calls"][0]["function"]["arguments"] == f'{{"text":"{MASK}"}}'
    assert result["content"] == f"the environment: TOKEN={MASK} and base64 {MASK}"
    assert (said["content"], said["reasoning_content"]) == (f"The key is {MASK}.", f"I shall tell {MASK}.")
    assert line["metadata"]["marks"] == ["masked_secret", "masked_secret"]


async def test_a_masked_answer_has_no_tokens_and_those_after_it_keep_theirs() -> None:
    async with StubServer({"rules": RULES}) as stub:
        await roll_out(config(stub.url))
    with open_reader(Path("run")) as reader:
        path = list(reader.whole_path("data", "task0"))
    generations = [body.generation for body in path if body.kind == "generation" and body.generation is not None]
    assert [made.is_masked for made in generations] == [True, True, False]
    assert [made.tokens is not None for made in generations] == [False, False, True]
    assert generations[-1].is_exact
    view = view_tokens(path)
    assert not view.is_exact
    assert [len(segment.spans) for segment in view.segments] == [1]
    (line,) = read_lines(OUT)
    assert line["metadata"]["tokens"]["exact"] is False


async def test_a_masked_answer_stays_out_of_token_rows_and_the_others_are_written() -> None:
    rules = [RULES[0], {"when": {"turn": 1}, "reply": {"content": "Nothing."}}, RULES[2]]
    tasks = write_tasks(Path("both.jsonl"), "first", "second")
    async with StubServer({"rules": rules}) as stub:
        chosen = config(stub.url)
        chosen["datasets"]["data"]["path"] = tasks
        await roll_out(chosen)
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "run", "-o", "data", "--format", "jsonl", "--tokens", "--advantage", "none"])
    assert ended.value.code == 0
    rows = read_lines(Path("data/prefix_merge.jsonl"))
    about = json.loads(Path("data/prefix_merge.about.json").read_text())
    assert about["notes"]["answers with a masked secret: not learnt"] == 2
    assert [(row["first_step"], row["last_step"], row["begins"]) for row in rows] == [(1, 2, "no_ids")] * 2
    assert all(row["exact"] for row in rows)


async def test_replay_compares_masked_with_masked() -> None:
    async with StubServer({"rules": RULES}) as stub:
        chosen = config(stub.url)
        await roll_out(chosen, pause_when=lambda progress: progress.tool_calls >= 1)
        assert not OUT.exists() or not read_lines(OUT)
        opened = await roll_out(chosen)
    assert opened.summary is not None
    assert opened.summary.total.replay_mismatches == 0
    (line,) = read_lines(OUT)
    assert line["messages"][2]["content"] == f"the environment: TOKEN={MASK} and base64 {MASK}"
