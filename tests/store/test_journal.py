"""The journal by itself: groups, order, failure, and what it gives back."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.core.errors import JournalError
from rollout.core.messages import Message, ToolCall
from rollout.store.files.output_files import move_aside, open_output
from rollout.store.journal import Journal, open_journal
from rollout.store.reading.reader import open_reader
from rollout.store.record import Finished
from rollout.trajectories.generation import Generation, Tokens, Usage
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.sums import Sums
from rollout.trajectories.tree import NodeBody

SUMS = Sums(generations=1, turns=1)
text = st.text(max_size=20)
calls = st.lists(st.builds(ToolCall, id=text, name=text, arguments=text), max_size=2).map(tuple)
said = st.builds(Message, role=st.just("assistant"), content=text, tool_calls=calls, reasoning=st.none() | text)
tokens = st.builds(
    Tokens.of,
    prompt_ids=st.lists(st.integers(0, 2**31), max_size=4) | st.integers(0, 1100).map(range),
    logprobs=st.lists(st.floats(-9, 0, width=32), max_size=3).map(tuple),
)
bodies = st.one_of(
    st.builds(
        NodeBody,
        kind=st.just("generation"),
        generation=st.builds(
            Generation, message=said, usage=st.builds(Usage, st.integers(0, 99)), tokens=st.none() | tokens
        ),
    ),
    st.builds(
        NodeBody,
        kind=st.just("tool"),
        message=st.builds(Message, role=st.just("tool"), content=text, tool_call_id=text),
    ),
    st.builds(NodeBody, kind=st.just("user"), message=st.none(), end=st.sampled_from(["stop", "silent"])),
)


def finished(episode: int, id: str, *, failed: bool = False) -> Finished:
    head = Head(id, id, not failed, {"status": "failed" if failed else "completed", "stop_reason": "user_stop"})
    return Finished("d", episode, head, encode_line(head, []), failed, SUMS)


async def test_pieces_of_prompts_are_kept_once_and_only_so_many_names_of_them_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rollout.store.journal.CACHED_PIECES", 3)
    journal = open_journal(Path("run"))
    episode = journal.begin_episode(journal.begin_tree("d", "t", ()), "t", 0, 5)
    prompts = [range(start, start + 600) for start in (0, 1000, 2000, 3000, 0, 1000, 2000, 3000)]
    answers = [Generation(Message("assistant", "."), tokens=Tokens.of(prompt, (1,))) for prompt in prompts]
    nodes = [NodeBody("generation", generation=answer) for answer in answers]
    for place, node in enumerate(nodes):
        journal.put(episode, place, [node])
        assert len(journal._put_pieces) <= 3 + 2
    await journal.flush()
    assert journal.nodes(episode) == nodes
    assert journal._db.execute("SELECT count(*) FROM token_pieces").fetchone()[0] == 4 * 2
    await journal.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.lists(st.lists(bodies, min_size=1, max_size=4), max_size=5))
async def test_nodes_come_back_as_they_were_put(groups: list[list[NodeBody]]) -> None:
    run = Path("runs") / str(id(groups))
    journal = open_journal(run)
    tree = journal.begin_tree("d", "t", (Message(role="user", content="hi"),))
    episode = journal.begin_episode(tree, "t", 0, 5)
    place = 0
    for group in groups:
        journal.put(episode, place, group)
        place += len(group)
    await journal.close()
    again = open_journal(run)
    assert again.nodes(episode) == [body for group in groups for body in group]
    assert again.opening(tree) == (Message(role="user", content="hi"),)
    await again.close()


async def test_an_attempt_that_is_replaced_while_a_run_is_read_is_read_whole() -> None:
    journal = open_journal(Path("run"))
    journal.attach("d", open_output(Path("out.jsonl")))
    tree = journal.begin_tree("d", "t", ())

    async def attempt(id: str, text: str, *, failed: bool) -> None:
        episode = journal.begin_episode(tree, id, 0, 5)
        journal.put(episode, 0, [NodeBody("user", message=Message(role="user", content=text))])
        await journal.settle(journal.finish(finished(episode, id, failed=failed)))

    await attempt("a", "first", failed=True)
    await attempt("b", "failed", failed=True)
    with open_reader(Path("run")) as reader:
        read = reader.trajectories("d")
        assert next(read).messages[0].content == "first"
        await attempt("b", "completed", failed=False)
        (again,) = read
    assert (again.status, again.messages[0].content) == ("completed", "completed")
    await journal.close()


async def test_settled_rows_are_there_for_another_reader_at_once() -> None:
    journal = open_journal(Path("run"))
    tree = journal.begin_tree("d", "t", ())
    episode = journal.begin_episode(tree, "t", 0, 1)
    batch = journal.put(episode, 0, [NodeBody("user", message=Message(role="user", content=str(n))) for n in range(3)])
    assert batch is not None
    await journal.settle(batch)
    reader = sqlite3.connect("run/journal.db")
    assert reader.execute("SELECT count(*) FROM nodes").fetchone() == (3,)
    reader.close()
    await journal.close()


async def test_many_waiters_share_few_commits() -> None:
    journal = open_journal(Path("run"))
    tree = journal.begin_tree("d", "t", ())

    async def episode(number: int) -> None:
        own = journal.begin_episode(tree, f"t{number}", 0, 1)
        for place in range(5):
            batch = journal.put(own, place, [NodeBody("user", message=Message(role="user", content="x"))])
            assert batch is not None
            await journal.settle(batch)

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(episode(number))
    assert journal.commits < 60, "500 nodes went in a handful of commits"
    await journal.close()


async def test_line_is_written_only_after_its_row_and_knows_its_place() -> None:
    journal = open_journal(Path("run"))
    journal.attach("d", open_output(Path("out.jsonl")))
    tree = journal.begin_tree("d", "t", ())
    lines = [finished(journal.begin_episode(tree, f"t{n}", 0, 1), f"t{n}") for n in range(5)]
    for line in lines:
        await journal.settle(journal.finish(line))
    await journal.close()
    data = Path("out.jsonl").read_bytes()
    rows = (
        sqlite3.connect("run/journal.db")
        .execute("SELECT id, place, length FROM trajectories ORDER BY place")
        .fetchall()
    )
    assert [data[place : place + length] for _, place, length in rows] == [line.line for line in lines]


async def test_failed_trajectory_is_replaced_by_its_later_success() -> None:
    journal = open_journal(Path("run"))
    journal.attach("d", open_output(Path("out.jsonl")))
    tree = journal.begin_tree("d", "t", ())
    episode = journal.begin_episode(tree, "t", 0, 1)
    await journal.settle(journal.finish(finished(episode, "t", failed=True)))
    assert Path("out.jsonl").read_bytes() == b""
    assert set(journal.unfinished("d")) == {"t"}
    await journal.settle(journal.finish(finished(episode, "t")))
    assert journal.finished_ids("d") == {"t"}
    assert journal.unfinished("d") == {}
    assert len(Path("out.jsonl").read_bytes().splitlines()) == 1
    await journal.close()


async def test_disk_that_refuses_stops_everybody_who_waits_with_the_files_name(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(Path("run"))

    def refuse(self: Journal, batch: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Journal, "_write", refuse)
    tree = journal.begin_tree("d", "t", ())
    batch = journal.put(journal.begin_episode(tree, "t", 0, 1), 0, [NodeBody("user")])
    assert batch is not None
    with pytest.raises(JournalError, match="disk is full"):
        await journal.settle(batch)
    with pytest.raises(JournalError, match=r"journal\.db"):
        journal.put(1, 1, [NodeBody("user")])
    await journal.close()


async def test_newest_attempt_is_the_one_that_resumes() -> None:
    journal = open_journal(Path("run"))
    tree = journal.begin_tree("d", "t", ())
    journal.begin_episode(tree, "t", 0, 1)
    second = journal.begin_episode(tree, "t", 1, 1)
    await journal.flush()
    assert journal.unfinished("d")["t"].id == second
    await journal.close()


def test_nothing_is_overwritten_when_moved_aside_twice_in_a_second() -> None:
    for content in ("one", "two", "three"):
        Path("file").write_text(content)
        assert move_aside(Path("file")) is not None
    assert sorted(path.read_text() for path in Path().glob("file.*")) == ["one", "three", "two"]
    assert move_aside(Path("file")) is None
