"""Going on where a run stopped: what is kept, what is mended, what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tests.tools
from rollout.config.schema import Config
from rollout.core.errors import JournalError, WorldError
from rollout.core.world import Opening
from rollout.pipelines.run import open_run
from rollout.store.journal import open_journal
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.line import comparable
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks.jsonl", *(f"Question {number}" for number in range(6)))


async def test_finished_run_is_not_paid_for_again(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    before, paid = OUT.read_bytes(), stub.stats.requests
    await roll_out(stub_config(stub.url, tasks))
    assert stub.stats.requests == paid
    assert OUT.read_bytes() == before


async def test_torn_last_line_is_mended_byte_for_byte(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    whole = OUT.read_bytes()
    OUT.write_bytes(whole[:-40])
    opened = await roll_out(stub_config(stub.url, tasks))
    assert opened.repaired_outputs == 1
    assert OUT.read_bytes() == whole


async def test_lost_output_file_is_made_again_from_the_journal(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    whole, paid = OUT.read_bytes(), stub.stats.requests
    OUT.unlink()
    await roll_out(stub_config(stub.url, tasks))
    assert OUT.read_bytes() == whole
    assert stub.stats.requests == paid


async def test_lines_that_somebody_else_appended_are_put_aside_not_destroyed(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    whole = OUT.read_bytes()
    OUT.write_bytes(whole + b'{"mine": 1}\n')
    await roll_out(stub_config(stub.url, tasks))
    assert OUT.read_bytes() == whole
    (aside,) = Path().glob("out.jsonl.extra-*")
    assert aside.read_bytes() == b'{"mine": 1}\n'


async def test_starting_anew_moves_the_old_run_and_output_aside(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    whole = OUT.read_bytes()
    opened = await roll_out(stub_config(stub.url, tasks), resume=False)
    assert {old.name for old, _ in opened.moved} == {"run", "out.jsonl"}
    moved = {old.name: new for old, new in opened.moved}
    assert moved["out.jsonl"].read_bytes() == whole
    assert (moved["run"] / "journal.db").exists()
    assert len(read_lines(OUT)) == 6


async def test_failed_conversations_are_on_record_once_and_tried_again(tmp_path: Path, tasks: Path) -> None:
    rule = {"when": {"contains": "Question 3"}, "fault": {"kind": "status", "status": 401, "times": "always"}}
    async with StubServer({"rules": [rule]}) as broken:
        config = stub_config(broken.url, tasks)
        opened = await roll_out(config)
        assert opened.summary is not None
        assert (opened.summary.total.finished, opened.summary.total.failed) == (5, 1)
        assert "task3" not in {line["id"] for line in read_lines(OUT)}
        (failed,) = read_lines(Path("run/failed.jsonl"))
        assert (failed["id"], failed["success"], failed["metadata"]["status"]) == ("task3", False, "failed")
        assert failed["metadata"]["error"]["kind"] == "model"
        assert "401" in failed["metadata"]["error"]["text"]
    async with StubServer() as mended:
        config["models"]["agent"]["api_base"] = mended.url
        opened = await roll_out(config)
    assert opened.summary is not None
    assert (opened.summary.total.finished, opened.summary.total.failed) == (6, 0)
    assert sorted(line["id"] for line in read_lines(OUT)) == [f"task{number}" for number in range(6)]
    assert read_lines(Path("run/failed.jsonl")) == []


async def test_users_failure_keeps_the_agents_work(tmp_path: Path, tasks: Path) -> None:
    fault = {"kind": "error500", "model": "user", "times": "always"}
    config = stub_config("", tasks, user={"model": "user"}, max_turns=4)
    async with StubServer({"faults": [fault]}) as broken:
        config["models"]["agent"]["api_base"] = config["models"]["user"]["api_base"] = broken.url
        opened = await roll_out(config)
        assert opened.summary is not None
        assert opened.summary.total.failed == 6
        failed = read_lines(Path("run/failed.jsonl"))
        assert {line["metadata"]["error"]["kind"] for line in failed} == {"user"}
        assert all(line["metadata"]["generations"] == 4 for line in failed), "the agent's first turn is on record"
    async with StubServer() as mended:
        config["models"]["agent"]["api_base"] = config["models"]["user"]["api_base"] = mended.url
        await roll_out(config)
        first_turns = 6 * 4
        expected = sum(line["metadata"]["generations"] for line in read_lines(OUT)) - first_turns
        assert mended.stats.by_model["agent"] == expected, "the first turn was not paid for again"


async def test_paused_conversation_goes_on_in_its_middle(stub: StubServer, tasks: Path) -> None:
    config = stub_config(stub.url, tasks, user={"model": "user"}, max_turns=4)
    await roll_out(config, Path("calm"))
    calm = {line["id"]: comparable(line) for line in read_lines(OUT)}
    needed = stub.stats.requests
    OUT.unlink()

    opened = await roll_out(config, Path("torn"), pause_when=lambda progress: progress.generations >= 10)
    assert opened.summary is not None
    assert opened.summary.total.unfinished > 0
    await roll_out(config, Path("torn"))
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == calm
    assert stub.stats.requests == 2 * needed, "a pause pays for nothing twice"


async def test_no_model_is_asked_again_before_the_last_answer_is_durable(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollout.store.journal.COMMIT_INTERVAL", 3600)
    async with StubServer({"rules": [{"reply": {"content": "My answer."}}]}) as stub:
        config = stub_config(stub.url, tasks, user={"model": "user"}, max_turns=4, limit=1)
        async with open_run(Config.model_validate(config), Path("run"), resume=True) as opened:
            running = asyncio.get_running_loop().create_task(opened.engine.run())
            while opened.engine.progress.generations == 0:
                await asyncio.sleep(0)
            for _ in range(200):
                await asyncio.sleep(0)
            assert stub.stats.requests == 1, "the user was not asked: the agent's words are not yet safe"
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running


async def test_world_that_answers_otherwise_on_replay_starts_the_path_anew(
    stub: StubServer, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stub_config(stub.url, tasks)

    await roll_out(config, pause_when=lambda progress: progress.tool_calls >= 2)
    journal = open_journal(Path("run"))
    begun = journal.unfinished("data")
    await journal.close()
    assert any(saved.attempt == 0 for saved in begun.values())

    async def changed(text: str) -> str:
        """Say it again."""
        return f"otherwise: {text}"

    monkeypatch.setattr(tests.tools, "echo", changed)
    opened = await roll_out(config)
    assert opened.engine.replay_mismatches >= 1
    lines = read_lines(OUT)
    assert sorted(line["id"] for line in lines) == [f"task{number}" for number in range(6)]
    for line in lines:
        tool_texts = [message["content"] for message in line["messages"] if message["role"] == "tool"]
        assert len({text.split(":")[0] for text in tool_texts}) == 1, "no path mixes the two worlds"


async def _never(text: str) -> str:
    """Say it again."""
    await asyncio.Event().wait()
    return text


async def _broken(*_: Any) -> Opening:
    raise WorldError("the world is gone")


@pytest.mark.parametrize(
    ("place", "fault", "stop", "kept"),
    [
        ("tests.tools.echo", _never, "deadline", OUT),
        ("rollout.environments.functions.FunctionWorld.open", _broken, "error", Path("run/failed.jsonl")),
    ],
    ids=["the deadline", "a fault of the world"],
)
async def test_what_was_said_stays_where_the_world_does_not_come_back(
    stub: StubServer, tasks: Path, monkeypatch: pytest.MonkeyPatch, place: str, fault: Any, stop: str, kept: Path
) -> None:
    info = {"actions": [{"name": "echo", "arguments": {"text": "x"}}]}
    opening = [{"role": "user", "content": "Question"}]
    write_tasks(tasks, {"id": "task0", "messages": opening, "task_info": info})
    config = stub_config(stub.url, tasks)
    await roll_out(config, pause_when=lambda progress: progress.tool_calls >= 2)
    with open_reader(Path("run")) as reader:
        saved = [body.said for body in reader.nodes(1)]
    assert len(saved) >= 3

    monkeypatch.setattr(place, fault)
    await roll_out({**config, "timeouts": {"episode": 0.2}})
    (line,) = read_lines(kept)
    said = [message["content"] for message in line["messages"][1:]]
    assert said[: len(saved)] == [message.content for message in saved if message is not None]
    assert line["metadata"]["stop_reason"] == stop
    assert line["metadata"]["generations"] >= 2
    assert line["metadata"]["scored"] is False, "nobody looks at a world that is not where the conversation is"
    with open_reader(Path("run")) as reader:
        assert json.loads(reader.line("data", "task0")) == line


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"agent": {"model": "agent", "temperature": 0.1}}, "agent.sampling"),
        ({"max_turns": 3, "user": {"model": "user"}}, "max_turns"),
        ({"seed": 5}, "seed"),
        ({"tools": ["tests.tools:boom"]}, "system prompt and tools"),
    ],
)
async def test_resuming_another_run_is_refused_with_what_changed(
    stub: StubServer, tasks: Path, change: dict[str, Any], named: str
) -> None:
    await roll_out(stub_config(stub.url, tasks))
    with pytest.raises(JournalError, match=f"{named} was") as caught:
        await roll_out(stub_config(stub.url, tasks, **change))
    assert "--no-resume" in str(caught.value)


async def test_more_samples_and_more_tasks_may_be_added_to_a_run(stub: StubServer, tmp_path: Path, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks, limit=2))
    await roll_out(stub_config(stub.url, tasks, samples=2))
    ids = sorted(line["id"] for line in read_lines(OUT))
    assert ids == sorted([f"task{n}" for n in range(6)] + [f"task{n}~1" for n in range(6)])


async def test_two_processes_cannot_write_one_run(stub: StubServer, tasks: Path) -> None:
    journal = open_journal(Path("run"))
    try:
        with pytest.raises(JournalError, match="another process"):
            await roll_out(stub_config(stub.url, tasks))
    finally:
        await journal.close()


async def test_without_checkpoints_finished_lines_survive_and_the_rest_starts_anew(
    stub: StubServer, tasks: Path
) -> None:
    config = {**stub_config(stub.url, tasks), "use_checkpoints": False}
    await roll_out(config)
    whole = OUT.read_bytes()
    OUT.write_bytes(whole[: len(whole) // 2])
    await roll_out(config)
    assert OUT.read_bytes() == whole
    assert [json.loads(line)["success"] for line in whole.splitlines()] == [True] * 6


async def test_file_that_is_no_journal_is_refused_by_name() -> None:
    Path("run").mkdir()
    Path("run/journal.db").write_bytes(b"this is not a database at all, just text" * 100)
    with pytest.raises(JournalError, match=r"journal\.db"):
        open_journal(Path("run"))
