"""Task files of WebVoyager and Online-Mind2Web, as tasks of a dataset and of `rollout web`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rollout.config.compose import compose_web
from rollout.core.errors import ConfigError
from rollout.environments.web.scoring.answer import AnswerScorer, reference_answer
from rollout.pipelines.web_iterations import choose_iteration, draw_sample
from rollout.tasks.jsonl import TaskFile
from rollout.tasks.sampling import WebTaskFile
from tests.conftest import write_tasks

VOYAGER = [
    {"web_name": "Tea Shop", "id": "Tea Shop--0", "ques": "What does a teapot cost?", "web": "https://tea.example/"},
    {"web_name": "Tea Shop", "id": "Tea Shop--1", "ques": "Name a green tea.", "web": "tea.example/green"},
    {"web_name": "Maps", "id": "Maps--0", "ques": "Find a bakery.", "web": "https://maps.example/"},
]
ANSWERS = {
    "Tea Shop": {
        "notice": "prices may change",
        "answers": [{"id": 0, "type": "golden", "ans": "24 dollars"}, {"id": 1, "type": "possible", "ans": "Sencha"}],
    }
}
MIND2WEB = [
    {
        "task_id": f"{level}-1",
        "website": "https://shop.example/",
        "confirmed_task": f"Buy a {level} lamp.",
        "reference_length": length,
        "level": level,
    }
    for level, length in [("easy", 3), ("medium", 7), ("hard", 14)]
]


def write_json(path: Path, document: Any, **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, **options))
    return path


def test_lines_of_webvoyager_are_tasks_that_a_judge_decides() -> None:
    tasks = list(TaskFile(write_tasks(Path("WebVoyager_data.jsonl"), *VOYAGER)))
    assert [task.id for task in tasks] == ["Tea Shop--0", "Tea Shop--1", "Maps--0"]
    assert tasks[0].messages[0].content == "What does a teapot cost?"
    assert tasks[1].info["website"] == "https://tea.example/green"
    assert tasks[0].info["domain"] == "Tea Shop"
    (fact,) = tasks[0].info["rubric"]
    assert "What does a teapot cost?" in fact["description"]


def test_golden_answers_beside_the_file_are_compared_with_by_a_judge_alone() -> None:
    path = write_tasks(Path("WebVoyager_data.jsonl"), *VOYAGER)
    before = TaskFile(path).fingerprint
    write_json(Path("reference_answer.json"), ANSWERS)
    found = TaskFile(path)
    golden, possible, none = found
    assert [reference_answer(task) for task in (golden, possible, none)] == ["24 dollars", "", ""]
    assert possible.info["possible_answer"] == "Sencha"
    assert not AnswerScorer().applies(golden), "an answer in other words would be a wrong 0"
    assert found.fingerprint != before, "a run is not resumed with other answers"
    write_json(Path("reference_answer.json"), ["no", "answers"])
    with pytest.raises(ConfigError, match=r"reference_answer\.json: not WebVoyager's reference answers"):
        TaskFile(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_of_online_mind2web_is_a_task_file(indent: int | None) -> None:
    path = write_json(Path("Online_Mind2Web.json"), MIND2WEB, indent=indent)
    tasks = TaskFile(path)
    assert [task.id for task in tasks] == ["easy-1", "medium-1", "hard-1"]
    hard = tasks.read(2)
    assert hard.messages[0].content == "Buy a hard lamp."
    assert (hard.info["difficulty"], hard.info["level"], hard.info["reference_length"]) == (7, "hard", 14)
    assert hard.info["website"] == "https://shop.example/"
    assert list(WebTaskFile(path).difficulties) == [1, 4, 7]
    assert TaskFile(write_tasks(Path("lines.jsonl"), *MIND2WEB)).ids == tasks.ids


@pytest.mark.parametrize(
    ("given", "difficulty"),
    [
        ({"level": "Hard"}, 7),
        ({"level": ""}, None),
        ({"level": None}, None),
        ({"reference_length": 6.0}, 1),
        ({"reference_length": "6"}, 1),
    ],
)
def test_an_entry_that_is_a_little_off_is_a_task_all_the_same(given: dict[str, Any], difficulty: int | None) -> None:
    (task,) = TaskFile(write_json(Path("tasks.json"), [{**MIND2WEB[0], **given}]))
    assert task.info.get("difficulty") == difficulty


def test_answers_that_are_numbers_or_missing_spoil_no_others() -> None:
    path = write_tasks(Path("tasks.jsonl"), *VOYAGER)
    site, number = VOYAGER[0]["id"].split("--")
    answers = [{"id": int(number), "type": "golden", "ans": 12}, {"id": 99, "type": "golden", "ans": None}]
    write_json(Path("reference_answer.json"), {site: {"answers": answers}})
    assert TaskFile(path).read(0).info["reference_answer"] == "12"


def test_what_is_wrong_with_an_entry_is_named_and_the_others_are_tasks() -> None:
    broken = [
        {**MIND2WEB[0], "level": "extreme"},
        {**MIND2WEB[1], "website": "not an address"},
        {"confirmed_task": " ", "website": "https://shop.example/"},
        MIND2WEB[2],
        {**MIND2WEB[2]},
        "text",
    ]
    for kind in (TaskFile, WebTaskFile):
        found = kind(write_json(Path("tasks.json"), broken))
        assert found.ids == ["hard-1"]
        told = [str(problem) for problem in found.problems]
        assert [problem.partition(": ")[0] for problem in told] == [f"tasks.json:entry {n}" for n in (1, 2, 3, 5, 6)]
        assert "level" in told[0]
        assert "is not an address" in told[1]
        assert "already in tasks.json:entry 4" in told[3]
    voyager = {key: value for key, value in VOYAGER[0].items() if key != "web"}
    (problem,) = TaskFile(write_tasks(Path("voyager.jsonl"), voyager)).problems
    assert "`web`" in str(problem)


def test_a_list_that_does_not_end_is_read_as_lines() -> None:
    Path("odd.jsonl").write_text('[1, 2\n{"id": "a", "messages": []}\n')
    found = TaskFile(Path("odd.jsonl"))
    assert found.ids == ["a"]
    assert [problem.where for problem in found.problems] == ["odd.jsonl:1"]


@pytest.mark.parametrize(
    ("name", "ids", "steps"),
    [
        ("WebVoyager_data.jsonl", {"Tea Shop--0", "Tea Shop--1", "Maps--0"}, {30}),
        ("Online_Mind2Web.json", {"easy-1", "medium-1", "hard-1"}, {30, 50, 70}),
    ],
)
def test_rollout_web_draws_from_files_of_benchmarks(name: str, ids: set[str], steps: set[int]) -> None:
    pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")
    Path("data").mkdir()
    write_tasks(Path("data/WebVoyager_data.jsonl"), *VOYAGER)
    write_json(Path("data/reference_answer.json"), ANSWERS)
    write_json(Path("data/Online_Mind2Web.json"), MIND2WEB, indent=1)
    given = ["save_path=exp", "data_path=data", f"env_config.test_tasks={name}", "policy_config.base_model=m"]
    web = compose_web(given, config_name="rollout_test")[0].config
    iteration, _ = choose_iteration(web)
    drawn = draw_sample(web, iteration, datetime.now(UTC))
    lines = [json.loads(line) for line in drawn.lines.splitlines()]
    assert {line["id"] for line in lines} == ids
    assert {line["task_info"]["max_steps"] for line in lines} == steps
    golden = {line["task_info"].get("reference_answer") for line in lines} - {None}
    assert golden == ({"24 dollars"} if "Voyager" in name else set()), "it goes with the sample"
