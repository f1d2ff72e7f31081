"""Marking trajectories of a run: the same for programs, the command line and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.pipelines.people.author import author_name
from rollout.store.marks import MarksFile
from rollout.store.reading.counting import TrajectoryKey
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import PEOPLE, RUN_FILE
from rollout.trajectories.person_marks import PersonMark
from rollout.trajectories.trajectory import Trajectory

MOST_NAMED = 8
"""Ids that an error lists."""


class RunMarks:
    """The marks that people set on the trajectories of a run. Iterating gives all of them, by number.

    They are kept in `<run>/marks.db`. Several people may mark at once, also while the run goes on.
    """

    def __init__(self, run_dir: Path) -> None:
        self._file = MarksFile(run_dir)
        self.path = self._file.path
        """The file that holds them. It is created with the first mark."""

    def __repr__(self) -> str:
        return f"<{len(self)} marks of {self.path.parent}>"

    def __iter__(self) -> Iterator[PersonMark]:
        return iter(self._file.all())

    def __len__(self) -> int:
        return len(self._file.all())

    def add(
        self,
        trajectory: Trajectory | str,
        kind: str,
        *,
        text: str | None = None,
        value: float | None = None,
        message: int | None = None,
        author: str | None = None,
        dataset: str | None = None,
    ) -> PersonMark:
        """Set a mark on a trajectory, or on the message at the index `message`.

        `trajectory` is a `Trajectory` or an id; `dataset` is needed only if several datasets have that id. `kind` is
        `good`, `bad`, `note` (with a `text`), `label` (`text` is its name) or `verdict` (`value` from 0, not solved, to
        1, solved); `text` may also be the reason for a `good`, a `bad` or a verdict. `author` defaults to the login
        name.

        On the same place, an author's `good` replaces `bad` and vice versa, and a verdict replaces the earlier
        one. Raises `ConfigError` if there is no such trajectory or message or the mark makes no sense, and
        `JournalError` if the run directory cannot be written.
        """
        if isinstance(trajectory, Trajectory):
            dataset = dataset or trajectory.dataset or None
            trajectory = trajectory.id
        key = find_marked(self.path.parent, trajectory, () if dataset is None else (dataset,), is_exact=True)
        if message is not None:
            _refuse_unknown_message(self.path.parent, key, message)
        return self._file.add(
            key.dataset, key.id, kind, author=author_name(author), message=message, value=value, text=text
        )

    def remove(self, number: int) -> PersonMark:
        """Remove the mark with this number, and return it. Raises `ConfigError` if there is none."""
        return self._file.remove(number)

    def of(self, trajectory: Trajectory | str, dataset: str | None = None) -> list[PersonMark]:
        """The marks of one trajectory and of its messages."""
        if isinstance(trajectory, Trajectory):
            dataset = dataset or trajectory.dataset or None
            trajectory = trajectory.id
        if dataset is not None:
            return self._file.of(dataset, trajectory)
        return [mark for mark in self._file.all() if mark.id == trajectory]


def find_marked(run_dir: Path, name: str, datasets: Sequence[str] = (), *, is_exact: bool = False) -> TrajectoryKey:
    """The trajectory of a run, or of what people added to it, that a name means: an id, the beginning of one, or the id
    of a task with a single attempt. `datasets`: only in these; empty: in all. `is_exact`: only by its id. Raises
    ConfigError if there is none, or several."""
    by_place: dict[tuple[str, str], TrajectoryKey] = {}
    for folder in _folders(run_dir):
        with open_reader(folder) as journal:
            by_place |= {(key.dataset, key.id): key for key in journal.find_keys(name, datasets)}
    found = list(by_place.values())
    exact = [key for key in found if key.id == name]
    found = exact if exact or is_exact else found
    if not found:
        raise ConfigError(f"{run_dir}: no trajectory {name!r} has ended; expected an id as `rollout show` prints it")
    if len(found) > 1:
        owners = sorted({key.dataset for key in found})
        named = ", ".join(key.id for key in found[:MOST_NAMED])
        advice = "give the whole id" if len(owners) == 1 else f"name the dataset: {', '.join(owners)}"
        raise ConfigError(f"{run_dir}: {name!r} means several trajectories ({named}); {advice}")
    return found[0]


def read_marked(run_dir: Path, key: TrajectoryKey) -> Trajectory:
    """A trajectory that `find_marked` found, as it was recorded."""
    for folder in _folders(run_dir):
        with open_reader(folder) as journal:
            if (found := journal.trajectory(key.dataset, key.id)) is not None:
                return found
    raise ConfigError(f"{run_dir}: the trajectory {key.id!r} is gone; the run was started again")


def message_of_step(trajectory: Trajectory, step: int) -> int:
    """The index of the message of a step, counted from 1 as `rollout show` does. Raises ConfigError."""
    answers = [place for place, message in enumerate(trajectory.messages) if message.role == "assistant"]
    if not 1 <= step <= len(answers):
        raise ConfigError(f"{trajectory.id}: there is no step {step}; it has steps 1 to {len(answers)}")
    return answers[step - 1]


def _folders(run_dir: Path) -> Iterator[Path]:
    """The run directory, and what people added to its attempts."""
    yield run_dir
    if (run_dir / PEOPLE / RUN_FILE).is_file():
        yield run_dir / PEOPLE


def _refuse_unknown_message(run_dir: Path, key: TrajectoryKey, message: int) -> None:
    count = len(read_marked(run_dir, key).messages)
    if isinstance(message, int) and not 0 <= message < count:
        raise ConfigError(f"{key.id}: there is no message {message}; it has messages 0 to {count - 1}")
