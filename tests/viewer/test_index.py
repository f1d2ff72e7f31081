"""The index follows its run: what is new, what was replaced, what branches, what people add."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rollout.store.marks import MarksFile
from rollout.store.run_dir import FILTERS
from rollout.viewer.index import run_index as index_module
from rollout.viewer.index import schema, writer
from rollout.viewer.index.queries import TableQuery
from rollout.viewer.index.schema import INDEX
from rollout.viewer.index.table import read_table
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.run_page import read_run_page, read_series
from tests.viewer.writing import WrittenRun, answer, result, user

Opener = Callable[..., OpenRun]


def ids(run: OpenRun, **query: object) -> set[str]:
    return {row.id for row in read_table(run, TableQuery(**query, limit=1000)).rows}  # type: ignore[arg-type]


def test_a_live_run_is_followed(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    assert ids(run) == set()
    for number in range(5):
        written.add(f"t{number}", [answer(f"word{number}")])
        assert ids(run) == {f"t{each}" for each in range(number + 1)}
        assert ids(run, q=f"word{number}") == {f"t{number}"}


def test_attempts_that_end_out_of_order_are_all_found(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    late = written.add("late", [answer("first half")], is_ended=False)
    written.add("early", [answer("quick")])
    assert ids(run) == {"early"}
    written.add("late", [answer("second half")], episode=late, first_place=1)
    assert ids(run) == {"early", "late"}
    assert ids(run, q="half") == {"late"}


def test_a_failed_attempt_that_is_replaced_is_found_once_and_with_its_new_words(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    written.add("a", [answer("broken")], status="failed", error={"kind": "model", "text": "gone"})
    assert ids(run, status=("failed",)) == {"a"}
    written.add("a", [answer("repaired")])
    [row] = read_table(run, TableQuery()).rows
    assert (row.status, row.error) == ("completed", None)
    assert ids(run, q="broken") == set()
    assert ids(run, q="repaired") == {"a"}
    assert read_run_page(run).causes == ()


def test_a_failed_attempt_that_goes_on_in_the_same_episode_is_taken_in_again(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    episode = written.add("a", [answer("one")], status="failed", error={"kind": "model", "text": "gone"})
    assert ids(run, q="one") == {"a"}
    written.add("a", [answer("two")], episode=episode, first_place=1, finished=9000.0)
    [row] = read_table(run, TableQuery()).rows
    assert row.status == "completed"
    assert ids(run, q="one two") == {"a"}


def test_words_are_found_in_every_attempt_that_shares_them_and_in_no_other(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    root = written.add("t", [answer("alpha"), user("beta"), answer("gamma"), answer("delta")], opening="omega")
    assert ids(run, q="delta") == {"t"}
    child = written.add("t~1", [answer("epsilon"), answer("zeta")], task="t", branch=(root, 1))
    written.add("t~2", [answer("eta")], task="t", branch=(child, 0))
    everything = {"t", "t~1", "t~2"}
    for words, expected in {
        "omega": everything,
        "alpha": everything,
        "beta": everything,
        "gamma": {"t"},
        "delta": {"t"},
        "epsilon": {"t~1", "t~2"},
        "zeta": {"t~1"},
        "eta": {"t~2"},
        "omega beta epsilon eta": {"t~2"},
        "gamma epsilon": set(),
        "beta -gamma": {"t~1", "t~2"},
    }.items():
        assert ids(run, q=words) == expected, words


def test_a_branch_from_an_attempt_that_has_not_ended_finds_its_words(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    root = written.add("t", [answer("alpha"), answer("beta")], is_ended=False)
    written.add("t~1", [answer("gamma")], task="t", branch=(root, 0))
    assert ids(run, q="alpha") == {"t~1"}
    assert ids(run, q="beta") == set()
    written.add("t", [answer("delta")], episode=root, first_place=2)
    assert ids(run, q="alpha") == {"t", "t~1"}
    assert ids(run, q="delta beta") == {"t"}


def test_tools_of_a_shared_beginning_count_for_the_filter_and_once_for_the_figures(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    root = written.add("t", [answer(None, ("search", {})), result("found"), answer("done")])
    written.add("t~1", [answer("done otherwise")], task="t", branch=(root, 1))
    assert ids(run, tool=("search",)) == {"t", "t~1"}
    [tool] = read_run_page(run).total.tools
    assert (tool.name, tool.calls) == ("search", 1)


def test_attempts_of_people_are_in_the_table_and_in_no_figure(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    written.add("t", [answer("of the run")], scored=True, success=True, reward=1.0)
    people = WrittenRun(Path("run/people"), first_episode=1 << 40)
    copy = people.add("t", [answer("of the run")], is_ended=False)
    people.add("t~+1", [answer("corrected")], task="t", branch=(copy, 0), author="Ada")
    assert ids(run) == {"t", "t~+1"}
    assert ids(run, by="run") == {"t"}
    assert ids(run, by="person") == ids(run, author=("Ada",)) == ids(run, q="corrected") == {"t~+1"}
    assert ids(run, q='"of the run"') == {"t", "t~+1"}
    page = read_run_page(run)
    assert (page.total.attempts, page.row.finished) == (1, 1)
    assert [(value.value, value.count) for value in page.facets.authors] == [("Ada", 1)]


def test_labels_and_people_are_counted_by_trajectories(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    written.add("t", [answer("x"), answer("y"), answer("z")])
    people = WrittenRun(Path("run/people"), first_episode=1 << 40)
    people.add("t~+1", [answer("corrected")], task="t", author="Ada")
    marks = MarksFile(Path("run"))
    for message in (1, 2, 3):
        marks.add("data", "t", "label", message=message, text="odd", author="Ada")
    marks.add("data", "t~+1", "good", author="Ada")
    facets = read_run_page(run).facets
    for shown, found in ((facets.labels, ids(run, label=("odd",))), (facets.authors, ids(run, author=("Ada",)))):
        assert [each.count for each in shown] == [len(found)]


def test_marks_of_filters_are_followed(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    for name in "ab":
        written.add(name, [answer("x")])
    assert ids(run, filter=("loops",)) == set()
    record = {
        "id": "a", "dataset": "data", "group": "a", "status": "completed", "verdict": "drop", "why": ["loops"],
        "masked": [], "masked_messages": [], "end": None, "counts_in_group": True, "turns": [], "digest": "",
        "marks": [{"filter": "loops", "policy": "drop_trajectory", "reason": "goes round"}],
    }  # fmt: skip
    (Path("run") / FILTERS).write_text(json.dumps(record) + "\n")
    assert ids(run, filter=("loops",)) == {"a"}
    assert ids(run, filter=("none",)) == {"b"}
    assert read_run_page(run).filters == {"loops": 1}


def test_a_large_backlog_is_taken_in_behind_the_query(open_run: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MOST_AT_ONCE", 3)
    written, run = WrittenRun(), open_run()
    for number in range(10):
        written.add(f"t{number}", [answer("x")])
    assert len(ids(run)) == 3
    assert not run.index.state.is_ready
    states = []
    run.index.sync(states.append)
    assert len(ids(run)) == 10
    assert run.index.state.is_ready
    assert states[-1].rows == states[-1].of == 10


def test_a_server_that_ends_does_not_wait_for_a_large_backlog(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHUNK", 1)
    written, run = WrittenRun(), open_run()
    for number in range(5):
        written.add(f"t{number}", [answer("x")])
    run.index.sync(lambda state: run.index.stop())
    assert (run.index.state.rows, run.index.state.is_ready) == (1, False)
    run.close()
    assert ids(open_run()) == {f"t{number}" for number in range(5)}


def test_an_index_of_another_version_is_made_again(open_run: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    WrittenRun().add("a", [answer("x")])
    assert ids(open_run()) == {"a"}
    open_run_again = open_run()
    with sqlite3.connect(Path("run") / INDEX) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    open_run_again.index.close()
    assert ids(open_run_again) == {"a"}


def test_a_file_that_is_no_database_is_made_again(open_run: Opener) -> None:
    WrittenRun().add("a", [answer("x")])
    (Path("run") / INDEX).write_bytes(b"nothing of the kind" * 500)
    assert ids(open_run()) == {"a"}


def test_an_index_of_another_run_is_made_again(open_run: Opener) -> None:
    WrittenRun().add("a", [answer("x")])
    run = open_run()
    assert ids(run) == {"a"}
    run.close()
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (Path("run") / name).unlink(missing_ok=True)
    WrittenRun(first_episode=5).add("b", [answer("y")])
    again = open_run()
    assert ids(again) == {"b"}
    assert ids(again, q="x") == set()


def test_the_index_of_a_run_that_cannot_be_written_is_in_the_cache(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = WrittenRun()
    written.add("a", [answer("x")])
    # SQLite then moves the log into the journal, as at the end of a run.
    written.close()
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").resolve()))
    monkeypatch.setattr(schema.os, "access", lambda path, mode: False)
    run = open_run()
    assert ids(run, q="x") == {"a"}
    assert not (Path("run") / INDEX).exists()
    assert [path.suffix for path in Path("cache/rollout/view").glob("*.db")] == [".db"]


def test_a_second_server_reads_what_the_first_one_writes(open_run: Opener) -> None:
    written, first, second = WrittenRun(), open_run(), open_run()
    written.add("a", [answer("x")])
    assert ids(first) == {"a"}
    assert ids(second) == {"a"}
    written.add("b", [answer("y")])
    assert ids(first) == {"a", "b"}
    assert ids(second) == {"a", "b"}


def test_a_second_server_makes_its_figures_again_only_after_a_change(open_run: Opener) -> None:
    written, first, second = WrittenRun(), open_run(), open_run()
    written.add("a", [answer("x")])
    assert ids(first) == ids(second) == {"a"}
    version = second.index.version
    assert ids(second) == {"a"}
    assert second.index.version == version
    written.add("b", [answer("y")])
    assert ids(first) == ids(second) == {"a", "b"}
    assert second.index.version > version


def test_a_second_server_sees_an_index_that_was_made_again(open_run: Opener) -> None:
    written, first, second = WrittenRun(), open_run(), open_run()
    written.add("a", [answer("x")])
    assert ids(first) == ids(second) == {"a"}
    written.close()
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (Path("run") / name).unlink(missing_ok=True)
    WrittenRun(first_episode=5).add("b", [answer("y")])
    assert ids(first) == {"b"}
    assert ids(second) == {"b"}


def test_series_end_where_the_run_stands(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    for number in range(300):
        written.add(
            f"t{number}", [answer("x")], scored=True, success=number % 3 == 0, reward=float(number % 3 == 0),
            cost=0.5, total_turns=2,
        )  # fmt: skip
    series = read_series(run, None)
    assert len(series.t) == 200
    assert list(series.t) == sorted(series.t)
    assert (series.finished[-1], series.solved[-1], series.cost[-1], series.turns[-1]) == (300, 1 / 3, 150.0, 2.0)
    assert series.latency_p50[-1] == 0.5
    assert list(series.finished) == sorted(series.finished)


def test_a_request_waits_for_another_one_that_has_just_begun_the_index(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    WrittenRun().add("a", [answer("x")])
    run = open_run()
    is_begun, goes_on = threading.Event(), threading.Event()
    begin = run.index._sync

    def slowly(*given: Any) -> None:
        is_begun.set()
        assert goes_on.wait(60)
        begin(*given)

    monkeypatch.setattr(run.index, "_sync", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ids, run)
        assert is_begun.wait(60)
        second = pool.submit(ids, run)
        goes_on.set()
        assert first.result() == second.result() == {"a"}
