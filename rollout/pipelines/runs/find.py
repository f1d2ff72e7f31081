"""Finding trajectories of a run, or of a file of them, by what a person types."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.pipelines.people.marked import MarkedRun, with_marks
from rollout.pipelines.runs.transcript import Transcript, make_transcript, read_filtered
from rollout.store.reading.counting import TrajectoryKey
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.reading.trees import read_tree
from rollout.trajectories.person_marks import MarkSelection
from rollout.trajectories.saved import BadLine, read_saved_file
from rollout.trajectories.stop import STATUSES, Status
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import RolloutTree

MOST_NAMED = 12
"""Ids that an error names."""


class TrajectoryWish(msgspec.Struct, frozen=True, kw_only=True):
    """Which trajectories are wanted. All that is given must hold."""

    name: str | None = None
    """The id of a trajectory, the beginning of one, or the id of a task."""
    datasets: Sequence[str] = ()
    """One of these; any, where there are none. So with `statuses`."""
    statuses: Sequence[str] = ()
    is_unsolved: bool = False
    """Only those that the scorers found not solved."""
    people: MarkSelection = MarkSelection()
    """What people marked."""
    is_random: bool = False
    most: int = 1

    def refuse_unknown_status(self) -> None:
        """Raise ConfigError for a status that does not exist."""
        for status in self.statuses:
            if status not in Status.__members__.values():
                raise ConfigError(f"--status {status}: there is no such status; there are: {', '.join(STATUSES)}")

    def describe(self) -> str:
        """The wish in words, for what is said where nothing fits."""
        parts = [
            "unsolved" if self.is_unsolved else "",
            f"of status {' or '.join(self.statuses)}" if self.statuses else "",
            f"in the dataset {' or '.join(self.datasets)}" if self.datasets else "",
            self.people.describe(),
        ]
        return " ".join(part for part in parts if part)


class FoundTrajectory(msgspec.Struct, frozen=True):
    """A trajectory with what is shown of it."""

    dataset: str
    trajectory: Trajectory
    transcript: Transcript
    others: tuple[str, ...] = ()
    """The ids of the other attempts at its task, where they are known."""


def find_trajectories(place: Path, wish: TrajectoryWish) -> Iterator[FoundTrajectory]:
    """The wanted trajectories of a run directory or of a file of trajectories. Raises ConfigError where none fits, or
    where a beginning of an id fits attempts at several tasks."""
    wish.refuse_unknown_status()
    return _in_file(place, wish) if place.is_file() else _in_run(place, wish)


def _in_run(run_dir: Path, wish: TrajectoryWish) -> Iterator[FoundTrajectory]:
    with open_reader(run_dir) as journal:
        known = journal.datasets()
        if unknown := [name for name in wish.datasets if name not in known]:
            raise ConfigError(f"{run_dir}: has no dataset {unknown[0]!r}; there are: {', '.join(known)}")
        marked = MarkedRun(run_dir) if wish.people.is_given else None
        choose = _chosen_keys if wish.name is None else _named_keys
        keys = choose(run_dir, journal, wish, marked)
        if not keys:
            what = wish.describe()
            raise ConfigError(f"{run_dir}: no trajectory {what or 'has ended yet'}".rstrip())
        for key in keys:
            recorded = journal.trajectory(key.dataset, key.id)
            assert recorded is not None
            found = with_marks(recorded, run_dir, key.dataset)
            filtered = read_filtered(run_dir, key.dataset, recorded)
            attempts = journal.task_keys(key.dataset, key.task_id)
            others = tuple(attempt.id for attempt in attempts if attempt.id != key.id)
            yield FoundTrajectory(key.dataset, found, make_transcript(found, filtered), others)


def _chosen_keys(
    run_dir: Path, journal: JournalReader, wish: TrajectoryWish, marked: MarkedRun | None
) -> list[TrajectoryKey]:
    keys = journal.choose_keys(
        datasets=wish.datasets,
        statuses=wish.statuses,
        is_unsolved=wish.is_unsolved,
        is_random=wish.is_random,
        most=wish.most if marked is None else None,
    )
    return [key for key in keys if _is_marked(key, wish, marked)][: wish.most]


def _is_marked(key: TrajectoryKey, wish: TrajectoryWish, marked: MarkedRun | None) -> bool:
    """Whether people marked a trajectory as it is wanted."""
    return marked is None or wish.people.reason_against(marked.of(key.dataset, key.id)) is None


def _named_keys(
    run_dir: Path, journal: JournalReader, wish: TrajectoryWish, marked: MarkedRun | None
) -> list[TrajectoryKey]:
    """The attempts that a name means: of several at one task, the first that fit."""
    assert wish.name is not None
    keys = journal.find_keys(wish.name, wish.datasets)
    if not keys:
        raise ConfigError(f"{run_dir}: no trajectory and no task has the id {wish.name!r} or one that begins with it")
    _refuse_several(str(run_dir), wish.name, [(key.dataset, key.task_id) for key in keys])
    fitting = [key for key in fitting_keys(journal, keys, wish) if _is_marked(key, wish, marked)]
    if not fitting:
        raise ConfigError(f"{run_dir}: no attempt at {wish.name!r} is {wish.describe()}")
    if wish.is_random:
        fitting = random.sample(fitting, len(fitting))
    return fitting[: wish.most]


def fitting_keys(journal: JournalReader, keys: Sequence[TrajectoryKey], wish: TrajectoryWish) -> list[TrajectoryKey]:
    """Those of some trajectories that are as they are wanted, apart from what people marked."""
    return [
        key
        for key in keys
        if (not wish.statuses or key.status in wish.statuses)
        and not (wish.is_unsolved and (key.success or not _is_scored(journal, key)))
    ]


def _is_scored(journal: JournalReader, key: TrajectoryKey) -> bool:
    found = journal.head(key.dataset, key.id)
    return found is not None and found[0].scored


def _refuse_several(place: str, name: str, tasks: list[tuple[str, str]]) -> None:
    """Raise ConfigError where a name means several tasks, each given with its dataset."""
    if len(set(tasks)) > 1:
        several = {dataset for dataset, _ in tasks}
        ids = list(dict.fromkeys(task for _, task in tasks))
        named = ", ".join(ids[:MOST_NAMED]) + (f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else "")
        alike = len({task for _, task in tasks}) == 1
        advice = f"; several datasets have it, name one by --dataset: {', '.join(sorted(several))}" if alike else ""
        raise ConfigError(f"{place}: {name!r} means several tasks: {named}{advice}")


def _in_file(path: Path, wish: TrajectoryWish) -> Iterator[FoundTrajectory]:
    """The same in a JSONL file, which is read to its end only where it has to be."""
    fitting = (line for line in _lines(path) if _fits(line, wish))
    found: list[Trajectory] = []
    if wish.name is not None:
        found = _of_name(path, wish.name, list(fitting))
    elif wish.is_random:
        drawn = list(fitting)
        found = random.sample(drawn, min(wish.most, len(drawn)))
    else:
        for line in fitting:
            found.append(line)
            if len(found) == wish.most:
                break
    if not found:
        raise ConfigError(f"{path}: holds no trajectory {wish.describe()}".rstrip())
    others = tuple(line.id for line in found[wish.most :])
    for line in found[: wish.most]:
        try:
            yield FoundTrajectory(line.dataset, line, make_transcript(line), others)
        except BadLine as error:
            raise ConfigError(f"{path}: {line.id}: {error}") from error


def _lines(path: Path) -> Iterator[Trajectory]:
    for where, line in read_saved_file(path):
        if isinstance(line, BadLine):
            raise ConfigError(f"{where}: {line}")
        yield line


def _fits(line: Trajectory, wish: TrajectoryWish) -> bool:
    if wish.datasets and line.dataset not in wish.datasets:
        return False
    if wish.statuses and line.status not in wish.statuses:
        return False
    if wish.is_unsolved and (line.success or not line.scored):
        return False
    if wish.people.reason_against(line.person_marks) is not None:
        return False
    return wish.name is None or line.id.startswith(wish.name) or line.task_id.startswith(wish.name)


def _of_name(path: Path, name: str, lines: list[Trajectory]) -> list[Trajectory]:
    for found in (
        [line for line in lines if line.id == name],
        [line for line in lines if line.task_id == name],
        [line for line in lines if line.id.startswith(name)],
    ):
        if found:
            _refuse_several(str(path), name, [(line.dataset, line.task_id) for line in found])
            return found
    raise ConfigError(f"{path}: no trajectory and no task has the id {name!r} or one that begins with it")


def find_tree(run_dir: Path, task: str, datasets: Sequence[str] = ()) -> RolloutTree:
    """The tree of a task, by its id or the beginning of it. Raises ConfigError where there is none, or several."""
    with open_reader(run_dir) as journal:
        found = journal.find_tasks(task, datasets)
        if not found:
            where = f"the dataset {' or '.join(map(repr, datasets))}" if datasets else "it"
            raise ConfigError(f"{run_dir}: no task of {where} has the id {task!r} or one that begins with it")
        _refuse_several(str(run_dir), task, found)
        [(owner, name)] = found
        tree = read_tree(journal, owner, name)
        assert tree is not None
        return tree
