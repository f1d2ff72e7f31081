"""Tasks as Python code gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollout.core.errors import ConfigError
from rollout.core.task import Task, call
from rollout.tasks.given import open_tasks


def test_a_dict_may_have_the_fields_of_a_task_by_their_own_names() -> None:
    (task,) = open_tasks([{"id": "t1", "messages": "Buy one.", "info": {"n": 1}, "actions": [call("buy")]}])
    assert task.messages == Task("t1", "Buy one.").messages
    assert task.actions == (call("buy"),)
    assert task.info["n"] == 1


def test_a_line_of_a_file_may_have_the_same_fields_as_a_dict(tmp_path: Path) -> None:
    entry = {"id": "t1", "messages": "Buy one.", "info": {"n": 1}, "actions": [{"name": "buy"}], "max_steps": 3}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(entry))
    (from_file,), (from_dict,) = open_tasks(tmp_path / "tasks.jsonl"), open_tasks([entry])
    assert from_file == from_dict
    assert (from_file.actions, from_file.max_steps, from_file.info["n"]) == ((call("buy"),), 3, 1)


def test_a_dict_of_the_jsonl_form_may_have_further_keys() -> None:
    entry = {"id": "t1", "messages": [{"role": "user", "content": "Go."}], "task_info": {"n": 1}, "source": "mine"}
    (task,) = open_tasks(iter([entry]))
    assert task == Task("t1", "Go.", info={"n": 1})


def test_a_dict_without_messages_is_refused() -> None:
    with pytest.raises(ConfigError, match="entry 0 is no task: 'messages' is missing"):
        open_tasks([{"id": "t1", "info": {"n": 1}}])
