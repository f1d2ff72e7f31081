"""Corrections as data: pairs for preference training, and conversations that end at a correction or go on behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rollout as front_door
from tests.api.shop import Cart, seller, shop
from tests.conftest import Command

RUN = Path("runs/shop")
PEOPLE = str(RUN / "people")
CALL = {"name": "add", "arguments": {"item": "lamp", "count": 1}}


@pytest.fixture
def corrected() -> front_door.Run:
    run = front_door.run(shop, model=seller, run_dir=RUN, progress=False)
    run.correct("t1", 1, calls=[CALL], author="ada")
    run.correct("t1", 5, "Two mugs? I added one.", author="bob")
    return run


def records(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_each_correction_is_a_pair_of_what_was_answered_and_what_should_have_been(
    corrected: front_door.Run, rollout: Command
) -> None:
    rollout("train-data", PEOPLE, "--form", "corrections", "--format", "jsonl", "-o", "data")
    first, second = records("data/corrections.jsonl")
    assert (first["id"], first["corrected_id"], first["author"], first["step"]) == ("t1~+1", "t1", "ada", 0)
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert first["chosen"][0]["tool_calls"][0]["function"]["arguments"] == CALL["arguments"]
    assert first["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"item": "mug"}
    assert (second["chosen"][0]["content"], second["rejected"][0]["content"]) == ("Two mugs? I added one.", "Done.")
    roles = [message["role"] for message in second["prompt"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_an_export_has_the_correction_or_what_was_grown_on_from_it_and_never_both(
    corrected: front_door.Run, rollout: Command
) -> None:
    corrected.grow("t1~+1", n=2)
    rollout("export", PEOPLE, "--format", "trl", "-o", "data/all")
    found = records("data/all.jsonl")
    assert [entry["messages"][-1]["content"] for entry in found] == ["Two mugs? I added one.", "Done.", "Done."]
    rollout("train-data", PEOPLE, "--form", "corrections", "--format", "jsonl", "-o", "data")
    assert [pair["id"] for pair in records("data/corrections.jsonl")] == ["t1~+1", "t1~+2"], "pairs are kept"


def test_a_correction_enters_no_rows_of_tokens_or_rewards(corrected: front_door.Run, rollout: Command) -> None:
    said = rollout("train-data", PEOPLE, "--form", "prefix_merge", "--text", "-o", "data")
    assert said.code == 2
    assert "nothing was written" in said.err + said.out


def test_the_runs_own_data_knows_nothing_of_what_people_added(corrected: front_door.Run, rollout: Command) -> None:
    rollout("export", str(RUN), "--format", "trl", "-o", "data/own")
    assert [entry["messages"][-1]["content"] for entry in records("data/own.jsonl")] == ["Done."]


def test_a_task_that_opens_with_an_answer_can_be_corrected(rollout: Command) -> None:
    said = (("user", "Hi."), ("assistant", "Hello."), ("user", "Two mugs and a lamp, please."))
    messages = [{"role": role, "content": text} for role, text in said]
    opened = front_door.Environment(
        tasks=[{"id": "t1", "messages": messages, "info": {"want": {}}}], world=Cart, system="You run a small shop."
    )
    run = front_door.run(opened, model=seller, run_dir=RUN, progress=False)
    added = run.correct("t1", 5, calls=[CALL], author="ada")
    rollout("train-data", PEOPLE, "--form", "corrections", "--format", "jsonl", "-o", "data")
    (pair,) = records("data/corrections.jsonl")
    assert (pair["step"], pair["chosen"][0]["tool_calls"][0]["function"]["arguments"]) == (1, CALL["arguments"])
    assert (added.generations, added.tool_calls) == (2, 2)


@pytest.mark.parametrize(
    ("step", "policy", "reason"),
    [
        (2, "truncate_before", "the correction was cut off by a filter"),
        (3, "mask_turn", "the correction is masked by a filter"),
    ],
)
def test_a_correction_that_filters_took_out_makes_no_pair(
    corrected: front_door.Run, rollout: Command, step: int, policy: str, reason: str
) -> None:
    said = rollout("mark", PEOPLE, "t1~+2", "bad", "--step", str(step))
    assert said.code == 0, said.err
    said = rollout("filter", PEOPLE, "--filter", f"person={policy}")
    assert said.code == 0, said.err
    said = rollout("train-data", PEOPLE, "--form", "corrections", "--format", "jsonl", "--filters", "-o", "data")
    assert [pair["id"] for pair in records("data/corrections.jsonl")] == ["t1~+1"]
    assert reason in said.out
