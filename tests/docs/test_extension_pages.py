"""The classes and functions that pages of docs/how-to give as examples do in a run what the pages say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollout import load_run
from rollout.testing import StubServer
from tests.conftest import Command, read_lines, roll_out, stub_config, write_tasks, write_yaml
from tests.docs.test_docs import blocks


def example(page: str, name: str) -> str:
    """The block of Python on a page that defines a name."""
    (found,) = (body for where, body in blocks("python") if where == f"docs/how-to/{page}.md" and name in body)
    return found


@pytest.fixture
def portal() -> Path:
    """A run of a few tasks, with agents that err and users."""
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.3}},
        "user": "builtin/user",
        "limit": 3,
        "samples": 2,
        "output_path": "outputs/portal.jsonl",
    }
    asyncio.run(roll_out({"mock_servers": {"isolation": "none"}, "datasets": {"portal": dataset}}))
    return Path("run")


def test_a_filter_of_ones_own_masks_short_answers(portal: Path, rollout: Command) -> None:
    Path("my_filters.py").write_text(example("filters", "class Short"))
    (config,) = (body for page, body in blocks("yaml") if page == "docs/how-to/filters.md" and "my_filters" in body)
    Path("short.yml").write_text(config.replace("words: 5", "words: 500"))
    done = rollout("filter", str(portal), "--config", "short.yml", "--json")
    assert done.code == 0, done.err
    marks = [mark for record in read_lines(portal / "filters.jsonl") for mark in record["marks"]]
    own = [mark for mark in marks if mark["filter"] == "my_filters:Short"]
    assert own
    assert {mark["reason"] for mark in own} == {"fewer than 500 words"}


def test_an_exporter_of_ones_own_writes_its_records(portal: Path, rollout: Command) -> None:
    Path("my_exports.py").write_text(example("labels-and-exports", "class Openings"))
    done = rollout("export", str(portal), "--format", "my_exports:Openings", "-o", "asks.jsonl")
    assert done.code == 0, done.err
    records = read_lines(Path("asks.jsonl"))
    assert len(records) == 6
    assert all(set(record) == {"id", "ask", "tools"} and record["ask"] and record["tools"] for record in records)


def test_a_form_and_a_memory_of_ones_own_make_rows(portal: Path, rollout: Command) -> None:
    Path("my_forms.py").write_text(example("training-data", "class Openings"))
    Path("my_memory.py").write_text(example("training-data", "def titles_only"))
    longest = ["--form", "my_forms:Openings", "--form-param", "longest=20"]
    for options in (longest, ["--form", "memory", "--memory", "my_memory:titles_only", "--text"]):
        done = rollout("train-data", str(portal), "-o", "data", *options, "--format", "jsonl")
        assert done.code == 0, done.err
    openings = read_lines(Path("data/openings.jsonl"))
    assert [len(row["prompt"]) for row in openings] == [20, 20, 20]
    prompts = [row["prompt"][-1]["content"] for row in read_lines(Path("data/memory.jsonl"))]
    assert all("Done so far:" in prompt and "Now:" in prompt for prompt in prompts)


def test_models_of_ones_own_answer(rollout: Command) -> None:
    Path("my_models.py").write_text(f"{example('models', 'class Echo')}\n{example('models', 'class Reciting')}")
    task = {"id": "a", "messages": [{"role": "user", "content": "Hello?"}], "task_info": {"replies": ["By heart."]}}
    tasks = str(write_tasks(Path("tasks.jsonl"), task))
    for name, said in (("Echo", "Hello?"), ("Reciting", "By heart.")):
        agent = {"model": f"my_models:{name}", "reveal_reference": name == "Reciting"}
        dataset = {"path": tasks, "agent": agent, "max_turns": 1, "output_path": f"{name}.jsonl"}
        config = write_yaml(Path("c.yml"), {"datasets": {"d": dataset}, "run_dir": name, "enable_monitor": False})
        done = rollout("run", str(config), "--no-colors")
        assert done.code == 0, done.err
        (line,) = read_lines(Path(f"{name}.jsonl"))
        assert line["messages"][-1]["content"] == said


def test_every_request_is_made_again_from_the_record(portal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = example("models", "run.requests").replace("runs/default", str(portal))
    exec(compile(text, "docs/how-to/models.md", "exec"), {})
    first = load_run(portal).trajectories[0]
    answers = sum(message.role == "assistant" for message in first.messages)
    assert len(capsys.readouterr().out.splitlines()) == answers > 1


async def test_rows_with_token_ids_become_batches_for_verl(rollout: Command) -> None:
    async with StubServer({"rules": [{"reply": {"content": "Done and dusted."}}]}) as stub:
        config = stub_config(stub.url, write_tasks(Path("tasks.jsonl"), "first", "second"), max_turns=1)
        config["models"]["agent"]["token_ids"] = True
        await roll_out(config)
    text, made = example("verl", "verl_batch"), dict[str, Any]()
    await asyncio.to_thread(train_data, rollout)
    exec(compile(text, "docs/how-to/verl.md", "exec"), made)
    assert made["arrays"]["response_mask"].sum(axis=1).min() > 0
    assert sorted(made["arrays"]["trajectory_id"]) == ["task0", "task1"]
    await asyncio.to_thread(train_data, rollout, "--text")
    with pytest.raises(ValueError, match=r"has no token ids .* --tokenizer DIR"):
        exec(compile(text, "docs/how-to/verl.md", "exec"), {})


def train_data(rollout: Command, *options: str) -> None:
    done = rollout("train-data", "run", "-o", "data", "--advantage", "none", *options)
    assert done.code == 0, done.err
