"""Scoring a finished run again, without rolling out: from the journal's record, on fresh worlds.

The recorded calls are made again on a world of the same seed, each answer compared with the record, and the panel
judges what comes out. A trajectory whose replay differs is unscored and says so. Nothing of the run is changed: the
scores are marks beside it.

Browsers are not opened again: a site is not what it was. What was scored in the live page is carried over from the
record and marked so; answers, rubrics and blocking are looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.config.schema import Config
from rollout.core.errors import ReplayMismatch, WorldError
from rollout.core.messages import JSON, has_words
from rollout.core.task import Task
from rollout.engine.outcome import UNSCORED
from rollout.environments.empty import EmptyWorld
from rollout.models.registry import Registry
from rollout.pipelines.wiring.datasets import Wired, open_wired, refuse_problems
from rollout.scoring.panel import Verdict
from rollout.scoring.replay import replay_all
from rollout.store.files.run_file import recorded_part
from rollout.store.reading.reader import JournalReader
from rollout.trajectories.passk import PassK, pass_table
from rollout.trajectories.stop import WORDLESS_ENDS, StopReason
from rollout.trajectories.trajectory import Trajectory

AT_ONCE = 32


class Rescored(msgspec.Struct, frozen=True):
    """One trajectory, scored again."""

    dataset: str
    recorded: Trajectory
    verdict: Verdict
    success: bool
    replayed: bool
    """Whether the world was brought back by its calls; no need where it has no tables."""

    def line(self) -> bytes:
        """The mark, as one JSON line."""
        recorded, verdict = self.recorded, self.verdict
        return (
            msgspec.json.encode(
                {
                    "id": recorded.id,
                    "task_id": recorded.task_id,
                    "dataset": self.dataset,
                    "status": recorded.status,
                    "success": self.success,
                    "scored": verdict.scored,
                    "unscored": verdict.unscored,
                    "scores": [score.record() for score in verdict.scores],
                    "replayed": self.replayed,
                    "recorded": {"success": recorded.success, "scored": recorded.scored},
                    "cost": round(sum(generation.cost for generation in verdict.asked), 9),
                }
            )
            + b"\n"
        )


class ScorerSums(msgspec.Struct):
    """What one scorer said of a dataset."""

    checked: int = 0
    unchecked: int = 0
    value: float = 0.0
    partial: float = 0.0
    partials: int = 0
    decided: int = 0
    carried: int = 0
    """Those that were taken from the record."""


class ScoreTable(msgspec.Struct):
    """The sums of one dataset."""

    trajectories: int = 0
    scored: int = 0
    solved: int = 0
    changed: int = 0
    """Those whose verdict is not the recorded one."""
    unscored: Counter[str] = msgspec.field(default_factory=Counter)
    """Why, and how often."""
    scorers: dict[str, ScorerSums] = msgspec.field(default_factory=dict)
    groups: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    cost: float = 0.0

    def add(self, one: Rescored) -> None:
        """Take a trajectory in."""
        recorded, verdict = one.recorded, one.verdict
        self.trajectories += 1
        self.scored += verdict.scored
        self.solved += verdict.scored and one.success
        self.changed += (recorded.scored, recorded.success) != (verdict.scored, one.success)
        self.cost += sum(generation.cost for generation in verdict.asked)
        if verdict.unscored is not None:
            self.unscored[verdict.unscored] += 1
        attempts, solved = self.groups.get(recorded.task_id, (0, 0))
        self.groups[recorded.task_id] = (attempts + verdict.scored, solved + (verdict.scored and one.success))
        for score in verdict.scores:
            sums = self.scorers.setdefault(score.name, ScorerSums())
            sums.decided += score.decides
            sums.carried += score.is_carried
            if score.value is None:
                sums.unchecked += 1
            else:
                sums.checked += 1
                sums.value += score.value
            if score.partial is not None:
                sums.partials += 1
                sums.partial += score.partial

    def to_json(self) -> JSON:
        """The sums as plain data, for programs."""
        kept = {name: getattr(self, name) for name in ("trajectories", "scored", "solved", "changed", "cost")}
        scorers = {name: msgspec.to_builtins(sums) for name, sums in self.scorers.items()}
        unscored = dict(self.unscored.most_common())
        return {**kept, "unscored": unscored, "scorers": scorers, "pass_k": msgspec.to_builtins(self.pass_k())}

    def pass_k(self) -> list[PassK]:
        """pass@k and pass^k over the attempts at each task."""
        return pass_table(self.groups.values())


def changed_tasks(run_dir: Path, scorings: Sequence[DatasetScoring]) -> list[str]:
    """The datasets whose tasks are not those that the run was made with."""
    known = recorded_part(run_dir, "datasets", dict[str, dict[str, Any]])
    if known is None:
        return []
    return [one.name for one in scorings if known.get(one.name, {}).get("fingerprint") != one.tasks.fingerprint]


async def rescore(
    reader: JournalReader, scoring: DatasetScoring, ids: Collection[str] | None = None
) -> AsyncIterator[Rescored]:
    """Score every finished trajectory of a dataset, or those with these ids, in the order of their ids. Failed ones
    have nothing to score."""
    recorded = (one for one in reader.finished(scoring.name) if ids is None or one.id in ids)
    while some := list(itertools.islice(recorded, AT_ONCE)):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(scoring.score(one)) for one in some]
        for task in tasks:
            yield task.result()


@contextlib.asynccontextmanager
async def open_scoring(config: Config, names: Sequence[str]) -> AsyncIterator[list[DatasetScoring]]:
    """Make everything ready to score these datasets; servers' processes and judges are released on leaving. Raises
    ConfigError where an environment cannot be opened, or the tasks not be read."""
    async with (
        Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local) as registry,
        open_wired(config, names, registry, is_scoring=True) as wired,
    ):
        refuse_problems([problem for one in wired for problem in one.environment_problems])
        refuse_problems([problem for one in wired if one.tasks is None for problem in one.problems])
        yield [DatasetScoring(one) for one in wired]


class DatasetScoring:
    """One dataset, ready to be scored: its tasks, its worlds and its panel; no agent and no user."""

    def __init__(self, wired: Wired) -> None:
        assert wired.environment is not None
        assert wired.opened is not None
        assert wired.tasks is not None
        assert wired.panel is not None
        self.name = wired.name
        self.wired = wired
        self.environment = wired.environment
        self.opened = wired.opened
        self.tasks = wired.tasks
        self.panel = wired.panel
        self._places = {task_id: place for place, task_id in enumerate(self.tasks.ids)}

    async def score(self, recorded: Trajectory) -> Rescored:
        """Score a trajectory that is on record."""
        reason = UNSCORED.get(StopReason(recorded.stop_reason))
        if reason is not None:
            return Rescored(self.name, recorded, Verdict(unscored=reason), False, False)
        place = self._places.get(recorded.task_id)
        if place is None:
            verdict = Verdict(unscored=f"the task is no longer in {self.tasks}", is_checkable=True)
            return Rescored(self.name, recorded, verdict, False, False)
        verdict, replayed = await self._judge(self.wired.read_task(place), recorded)
        success = verdict.is_success(recorded.status, ended_properly=_ended_properly(recorded))
        return Rescored(self.name, recorded, verdict, success, replayed)

    async def _judge(self, task: Task, recorded: Trajectory) -> tuple[Verdict, bool]:
        rescoring = self.environment.rescoring
        if rescoring != "replay":
            scores = recorded.scores if rescoring == "recorded" else None
            empty = EmptyWorld(self.opened.toolset)
            return await self.panel.judge(task, recorded, empty, recorded=scores), False
        world = self.opened.make_world(task)
        try:
            user_world = self.opened.user_world(task, world)
            irreversible = self.wired.dataset.irreversible
            await replay_all(world, task, self.wired.seed_of(task), recorded, user_world, irreversible=irreversible)
            return await self.panel.judge(task, recorded, world), True
        except (ReplayMismatch, WorldError) as error:
            return Verdict(unscored=f"the replay failed: {error}", is_checkable=True), False
        finally:
            await world.close()


def _ended_properly(recorded: Trajectory) -> bool:
    spoken = [message for message in recorded.messages if message.role == "assistant"]
    is_wordless = recorded.stop_reason in WORDLESS_ENDS
    return bool(spoken and (is_wordless or has_words(spoken[-1].content)))
