"""Every filter and every sort of the table gives what going through all trajectories gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.trajectories.trajectory import Trajectory
from rollout.viewer.errors import RequestRefused
from rollout.viewer.index.queries import SORTS, TableQuery
from rollout.viewer.index.table import find_neighbours, make_queue, read_table
from rollout.viewer.open_runs import OpenRun
from tests.viewer.writing import WrittenRun, answer, result

WORDS = ["apple", "banana", "cherry", "Dürüm", "éclair", "fig_tree", "grape-juice", "漢字", "naïve"]
NAMES = ["plain", "with/slash", 'quo"te', "it's", "ünïcode 漢字", "a b", "%2e%2e", "<b>", "x~1"]
STATUSES = ["completed", "truncated", "failed", "cut"]


def write_random_run(path: Path, count: int = 240) -> None:
    drawn = random.Random(7)
    run = WrittenRun(path)
    for number in range(count):
        status = drawn.choice(STATUSES)
        scored = status == "completed" and drawn.random() < 0.8
        success = scored and drawn.random() < 0.5
        tools = drawn.sample(["search", "book", "cancel"], drawn.randrange(4))
        nodes = []
        for tool in tools:
            nodes.append(answer(" ".join(drawn.choices(WORDS, k=4)), (tool, {"text": drawn.choice(WORDS)})))
            nodes.append(result(" ".join(drawn.choices(WORDS, k=3)), error="tool" if drawn.random() < 0.2 else None))
        nodes.append(answer(" ".join(drawn.choices(WORDS, k=5)), reasoning=drawn.choice(["", *WORDS]) or None))
        error = {"kind": drawn.choice(["model", "world"]), "text": f"gone {drawn.randrange(3)} after {number}.5 s"}
        scores = [
            {"name": "state", "value": drawn.choice([0.0, 0.25, 1.0, None]), "decides": True},
            {"name": "told", "value": drawn.choice([0.0, 1.0]), "decides": True},
        ]
        run.add(
            f"{NAMES[number % len(NAMES)]}-{number}",
            nodes,
            dataset=drawn.choice(["chains", 'odd "name"/é']),
            task=f"task {number // 4}",
            opening=f"opening {number // 4}",
            success=success,
            status=status,
            stop_reason=drawn.choice(["user_stop", "max_turns", "error"]),
            scored=scored,
            reward=drawn.choice([None, 0.0, 0.5, 1.0]) if status != "failed" else None,
            scores=scores if scored else [],
            total_turns=drawn.randrange(5),
            generations=drawn.randrange(9),
            tool_call_count=len(tools),
            tool_errors={"tool": drawn.randrange(3)},
            usage={"agent": {"prompt_tokens": drawn.randrange(1000), "completion_tokens": drawn.randrange(99)}},
            cost=drawn.random(),
            timings={"seconds": drawn.random() * 60, "model_seconds": 1.0, "retries": 0},
            model=drawn.choice(["small", "large", None]),
            marks=drawn.choice([[], ["user_fault:told_unknown_fact"], ["repeats", "late"]]),
            error=error if status == "failed" else None,
            rank=drawn.choice([None, 0, 1]),
            finished=3000.0 + drawn.randrange(100),
        )
    run.close()


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRun]:
    """A run with attempts of every kind, written and indexed once."""
    path = tmp_path_factory.mktemp("queries") / "run"
    write_random_run(path)
    opened = OpenRun("run", path, path.parent)
    yield opened
    opened.close()


@pytest.fixture
def run(indexed: OpenRun, monkeypatch: pytest.MonkeyPatch) -> OpenRun:
    monkeypatch.chdir(indexed.path.parent)
    return indexed


def texts(trajectory: Trajectory) -> str:
    said = []
    for message in trajectory.messages:
        said += [message.content or "", message.reasoning or ""]
        said += [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return " ".join(said)


def tokens(trajectory: Trajectory) -> int:
    return sum(used.prompt_tokens + used.completion_tokens for used in trajectory.usage.values())


def tools_of(trajectory: Trajectory) -> set[str]:
    return {call.name for message in trajectory.messages for call in message.tool_calls}


def failed_tools_of(trajectory: Trajectory) -> set[str]:
    return {
        call.name
        for index in range(len(trajectory.messages))
        for call, _, error in trajectory.answered_calls(index)
        if error
    }


def score_of(trajectory: Trajectory, name: str) -> float | None:
    found = trajectory.score(name)
    return None if found is None else found.value


FILTERS: list[tuple[dict[str, Any], Callable[[Trajectory], bool]]] = [
    ({}, lambda one: True),
    ({"dataset": ("chains",)}, lambda one: one.dataset == "chains"),
    ({"dataset": ('odd "name"/é', "chains")}, lambda one: True),
    ({"status": ("failed", "cut")}, lambda one: one.status in ("failed", "cut")),
    ({"stop_reason": ("max_turns",)}, lambda one: one.stop_reason == "max_turns"),
    ({"success": "1"}, lambda one: one.scored and one.success),
    ({"success": "false"}, lambda one: one.scored and not one.success),
    ({"success": "none"}, lambda one: not one.scored),
    ({"score": ("state:lt:0.5",)}, lambda one: (value := score_of(one, "state")) is not None and value < 0.5),
    ({"score": ("state:ge:1", "told:eq:0")}, lambda one: score_of(one, "state") == 1 and score_of(one, "told") == 0),
    ({"score": ("state:none",)}, lambda one: one.score("state") is not None and score_of(one, "state") is None),
    ({"min_reward": 0.5}, lambda one: one.reward is not None and one.reward >= 0.5),
    ({"max_reward": 0.5}, lambda one: one.reward is not None and one.reward <= 0.5),
    ({"tool": ("book",)}, lambda one: "book" in tools_of(one)),
    ({"tool": ("book", "cancel")}, lambda one: bool({"book", "cancel"} & tools_of(one))),
    ({"tool_error": ("book",)}, lambda one: "book" in failed_tools_of(one)),
    ({"model": ("small",)}, lambda one: one.model == "small"),
    ({"mark": ("late",)}, lambda one: "late" in one.marks),
    ({"mark": ("none",)}, lambda one: True),
    ({"mark": ("any",)}, lambda one: False),
    ({"filter": ("none",)}, lambda one: True),
    ({"task": "task 7"}, lambda one: one.task_id == "task 7"),
    ({"by": "person"}, lambda one: False),
    ({"by": "run"}, lambda one: True),
    ({"q": "banana"}, lambda one: "banana" in texts(one)),
    ({"q": "ban cherry"}, lambda one: "banana" in texts(one) and "cherry" in texts(one)),
    ({"q": "-banana"}, lambda one: "banana" not in texts(one)),
    ({"q": "durum"}, lambda one: "Dürüm" in texts(one) or "D\\u00fcr" in texts(one)),
    ({"q": "字"}, lambda one: "漢字" in texts(one) or "\\u6f22" in texts(one)),
    ({"q": '"opening 12"'}, lambda one: one.task_id == "task 12"),
    ({"q": "fig_tree"}, lambda one: "fig_tree" in texts(one)),
    ({"q": '" OR docs MATCH "'}, lambda one: False),
    (
        {"status": ("completed",), "tool": ("search",), "q": "apple", "success": "1"},
        lambda one: one.scored and one.success and "search" in tools_of(one) and "apple" in texts(one),
    ),
]


@pytest.mark.parametrize(("query", "fits"), FILTERS, ids=[str(query) for query, _ in FILTERS])
def test_a_filter_finds_what_going_through_all_finds(
    run: OpenRun, query: dict[str, Any], fits: Callable[[Trajectory], bool]
) -> None:
    expected = {(one.dataset, one.id) for one in rollout.load_run("run").trajectories if fits(one)}
    found = read_table(run, TableQuery(**query, limit=1000))
    assert {(row.dataset, row.id) for row in found.rows} == expected
    assert found.total == len(found.rows) == len(expected)


KEYS: dict[str, Callable[[Trajectory], Any]] = {
    "id": lambda one: one.id,
    "dataset": lambda one: one.dataset,
    "task": lambda one: one.task_id,
    "status": lambda one: one.status,
    "stop_reason": lambda one: one.stop_reason,
    "success": lambda one: one.success,
    "scored": lambda one: one.scored,
    "reward": lambda one: one.reward,
    "turns": lambda one: one.turns,
    "steps": lambda one: one.generations,
    "tool_calls": lambda one: one.tool_calls,
    "tool_errors": lambda one: sum(one.tool_errors.values()),
    "tokens": tokens,
    "cost": lambda one: one.cost,
    "seconds": lambda one: one.timings.seconds,
    "model": lambda one: one.model,
    "author": lambda one: one.author,
    "first": lambda one: one.messages[0].content,
    "score:state": lambda one: score_of(one, "state"),
}


@pytest.mark.parametrize("desc", [False, True])
@pytest.mark.parametrize("sort", [*KEYS])
def test_a_sort_gives_the_order_of_the_values_with_unknown_ones_last(run: OpenRun, sort: str, desc: bool) -> None:
    known = {(one.dataset, one.id): KEYS[sort](one) for one in rollout.load_run("run").trajectories}
    rows = read_table(run, TableQuery(sort=sort, desc=desc, limit=1000)).rows
    values = [known[row.dataset, row.id] for row in rows]
    expected = sorted((value for value in known.values() if value is not None), reverse=desc)
    assert values == expected + [None] * (len(known) - len(expected))


def test_every_column_can_be_sorted_by(run: OpenRun) -> None:
    for sort in SORTS:
        assert len(read_table(run, TableQuery(sort=sort, limit=1000)).rows) == 240


def test_rows_say_what_the_record_says(run: OpenRun) -> None:
    known = {(one.dataset, one.id): one for one in rollout.load_run("run").trajectories}
    for row in read_table(run, TableQuery(limit=1000)).rows:
        one = known[row.dataset, row.id]
        expected = (one.task_id, one.status, one.success, one.scored, one.reward, one.turns, one.cost, one.model)
        assert (
            row.task_id, row.status, row.success, row.scored, row.reward, row.turns, row.cost, row.model,
        ) == expected  # fmt: skip
        assert row.tokens == tokens(one)
        assert row.first == one.messages[0].content
        assert (row.error is None) == (one.error is None)


def test_pages_put_together_are_the_whole(run: OpenRun) -> None:
    whole = read_table(run, TableQuery(sort="status", limit=1000)).rows
    parts = [read_table(run, TableQuery(sort="status", limit=37, offset=begin)).rows for begin in range(0, 240, 37)]
    assert [row for part in parts for row in part] == list(whole)


def test_neighbours_are_those_of_the_table(run: OpenRun) -> None:
    query = TableQuery(sort="tokens", status=("completed",), limit=1000)
    rows = read_table(run, query).rows
    for place in (0, 1, len(rows) - 1):
        found = find_neighbours(run, rows[place].dataset, rows[place].id, query)
        assert (found.place, found.total) == (place, len(rows))
        before = rows[place - 1] if place else None
        after = rows[place + 1] if place + 1 < len(rows) else None
        for key, row in ((found.previous, before), (found.next, after)):
            assert (None if key is None else (key.dataset, key.id)) == (None if row is None else (row.dataset, row.id))


def test_what_a_query_does_not_have_has_no_neighbours(run: OpenRun) -> None:
    row = next(row for row in read_table(run, TableQuery(limit=1000)).rows if row.status == "failed")
    found = find_neighbours(run, row.dataset, row.id, TableQuery(status=("completed",)))
    assert (found.previous, found.next, found.place) == (None, None, None)


def test_attempts_that_failed_for_the_same_reason_are_found_by_its_key(run: OpenRun) -> None:
    from rollout.viewer.pages.run_page import read_run_page

    causes = read_run_page(run).causes
    assert sum(cause.count for cause in causes) == read_table(run, TableQuery(status=("failed",))).total
    assert len(causes) <= 6
    for cause in causes:
        assert read_table(run, TableQuery(cause=cause.key)).total == cause.count


def test_the_queue_draws_the_same_again_and_shows_disagreement(run: OpenRun) -> None:
    query = TableQuery(status=("completed",))
    assert make_queue(run, "sample", 20, query, 3) == make_queue(run, "sample", 20, query, 3)
    assert make_queue(run, "sample", 20, query, 3) != make_queue(run, "sample", 20, query, 4)
    expected = {
        (one.dataset, one.id)
        for one in rollout.load_run("run").trajectories
        if len({value >= 1 for score in one.scores if (value := score.value) is not None}) == 2
    }
    found = make_queue(run, "disagree", 1000, TableQuery())
    assert {(key.dataset, key.id) for key in found.keys} == expected
    assert all("state" in key.why and "told" in key.why for key in found.keys)
    assert len(make_queue(run, "unmarked", 50, TableQuery()).keys) == 50


@pytest.mark.parametrize(
    "query",
    [{"sort": "head"}, {"sort": "n; DROP TABLE attempts"}, {"score": ("state",)}, {"limit": -1}, {"limit": 10_000}],
)
def test_what_means_nothing_is_refused(run: OpenRun, query: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused):
        read_table(run, TableQuery(**query))


def test_a_snippet_shows_where_the_words_are(run: OpenRun) -> None:
    known = {(one.dataset, one.id): one for one in rollout.load_run("run").trajectories}
    for row in read_table(run, TableQuery(q="grape", limit=1000)).rows:
        assert row.snippet is not None
        assert row.hit is not None
        assert "grape" in next(part.text for part in row.snippet if part.hit)
        message = known[row.dataset, row.id].messages[row.hit]
        said = " ".join([message.content or "", message.reasoning or "", *(c.arguments for c in message.tool_calls)])
        assert "grape" in said


def test_what_was_found_is_at_the_beginning_of_its_snippet_where_a_row_shows_it(
    open_run: Callable[[Path], OpenRun],
) -> None:
    written = WrittenRun(Path("long"))
    written.add("t", [answer("long before " * 30 + "needle" + " long behind" * 30)])
    written.close()
    (row,) = read_table(open_run(Path("long")), TableQuery(q="needle")).rows
    assert row.snippet is not None
    shown = "".join(part.text for part in row.snippet)
    assert shown.startswith("…")
    assert shown.index("needle") < 25


def test_an_id_is_found_by_a_part_of_it_and_that_of_a_task_too(run: OpenRun) -> None:
    assert {row.task_id for row in read_table(run, TableQuery(q='"task 17"', limit=1000)).rows} == {"task 17"}
    [row] = read_table(run, TableQuery(q="PLAIN-216", limit=1000)).rows
    assert row.id == "plain-216"


@pytest.mark.parametrize("signs", ["*", "🎉", "--", '""', "% _"])
def test_signs_that_are_no_words_find_nothing(run: OpenRun, signs: str) -> None:
    assert read_table(run, TableQuery(q=signs)).total == 0
    assert read_table(run, TableQuery(q="  ")).total > 0


def test_what_is_too_much_for_a_query_is_refused(run: OpenRun) -> None:
    with pytest.raises(RequestRefused, match="at most 40 words"):
        read_table(run, TableQuery(q="word " * 1000))
    assert read_table(run, TableQuery(q="word " * 40)).total == 0
    with pytest.raises(RequestRefused, match="offset"):
        read_table(run, TableQuery(offset=1 << 63))
