"""Samplers: exactly as many as asked for, each task once, in the proportions asked for, the same again next time."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.core.shares import share_out
from rollout.tasks.sampling import Drawn, Range, WebTaskFile, check_ranges, draw_test, draw_train

EASY, MEDIUM, HARD = Range("easy", 1, 3, 2), Range("medium", 4, 6, 1), Range("hard", 7, 99, 1)


def row(number: int, difficulty: int = 1, website: str = "https://example.com", **more: Any) -> dict[str, Any]:
    return {
        "task_id": f"t{number}",
        "task_name": f"Task {number}",
        "website": website,
        "domain": "D",
        "subdomain": "S",
        "difficulty": difficulty,
        "evaluator_reference": ["fact"],
        "definite_answer": "",
    } | more


def web_file(*rows: dict[str, Any]) -> WebTaskFile:
    path = Path("train.jsonl")
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return WebTaskFile(path)


def ids(tasks: WebTaskFile, drawn: Drawn) -> list[str]:
    return [tasks.ids[place] for place in drawn.places]


@given(
    difficulties=st.lists(st.integers(1, 12), max_size=30),
    copies=st.lists(st.integers(0, 29), max_size=8),
    size=st.integers(1, 40),
    seed=st.integers(0, 3),
    ranges=st.sampled_from([(), (EASY, MEDIUM, HARD)]),
)
def test_sample_is_exact_and_without_repetition(
    difficulties: list[int], copies: list[int], size: int, seed: int, ranges: tuple[Range, ...]
) -> None:
    rows = [row(number, difficulty) for number, difficulty in enumerate(difficulties)]
    # The same task under another id is the same task.
    doubled = [{**rows[copy], "task_id": f"copy{n}"} for n, copy in enumerate(copies) if copy < len(rows)]
    tasks = web_file(*rows, *doubled)
    drawn = draw_train(tasks, size, seed=seed, iteration=1, ranges=ranges)
    names = [tasks.entry(place)["messages"][0]["content"] for place in drawn.places]
    assert len(names) == len(set(names)) == min(size, len(rows))
    hardness = [tasks.difficulties[place] for place in drawn.places]
    assert hardness == sorted(hardness, reverse=True)
    assert drawn == draw_train(tasks, size, seed=seed, iteration=1, ranges=ranges)
    assert any("only" in note for note in drawn.notes) == (len(names) < size)


@given(
    size=st.integers(0, 200),
    shares=st.lists(st.tuples(st.floats(0, 10).map(lambda w: round(w, 2)), st.integers(0, 80)), min_size=1, max_size=6),
)
def test_shares_add_up_and_are_fair(size: int, shares: list[tuple[float, int]]) -> None:
    weights, rooms = [weight for weight, _ in shares], [room for _, room in shares]
    given_out = share_out(size, weights, rooms)
    assert sum(given_out) == min(size, sum(room for weight, room in shares if weight > 0))
    assert all(0 <= got <= room for got, room in zip(given_out, rooms, strict=True))
    assert all(got == 0 for got, weight in zip(given_out, weights, strict=True) if weight == 0)
    total = sum(Fraction(str(weight)) for weight in weights)
    if total and all(size * Fraction(str(w)) / total + 1 <= room for w, room in shares):
        for got, weight in zip(given_out, weights, strict=True):
            assert abs(got - size * Fraction(str(weight)) / total) < 1, "never a whole task off"


def test_remainders_go_to_the_largest() -> None:
    assert share_out(1024, [1, 1, 1], [10_000] * 3) == [342, 341, 341]
    assert share_out(10, [0.5, 0.3, 0.2], [99] * 3) == [5, 3, 2]
    assert share_out(7, [1, 2, 3], [99] * 3) == [1, 2, 4]


def test_short_range_is_made_up_for_by_the_others_in_proportion_and_told() -> None:
    rows = [row(n, 1) for n in range(40)] + [row(100 + n, 5) for n in range(40)] + [row(200, 8)]
    tasks = web_file(*rows)
    drawn = draw_train(tasks, 20, seed=0, iteration=0, ranges=(EASY, MEDIUM, HARD))
    kinds = Counter(tasks.difficulties[place] for place in drawn.places)
    # Wanted 10, 5, 5; four of the last are not there and are shared out two to one.
    assert kinds == {1: 13, 5: 6, 8: 1}
    assert "'hard' (difficulty 7 to 99) has 1 of 5" in drawn.notes[0]


def test_tasks_outside_every_range_or_of_no_weight_are_not_drawn() -> None:
    tasks = web_file(*[row(n, 1 + n % 9) for n in range(90)])
    ranges = (Range("some", 2, 3, 1.0), Range("none", 4, 9, 0.0))
    drawn = draw_train(tasks, 50, seed=0, iteration=0, ranges=ranges)
    assert {tasks.difficulties[place] for place in drawn.places} == {2, 3}
    assert len(drawn.places) == 20


def test_overlapping_ranges_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'a' .* and 'b' .* overlap"):
        check_ranges([Range("b", 3, 5, 1), Range("a", 1, 3, 1)])


def test_rows_that_repeat_a_task_are_told_where_tasks_are_missing() -> None:
    drawn = draw_train(web_file(row(1), row(2), row(3, task_name="Task 1")), 3, seed=0, iteration=0)
    assert drawn.notes == [
        "tasks: only 2 instead of 3, there are no more to draw from; rows that repeat another task (subdomain, site, "
        "difficulty, instruction): 1"
    ]


def test_iterations_and_seeds_draw_differently() -> None:
    tasks = web_file(*[row(n) for n in range(200)])
    first = ids(tasks, draw_train(tasks, 20, seed=0, iteration=0))
    assert first != ids(tasks, draw_train(tasks, 20, seed=0, iteration=1))
    assert first != ids(tasks, draw_train(tasks, 20, seed=1, iteration=0))


def test_tasks_of_blocked_sites_are_left_out_of_training_only() -> None:
    rows = [row(0, website="https://www.Blocked.com/a"), row(1, website="free.com"), row(2, start_url="blocked.com/b")]
    tasks = web_file(*rows)
    drawn = draw_train(tasks, 3, seed=0, iteration=0, blocked={"blocked.com"})
    assert ids(tasks, drawn) == ["t1"]
    assert "2 tasks are left out" in drawn.notes[0]
    assert len(draw_test(tasks, 3).places) == 3


def test_tasks_that_an_earlier_sample_had_are_left_out() -> None:
    tasks = web_file(*[row(n, website="example.com") for n in range(10)])
    first = draw_train(tasks, 6, seed=0, iteration=0)
    Path("tasks.jsonl").write_text("".join(json.dumps(tasks.entry(place)) + "\n" for place in first.places))
    second = draw_train(tasks, 6, seed=0, iteration=1, used=set(WebTaskFile(Path("tasks.jsonl")).keys))
    assert len(second.places) == 4
    assert not set(ids(tasks, first)) & set(ids(tasks, second))


@pytest.mark.parametrize(("size", "expected"), [(2, ["t1", "t0"]), (0, ["t2", "t1", "t0"]), (-1, ["t2", "t1", "t0"])])
def test_test_tasks_are_the_first_rows_hardest_first(size: int, expected: list[str]) -> None:
    tasks = web_file(row(0, 1), row(1, 5), row(2, 9))
    assert ids(tasks, draw_test(tasks, size)) == expected


def test_equal_difficulty_keeps_the_order_of_the_file() -> None:
    tasks = web_file(*[row(n, 3) for n in range(5)])
    assert ids(tasks, draw_test(tasks, 0)) == ["t0", "t1", "t2", "t3", "t4"]


def test_ordinary_lines_and_the_seeds_stand_side_by_side() -> None:
    ordinary = {
        "id": "own",
        "messages": [{"role": "user", "content": "Do it"}],
        "task_info": {"website": "http://shop.test/", "difficulty": 4},
    }
    tasks = web_file(row(0), ordinary, {**ordinary, "id": "bad", "task_info": {"difficulty": 1}}, {"id": "worse"})
    assert tasks.ids == ["t0", "own"]
    assert tasks.domains[1] == ("shop.test",)
    assert [problem.where for problem in tasks.problems] == ["train.jsonl:3", "train.jsonl:4"]
    assert "task_info.website" in str(tasks.problems[0])
    assert tasks.entry(1) == ordinary
    assert tasks.read(0).info["rubric"] == [{"description": "fact", "difficulty": 1}]
