"""Task files: good lines run, bad ones are reported with file and line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.core.task import resolve_arguments
from rollout.tasks.jsonl import TaskFile, parse_task
from rollout.tasks.source import refuse_clashes

GOOD = {"id": "a", "messages": [{"role": "user", "content": "hi"}]}


def task_file(*lines: str) -> TaskFile:
    path = Path("tasks.jsonl")
    path.write_text("\n".join(lines) + "\n")
    return TaskFile(path)


def test_bad_lines_are_reported_with_file_and_line_and_good_ones_still_run() -> None:
    found = task_file(json.dumps(GOOD), "{not json", "", '{"id": "b"}', "[1]", json.dumps({**GOOD, "id": "c"}))
    assert found.ids == ["a", "c"]
    assert [problem.where for problem in found.problems] == ["tasks.jsonl:2", "tasks.jsonl:4", "tasks.jsonl:5"]
    assert "'messages' is missing" in str(found.problems[1])


def test_second_task_of_an_id_is_left_out_and_named() -> None:
    found = task_file(json.dumps(GOOD), json.dumps({**GOOD, "messages": [{"role": "user", "content": "other"}]}))
    assert found.ids == ["a"]
    assert "id 'a' is already in tasks.jsonl:1" in str(found.problems[0])


def test_tasks_without_id_get_different_ids_for_different_content() -> None:
    message = [{"role": "user", "content": "same first message"}]
    one, two = {"messages": message, "user_system_prompt": "A"}, {"messages": message, "user_system_prompt": "B"}
    found = task_file(json.dumps(one), json.dumps(two))
    assert len(found) == 2
    assert found.ids == task_file(json.dumps(one), json.dumps(two)).ids, "and the same ones again next time"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8, unique=True))
def test_every_task_can_be_read_at_its_place(contents: list[str]) -> None:
    lines = [json.dumps({"id": str(n), "messages": [{"role": "user", "content": c}]}) for n, c in enumerate(contents)]
    found = task_file(*lines)
    assert [found.read(index).messages[0].content for index in range(len(found))] == contents
    assert [task.messages[0].content for task in found] == contents


def test_file_changed_under_a_run_is_noticed() -> None:
    found = task_file(json.dumps(GOOD), json.dumps({**GOOD, "id": "b"}))
    found.paths[0].write_text(json.dumps({**GOOD, "id": "zzzz"}) + "\n")
    with pytest.raises(ConfigError, match="changed while the run"):
        found.read(0)


def test_several_files_are_one_list_with_each_id_once() -> None:
    Path("one.jsonl").write_text("\ufeff" + json.dumps(GOOD) + "\r\n" + json.dumps({**GOOD, "id": "b"}))
    Path("two.jsonl").write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "id": "c"}) + "\n")
    found = TaskFile(Path("one.jsonl"), Path("two.jsonl"))
    assert found.ids == ["a", "b", "c"]
    assert [task.id for task in found] == ["a", "b", "c"]
    assert str(found.problems[0]).startswith("two.jsonl:1: id 'a' is already in one.jsonl:1")


def test_further_attempts_may_not_take_another_tasks_id() -> None:
    found = task_file(json.dumps(GOOD), json.dumps({**GOOD, "id": "a~1"}))
    refuse_clashes(found, samples=1)
    with pytest.raises(ConfigError, match="would have the id of another task, 'a~1'"):
        refuse_clashes(found, samples=2)


def test_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no/such\.jsonl"):
        TaskFile(Path("no/such.jsonl"))


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "folder"])
def test_what_is_no_file_is_refused_before_it_is_read(path: str) -> None:
    os.mkfifo("pipe")
    Path("folder").mkdir()
    with pytest.raises(ConfigError, match=f"{path}: cannot read the tasks: expected a file"):
        TaskFile(Path(path))


def test_seed_record_is_read_with_all_its_fields() -> None:
    task = parse_task(
        {
            **GOOD,
            "user_system_prompt": "You are…",
            "task_info": {"instruction": "do [[x]]", "actions": [{"name": "t", "arguments": {"a": 1}, "turn": 2}]},
        }
    )
    assert task.user_system_prompt == "You are…"
    assert task.actions is not None
    assert (task.actions[0].name, task.actions[0].turn) == ("t", 2)
    assert parse_task(GOOD).actions is None, "no reference is not an empty reference"


@pytest.mark.parametrize("key", ["user_turns", "replies", "communicate"])
@pytest.mark.parametrize("odd", ["Atlas", [1], {"a": "b"}])
def test_texts_that_are_no_list_of_texts_are_no_task(key: str, odd: object) -> None:
    with pytest.raises(TypeError, match=f"task_info.{key}: expected a list of texts"):
        parse_task({**GOOD, "task_info": {key: odd}})


def test_arguments_are_filled_from_earlier_results() -> None:
    results = [{"row": {"id": "r1"}}, {"rows": [{"id": "x"}, {"id": "y"}]}]
    given_arguments = {"a": {"$from": "0/row/id"}, "b": [{"$from": "1/rows/1/id"}], "c": {"d": 1}}
    assert resolve_arguments(given_arguments, results) == {"a": "r1", "b": ["y"], "c": {"d": 1}}
    with pytest.raises(KeyError):
        resolve_arguments({"a": {"$from": "0/nothing"}}, results)
