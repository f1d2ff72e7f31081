"""Several runs in one export: each trajectory once, each id once, each task in one split for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.trajectories.labels import Example
from rollout.trajectories.merging import Merged, Splits, parse_splits
from tests.trajectories.lines import example as make_example


def example(identifier: str, text: str) -> Example:
    return make_example([Message(role="user", content=text)], id=identifier)


def test_equal_ones_come_once_and_different_ones_get_the_name_of_their_run() -> None:
    merged = Merged()
    given = [
        ("a", "x", "one"),
        ("a", "x", "two"),
        ("a", "y", "two"),
        ("a", "y", "two"),
        ("a", "z", "two"),
        ("b", "x", "two"),
    ]
    found = [merged.admit(example(name, text), run) for name, text, run in given]
    assert [entry and entry.id for entry in found] == ["a", None, "a@two", None, "a@two.2", "b"]
    assert all(entry is None or entry.task_id in "ab" for entry in found), "the task stays the task"


@given(st.lists(st.text(), unique=True), st.lists(st.text(), unique=True), st.integers(0, 3))
def test_adding_tasks_moves_none(first: list[str], second: list[str], seed: int) -> None:
    splits = parse_splits("train=0.7,validation=0.2,test=0.1", seed)
    before = {task: splits.of(task) for task in first}
    after = {task: splits.of(task) for task in [*second, *first]}
    assert before.items() <= after.items()


def test_shares_are_kept_and_the_seed_changes_them() -> None:
    tasks = [f"task{number}" for number in range(5000)]
    splits = parse_splits("train=0.9, validation=0.1")
    share = sum(splits.of(task) == "train" for task in tasks) / len(tasks)
    assert 0.88 < share < 0.92
    other = parse_splits("train=0.9,validation=0.1", seed=1)
    assert any(splits.of(task) != other.of(task) for task in tasks)


def test_task_is_where_it_was_in_every_earlier_version() -> None:
    # Files that were exported long ago must not leak their validation tasks into new training files.
    splits = Splits((("train", 0.5), ("validation", 0.5)))
    assert [splits.of(task) for task in "abcdefgh"] == [
        "validation", "validation", "validation", "train", "validation", "train", "train", "train"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["train", "train=x", "train=0.5", "train=0.5,train=0.5", "=1", "../up=1", "train=1.5", ""]
)
def test_split_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--split"):
        parse_splits(text)
