"""`run.marks`, and trajectories with their marks, as a program uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rollout
from rollout.store.run_dir import MARKS
from tests.api.shop import busy_shop, seller


@pytest.fixture
def run() -> rollout.Run:
    return rollout.run(busy_shop, model=seller, progress=False, run_dir="run", limit=3)


def test_marks_are_added_listed_and_removed(run: rollout.Run) -> None:
    first, second = run.trajectories[:2]
    good = run.marks.add(first, "good", author="ann")
    note = run.marks.add(second.id, "note", text="look again", message=1)
    assert isinstance(good, rollout.PersonMark)
    assert list(run.marks) == [good, note]
    assert len(run.marks) == 2
    assert run.marks.of(second) == run.marks.of(second.id) == [note]
    assert (note.dataset, note.id, note.message, note.text) == ("busy", second.id, 1, "look again")
    assert run.marks.remove(good.number) == good
    assert list(rollout.load_run("run").marks) == [note]


def test_a_program_finds_trajectories_by_their_marks(run: rollout.Run) -> None:
    first, second, third = run.trajectories
    run.marks.add(first, "good", author="ann")
    run.marks.add(second, "bad", author="bob")
    run.marks.add(third, "label", text="slow", message=1, author="bob")
    every = run.trajectories
    assert every.where(mark="good").ids == [first.id]
    assert every.where(mark=["good", "bad"]).ids == [first.id, second.id]
    assert every.where(no_mark="bad").ids == [first.id, third.id]
    assert every.where(label="slow", author=["ann", "bob"]).ids == [third.id]
    assert every.where(author="bob", success=True).ids == [second.id, third.id]
    assert every.where(lambda found: any(mark.text == "slow" for mark in found.person_marks)).ids == [third.id]
    with pytest.raises(rollout.ConfigError, match="there are good, bad, note, label, verdict"):
        every.where(mark="fine")
    with pytest.raises(TypeError, match="where: mark: expected a text or several, got 3"):
        every.where(mark=3)  # type: ignore[arg-type]


def test_a_verdict_is_a_score_wherever_a_trajectory_is_read(run: rollout.Run) -> None:
    before = run.trajectories[0]
    run.marks.add(before, "verdict", value=0, author="ann")
    read = [
        run.trajectories[0],
        next(iter(run.trajectories)),
        run.trajectories.where(mark="verdict")[0],
        run.tree(before.task_id).trajectories[0],
        run.read_trajectory("busy", before.id),
    ]
    assert [found.score("person").value for found in read] == [0.0] * 5  # type: ignore[union-attr]
    assert before.score("person") is None
    assert [found.success for found in read] == [True] * 5
    assert run.solved == 3, "the run's figures stay those of its scorers"
    assert (
        json.loads(Path("run/outputs/busy.jsonl").read_text().splitlines()[0])["metadata"]["scores"][0]["name"]
        == "filled"
    )


def test_what_cannot_be_marked_is_refused(run: rollout.Run) -> None:
    first = run.trajectories[0]
    with pytest.raises(rollout.ConfigError, match="no trajectory 't' has ended"):
        run.marks.add("t", "good")
    with pytest.raises(rollout.ConfigError, match=r"there is no message 99; it has messages 0 to \d"):
        run.marks.add(first, "bad", message=99)
    with pytest.raises(rollout.ConfigError, match="there is no kind 'great'"):
        run.marks.add(first, "great")
    assert not (run.path / MARKS).exists()


def test_trajectories_are_marked_while_the_run_goes_on() -> None:
    """The program that rolls out may mark what has ended."""
    marked = []
    with rollout.stream(busy_shop, model=seller, run_dir="run", limit=3, ahead=1) as groups:
        for group in groups:
            live = rollout.load_run("run")
            marked += [live.marks.add(found, "good", author="ann").id for found in group.trajectories]
    run = rollout.load_run("run")
    assert sorted(marked) == sorted(run.trajectories.where(mark="good").ids) == ["t0", "t1", "t2"]
