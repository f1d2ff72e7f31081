"""Samples that are added to a run belong to the same groups as the first ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import rollout
from tests.api.shop import Cart, order, seller, shop

RUN = Path("run")
JOURNAL = RUN / "journal.db"


def roll_out(samples: int, **more: object) -> rollout.Run:
    return rollout.run(shop, model=seller, samples=samples, run_dir=RUN, progress=False, **more)  # type: ignore[arg-type]


def numbers(tree: rollout.TaskTree) -> list[str]:
    return [attempt.id for attempt in tree.trajectories]


class DearScorer:
    """A scorer whose judge costs a lot."""

    name = "dear"

    async def score(self, task: rollout.Task, trajectory: rollout.Trajectory, world: rollout.World) -> rollout.Score:
        verdict = rollout.Generation(rollout.Message(role="assistant", content="Good."), "stop", cost=0.3)
        return rollout.Score(self.name, 1.0, asked=(verdict,))


def split_as_earlier_versions_did() -> None:
    """Have the attempts from number 2 on in a second tree, as the journals of earlier versions do."""
    with sqlite3.connect(JOURNAL) as journal:
        journal.execute("INSERT INTO trees SELECT max(id) + 1, dataset, task, opening FROM trees")
        late = "trajectory LIKE '%~2' OR trajectory LIKE '%~3'"
        journal.execute(f"UPDATE episodes SET tree = (SELECT max(id) FROM trees) WHERE {late}")
    journal.close()


def streamed(samples: int) -> list[list[str]]:
    with rollout.stream(shop, model=seller, samples=samples, run_dir=RUN, progress=False) as groups:
        return [[attempt.id for attempt in group.trajectories] for group in groups]


def test_the_tree_of_a_task_has_the_added_samples() -> None:
    roll_out(2)
    run = roll_out(4)
    assert numbers(run.tree("t1")) == ["t1", "t1~1", "t1~2", "t1~3"]


def test_the_tree_of_a_task_is_whole_while_samples_are_added() -> None:
    looks = False
    seen: list[list[str]] = []

    async def looking(request: rollout.Request) -> object:
        if looks:
            seen.append(numbers(rollout.load_run(RUN).tree("t1")))
        return await seller(request)

    rollout.run(shop, model=looking, samples=2, run_dir=RUN, progress=False)
    looks = True
    rollout.run(shop, model=looking, samples=3, run_dir=RUN, progress=False)
    assert seen[0] == ["t1", "t1~1"]


def test_a_run_that_was_paused_between_attempts_keeps_one_tree_for_each_task() -> None:
    # Scoring costs something: the budget is used up when an attempt has ended, and no other has begun.
    dear = rollout.Environment(tasks=[order("t0"), order("t1")], world=Cart, scorers=[DearScorer()])

    def go_on(**config: object) -> rollout.Run:
        config["max_workers"] = 1
        return rollout.run(dear, model=seller, samples=4, run_dir=RUN, progress=False, config=config)

    assert len(go_on(max_cost=0.5).trajectories) == 2
    whole = go_on()
    assert [len(whole.tree(task).trajectories) for task in ("t0", "t1")] == [4, 4]


def test_a_stream_over_added_samples_gives_whole_groups() -> None:
    roll_out(2)
    roll_out(4)
    assert streamed(4) == [["t1", "t1~1", "t1~2", "t1~3"]]


def test_a_run_that_an_earlier_version_split_is_read_whole() -> None:
    roll_out(4)
    split_as_earlier_versions_did()
    assert numbers(rollout.load_run(RUN).tree("t1")) == ["t1", "t1~1", "t1~2", "t1~3"]
    assert streamed(5) == [["t1", "t1~1", "t1~2", "t1~3", "t1~4"]]
    assert numbers(rollout.load_run(RUN).tree("t1")) == ["t1", "t1~1", "t1~2", "t1~3", "t1~4"]


def test_attempts_at_other_words_stay_apart() -> None:
    def said(words: str) -> rollout.Environment:
        return rollout.Environment(tasks=[rollout.Task("t1", words)], name="shop")

    def run(words: str, samples: int) -> rollout.Run:
        return rollout.run(said(words), model=seller, samples=samples, run_dir=RUN, progress=False)

    run("Hello.", 1)
    assert numbers(run("Good morning.", 2).tree("t1")) == ["t1~1"]


@pytest.mark.parametrize("samples", [1, 2])
def test_a_run_that_is_done_begins_no_tree(samples: int) -> None:
    roll_out(samples)
    roll_out(samples)
    with sqlite3.connect(JOURNAL) as journal:
        assert journal.execute("SELECT count(*) FROM trees").fetchone() == (1,)
    journal.close()
