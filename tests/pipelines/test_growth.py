"""Cost is linear: four times the trajectories take about four times the work, counted in steps and not in seconds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generated import generate
from rollout.config import load_config
from rollout.core.messages import Message
from rollout.pipelines.run import open_run
from rollout.store.reading.reader import open_reader
from rollout.trajectories.merging import Merged, UniqueNames
from tests.trajectories.lines import example as make_example

FEW, MANY = 100, 400
MOST = 1.35 * MANY / FEW
"""A sort adds a logarithm, a quadratic join would give 16."""


class StepCounter:
    """Counts the instructions of SQLite's machine in every connection that is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        real = sqlite3.connect

        def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = real(*args, **kwargs)
            connection.set_progress_handler(self._count, 10)
            return connection

        monkeypatch.setattr(sqlite3, "connect", connect)

    def _count(self) -> int:
        self.steps += 1
        return 0

    def of(self, work: Callable[[], object]) -> int:
        before = self.steps
        work()
        return self.steps - before


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Finished runs, by their number of trajectories."""
    folder = tmp_path_factory.mktemp("runs")
    return {number: generate(folder / str(number), number) for number in (FEW, MANY)}


def resume(config_path: Path) -> None:
    config = load_config(config_path)

    async def run() -> None:
        assert config.run_dir is not None
        async with open_run(config, config.run_dir, resume=True) as opened:
            await opened.engine.run()

    asyncio.run(run())


def test_resuming_a_finished_run_costs_in_proportion_to_its_size(
    runs: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = StepCounter(monkeypatch)
    few, many = (counter.of(lambda path=path: resume(path)) for path in runs.values())
    assert many < MOST * few


def test_finding_the_attempts_of_each_task_costs_in_proportion_to_the_tasks(
    runs: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = StepCounter(monkeypatch)

    def find(config: Path) -> None:
        with open_reader(config.parent / "run") as reader:
            for task in sorted(reader.begun_tasks("big")):
                assert len(reader.saved_leaves("big", task)[1]) == 4

    few, many = (counter.of(lambda path=path: find(path)) for path in runs.values())
    assert many < MOST * few


def test_what_unfinished_attempts_cost_is_counted_once(tmp_path: Path) -> None:
    config = generate(tmp_path / "half", FEW, finished=0.5)
    with open_reader(config.parent / "run") as reader:
        counted = sum(count.sums.cost for count in reader.counts())
        paid = counted + reader.uncounted_cost()
        spent = sum(
            body.generation.cost
            for (episode,) in sqlite3.connect(config.parent / "run" / "journal.db").execute("SELECT id FROM episodes")
            for body in reader.nodes(episode)
            if body.generation is not None
        )
    assert paid == pytest.approx(spent)
    assert paid > 0


def test_ten_thousand_equal_ids_are_told_apart_without_trying_all_names() -> None:
    names = UniqueNames()
    taken = [names.take("same", "run") for _ in range(10_000)]
    assert taken[:3] == ["same", "same@run", "same@run.2"]
    assert taken[-1] == "same@run.9999"
    assert names.take("same@run.5", "other") == "same@run.5@other"


def test_a_trajectory_that_a_third_run_repeats_is_a_duplicate() -> None:
    merged = Merged()

    def admit(text: str, run: str) -> str | None:
        example = make_example([Message(role="user", content=text)], id="t")
        admitted = merged.admit(example, run)
        return None if admitted is None else admitted.id

    assert [admit("one", "a"), admit("two", "b"), admit("two", "c"), admit("one", "c")] == ["t", "t@b", None, None]
