"""What a stranger broke once, and must not break again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError, JournalError
from rollout.store.journal import open_journal
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks.jsonl", *(f"Question {number}" for number in range(6)))


async def test_line_deleted_from_the_middle_is_brought_back_and_nothing_is_spliced(
    stub: StubServer, tasks: Path
) -> None:
    await roll_out(stub_config(stub.url, tasks))
    whole, paid = OUT.read_bytes(), stub.stats.requests
    lines = whole.splitlines(keepends=True)
    OUT.write_bytes(b"".join(lines[:2] + lines[3:]))
    await roll_out(stub_config(stub.url, tasks))
    assert sorted(OUT.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert stub.stats.requests == paid
    (aside,) = Path().glob("out.jsonl.extra-*")
    assert aside.read_bytes() == b"".join(lines[3:]), "what was cut off lies beside it"
    before = OUT.read_bytes()
    await roll_out(stub_config(stub.url, tasks))
    assert OUT.read_bytes() == before


async def test_task_whose_words_changed_starts_anew_instead_of_mixing_two_conversations(
    stub: StubServer, tmp_path: Path, tasks: Path
) -> None:
    config = stub_config(stub.url, tasks)
    await roll_out(config, pause_when=lambda progress: progress.generations >= 8)
    write_tasks(tasks, *(f"Changed {number}" for number in range(6)))
    await roll_out(config)
    for line in read_lines(OUT):
        asked = line["messages"][0]["content"]
        sent = [request for request in stub.requests if request["messages"][0]["content"] == asked]
        assert len(sent) >= 4, f"{asked}: every answer was given to these very words"
    whole = OUT.read_bytes()
    OUT.unlink()
    await roll_out(config)
    assert OUT.read_bytes() == whole, "journal and line agree"


async def test_budget_holds_over_resumes_and_counts_unfinished_work(tasks: Path) -> None:
    async with StubServer() as stub:
        config = stub_config(stub.url, tasks)
        config["models"]["agent"] |= {"input_cost_per_token": 0.001, "output_cost_per_token": 0.001}
        config |= {"max_cost": 0.5, "max_workers": 6}
        spent = []
        for _ in range(3):
            opened = await roll_out(config)
            spent.append(opened.engine.control.cost)
        assert spent[1] == spent[2] == pytest.approx(spent[0]), "nothing more was spent"
        assert stub.stats.requests <= 12


async def test_judge_and_discarded_words_are_paid_for_on_record(tasks: Path) -> None:
    rules = [
        {"when": {"model": "judge"}, "reply": {"content": "CONTINUE"}},
        {"when": {"model": "user"}, "reply": {"content": "And then?"}},
        {"reply": {"content": "Answer {turn}."}},
    ]
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, tasks, user={"model": "user"}, max_turns=2, limit=1)
        config |= {"enable_monitor": True, "monitor_max_no_tool_turns": 0, "monitor_use_llm_judge": True}
        config |= {"monitor_judge_model": "judge"}
        config["models"]["judge"] = {"api_base": stub.url}
        for model in config["models"].values():
            model |= {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0}
        opened = await roll_out(config)
        (line,) = read_lines(OUT)
    metadata = line["metadata"]
    assert metadata["stop_reason"] == "max_turns"
    assert line["messages"][-1]["role"] == "assistant"
    assert metadata["usage"]["judge"]["completion_tokens"] > 0
    assert metadata["cost"] == opened.engine.control.cost, "every answer that was paid for is in the line"


async def test_judge_who_cannot_be_reached_decides_nothing(tasks: Path) -> None:
    rules = [
        {"when": {"model": "judge"}, "fault": {"kind": "status", "status": 401, "times": "always"}},
        {"when": {"model": "user"}, "reply": {"content": "Bye ###STOP###"}},
        {"reply": {"content": "Answer."}},
    ]
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, tasks, user={"model": "user"}, max_turns=3, limit=1)
        config |= {"enable_monitor": True, "monitor_use_llm_judge": True, "monitor_judge_model": "judge"}
        config["models"]["judge"] = {"api_base": stub.url}
        await roll_out(config)
    (line,) = read_lines(OUT)
    assert (line["metadata"]["status"], line["metadata"]["unjudged"]) == ("completed", 1)


async def test_deadline_answers_open_calls_before_it_ends(tasks: Path) -> None:
    reply = {"tool_calls": [{"name": "slow", "arguments": {"text": "x"}}]}
    async with StubServer({"rules": [{"reply": reply}]}) as stub:
        config = stub_config(stub.url, tasks, tools=["tests.tools:slow"], limit=1)
        await roll_out({**config, "timeouts": {"episode": 0.2, "tool": 60}})
    (line,) = read_lines(OUT)
    assert line["metadata"]["stop_reason"] == "deadline"
    assert line["messages"][-1]["role"] == "tool"
    assert "time was over" in line["messages"][-1]["content"]


async def test_huge_token_counts_and_odd_usage_do_not_stop_a_run(tasks: Path) -> None:
    usage = {"prompt_tokens": 2**70, "completion_tokens": 3}
    async with StubServer({"rules": [{"reply": {"content": "ok", "usage": usage}}]}) as stub:
        opened = await roll_out(stub_config(stub.url, tasks))
    assert opened.summary is not None
    assert opened.summary.total.finished == 6


async def test_opening_that_leaves_nothing_to_answer_is_no_success(stub: StubServer, tmp_path: Path) -> None:
    empty = {"id": "e", "messages": []}
    answered = {"id": "s", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
    tasks = write_tasks(tmp_path / "tasks.jsonl", empty, answered)
    opened = await roll_out(stub_config(stub.url, tasks))
    assert opened.summary is not None
    assert (opened.summary.total.finished, opened.summary.total.failed) == (0, 2)


async def test_empty_last_word_is_no_success_where_nothing_was_scored(tasks: Path) -> None:
    async with StubServer({"rules": [{"reply": {"content": ""}}]}) as stub:
        await roll_out(stub_config(stub.url, tasks, limit=1))
    (line,) = read_lines(OUT)
    assert (line["metadata"]["status"], line["success"]) == ("completed", False)


async def test_starting_one_dataset_anew_does_not_take_the_other_along(stub: StubServer, tasks: Path) -> None:
    config = stub_config(stub.url, tasks)
    config["datasets"]["other"] = {**config["datasets"]["data"], "output_path": "other.jsonl"}
    await roll_out(config)
    only = {**config, "datasets": {"data": config["datasets"]["data"]}}
    with pytest.raises(JournalError, match="also holds other"):
        await roll_out(only, resume=False)
    await roll_out(only)
    totals = json.loads(Path("run/metrics.json").read_text())["datasets"]
    assert {name: found["finished"] for name, found in totals.items()} == {"data": 6, "other": 6}


async def test_running_run_cannot_be_moved_aside_and_one_output_has_one_writer(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    journal = open_journal(Path("run"))
    with pytest.raises(JournalError, match="another process"):
        await roll_out(stub_config(stub.url, tasks), resume=False)
    from rollout.store.files.output_files import open_output

    output = open_output(OUT)
    with pytest.raises(JournalError, match="being written by another run"):
        await roll_out(stub_config(stub.url, tasks), Path("elsewhere"))
    output.close()
    await journal.close()


async def test_folder_that_is_no_run_is_not_moved_aside(stub: StubServer, tasks: Path) -> None:
    Path("precious").mkdir()
    Path("precious/thesis.tex").write_text("years of work")
    with pytest.raises(JournalError, match="is not a run directory"):
        await roll_out(stub_config(stub.url, tasks), Path("precious"), resume=False)
    assert Path("precious/thesis.tex").exists()


async def test_run_in_which_nothing_works_pauses_before_it_has_failed_a_thousand_times(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", *(f"Question {number}" for number in range(200)))
    async with StubServer({"faults": [{"kind": "status", "status": 401, "times": "always"}]}) as stub:
        opened = await roll_out({**stub_config(stub.url, tasks), "max_workers": 4})
        assert stub.stats.requests < 40
    assert opened.summary is not None
    assert opened.summary.total.unfinished > 150
    assert opened.engine.control.reason == "nothing works"


async def test_tasks_removed_since_do_not_make_the_counts_wrong(stub: StubServer, tasks: Path) -> None:
    config = stub_config(stub.url, tasks)
    await roll_out(config, pause_when=lambda progress: progress.done >= 1)
    kept = tasks.read_text().splitlines(keepends=True)
    tasks.write_text("".join(kept[3:]))
    opened = await roll_out(config)
    assert opened.summary is not None
    total = opened.summary.total
    assert (total.failed, total.unfinished) == (0, 0)
    assert total.planned == total.finished == len(read_lines(OUT))


async def test_two_functions_of_one_name_are_refused(stub: StubServer, tasks: Path) -> None:
    with pytest.raises(ConfigError, match="two functions have the same name"):
        await roll_out(stub_config(stub.url, tasks, tools=["tests.tools:echo", "tests.tools:echo"]))


async def test_wrong_tool_records_the_tools_that_were_sent(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    task = {"id": "w", "messages": [{"role": "user", "content": "Book a flight."}], "tools": [tool]}
    tasks = write_tasks(tmp_path / "tasks.jsonl", task)
    async with StubServer({"rules": [{"reply": {"content": "I cannot."}}]}, keep_requests=True) as stub:
        await roll_out(stub_config(stub.url, tasks, mode="wrong_tool"))
        (line,) = read_lines(OUT)
        blob = json.loads((Path("run/blobs") / f"{line['metadata']['prompt']}.json").read_text())
        assert blob["tools"] == stub.requests[0]["tools"]


async def test_one_servers_wish_for_a_day_off_does_not_stop_the_run(tasks: Path) -> None:
    rule = {"when": {"contains": "Question 0"}, "fault": {"kind": "overload", "retry_after": 86400, "times": "always"}}
    async with StubServer({"rules": [rule]}) as stub:
        opened = await roll_out({**stub_config(stub.url, tasks), "max_workers": 1})
    assert opened.summary is not None
    assert (opened.summary.total.finished, opened.summary.total.failed) == (5, 1)


@pytest.mark.parametrize(
    "where",
    [
        {"api_base": "http://bob:hunter2pass@127.0.0.1:1/v1"},
        {"api_base": "http://127.0.0.1:1/v1", "extra_body": {"routing": {"provider_key": "hunter2pass"}}},
    ],
)
async def test_secrets_in_odd_places_reach_no_file(tasks: Path, where: dict[str, Any]) -> None:
    from rollout.config import load_config
    from tests.conftest import write_yaml

    config = stub_config("http://x", tasks, limit=1)
    config["models"]["agent"] = where
    config["retries"] = {"attempts": 1}
    config["datasets"]["data"]["path"] = str(tasks)
    loaded = load_config(write_yaml(Path("c.yml"), config))
    await roll_out(loaded)
    for path in Path("run").rglob("*"):
        if path.is_file():
            assert b"hunter2pass" not in path.read_bytes(), path
