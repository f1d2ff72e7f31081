"""Runs that are read back: their trajectories, trees and figures. A run may be going on meanwhile.

Everything is read from the journal when it is asked for. A list of trajectories holds only their ids; a trajectory
reads its messages, and with them its tokens, when they are first used.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from rollout.agents.viewing import requests_of
from rollout.api.tree import TaskTree
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, ToolCall
from rollout.pipelines.people.marked import MarkedRun, with_marks
from rollout.pipelines.people.marks import RunMarks
from rollout.store.files.run_file import read_run_file
from rollout.store.reading.counting import StatusCounts, TrajectoryKey
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.reading.trajectory_files import TrajectoryFiles
from rollout.store.reading.trees import read_tree
from rollout.store.run_dir import PEOPLE, RUN_FILE, find_run
from rollout.trajectories.person_marks import make_mark_selection
from rollout.trajectories.saved import read_saved
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import OPENING, Node, NodeBody, RolloutTree

T = TypeVar("T")
_LISTED = ("dataset", "status", "stop_reason", "success", "task_id", "id")
"""What the list itself knows of a trajectory."""


class Run:
    """A run directory, for reading. `rollout.run` returns one, and `load_run` opens one."""

    def __init__(self, path: Path, objects: Mapping[str, Any] | None = None) -> None:
        self.path = path
        """The run directory."""
        self._lock = threading.Lock()
        self._held = contextlib.ExitStack()
        self._files = TrajectoryFiles(path)
        self._objects = objects or {}
        """The objects of the program that made the run, for attempts that go on from its own."""
        self._journal: JournalReader | None = None
        self._kept: dict[str, tuple[int, Any]] = {}
        """What was read of the whole run, each with the version of the journal that it is of."""
        weakref.finalize(self, self._held.close)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.finished} finished, {self.failed} failed, {self.solved} solved)"

    @property
    def trajectories(self) -> Trajectories:
        """The trajectories recorded so far, by dataset in the order in which they ended. Failed ones come last."""
        return Trajectories(self, self._read_once("keys", lambda journal: journal.keys()))

    def tree(self, task_id: str, dataset: str | None = None) -> TaskTree:
        """All attempts at a task. `dataset` is needed where several datasets have a task of this id."""
        if dataset is not None and dataset not in self.datasets:
            raise KeyError(f"{self.path}: there is no dataset {dataset!r}; there are {', '.join(self.datasets)}")
        names = [dataset] if dataset is not None else self.datasets
        found = {name: tree for name in names if (tree := self._read_tree(name, task_id)) is not None}
        if not found:
            raise KeyError(f"{self.path}: no attempt at a task {task_id!r} has ended")
        if len(found) > 1:
            raise KeyError(f"{self.path}: several datasets have a task {task_id!r}; name one: {', '.join(found)}")
        [(owner, tree)] = found.items()
        return TaskTree(tree, self._files, functools.partial(with_marks, run_dir=self.path, dataset=owner))

    def _read_tree(self, dataset: str, task_id: str) -> RolloutTree | None:
        return self._read(lambda journal: read_tree(journal, dataset, task_id))

    @property
    def datasets(self) -> list[str]:
        """The names of its datasets or environments."""
        return self._read(lambda journal: journal.datasets())

    @property
    def config(self) -> JSON:
        """The configuration it was started with, without secrets."""
        found: JSON = read_run_file(self.path).get("config") or {}
        return found

    # ---- what people add ----------------------------------------------------------------------------------------

    @property
    def people(self) -> Run | None:
        """What people added to the attempts of this run (corrections, branches, conversations that they took part in),
        as a run of its own; None if there is nothing. It is part of no group, rate or resume of this run."""
        folder = self.path / PEOPLE
        return Run(folder, self._objects) if (folder / RUN_FILE).is_file() else None

    @property
    def marks(self) -> RunMarks:
        """The marks that people set on its trajectories: `run.marks.add(trajectory, "good")`. They can be set while the
        run goes on. Verdicts are the score `person` of a trajectory that is read."""
        return RunMarks(self.path)

    def correct(
        self,
        trajectory: Trajectory | str,
        message: int,
        instead: str | Message | None = None,
        *,
        calls: Sequence[ToolCall | Mapping[str, Any]] = (),
        reasoning: str | None = None,
        author: str | None = None,
        dataset: str | None = None,
    ) -> Trajectory:
        """Add what an answer of the agent should have been. Returns the attempt that ends there; the original stays.

        `message` is the place of the answer in the trajectory's messages, `instead` the right words or a whole
        message, `calls` the right tool calls, each a `ToolCall` or a dict with `name` and `arguments`. `author`
        defaults to the login name. Go on from there with `grow`.
        """
        from rollout.api.people import correct_message

        owner, identifier = self._named(trajectory, dataset)
        added = correct_message(self.path, owner, identifier, message, instead, calls, reasoning, author)
        return self._added(owner, added)

    def grow(
        self,
        step: Trajectory | str | Node,
        message: int | None = None,
        *,
        n: int = 1,
        model: Any = None,
        user_model: Any = None,
        temperature: float | None = None,
        author: str | None = None,
        dataset: str | None = None,
        config: str | os.PathLike[str] | None = None,
    ) -> list[Trajectory]:
        """Grow `n` attempts that go on from a step, and wait for them.

        `step` is a trajectory, or its id, with the `message` after which to go on, by default its last one (of a
        correction). Or it is a node of `tree(…).nodes`. `model`, `user_model` and `temperature` replace those of the
        run. The world is brought there by making the recorded calls again. `config` is the run's YAML file, needed
        where it holds keys that the environment and the registry of models do not have.

        Raises `ConfigError` where nothing can go on from there.
        """
        from rollout.api.people import grow_attempts

        if isinstance(step, Node):
            step, message, dataset = self._locate(step, dataset)
        owner, identifier = self._named(step, dataset)
        if message is None:
            message = len(self._find_run(owner, identifier).read_trajectory(owner, identifier).messages) - 1
        models = {"model": model, "user_model": user_model}
        grown = grow_attempts(
            self.path, owner, identifier, message, n, temperature, author, models, self._objects, config
        )
        return [self._added(owner, each) for each in grown]

    def resume_growths(self, *, config: str | os.PathLike[str] | None = None) -> list[Trajectory]:
        """Finish the attempts of `grow` that were interrupted."""
        from rollout.api.people import resume_growths

        return [self._added(owner, each) for owner, each in resume_growths(self.path, self._objects, config)]

    def _added(self, dataset: str, trajectory: str) -> Trajectory:
        return self._find_run(dataset, trajectory).read_trajectory(dataset, trajectory)

    def _find_run(self, dataset: str, trajectory: str) -> Run:
        """Who has this trajectory: this run, or what people added to it."""
        people = self.people
        is_added = people is not None and people._read(lambda journal: journal.head(dataset, trajectory)) is not None
        return people if people is not None and is_added else self

    def _named(self, trajectory: Trajectory | str, dataset: str | None) -> tuple[str, str]:
        """The dataset and id of an attempt of this run."""
        if isinstance(trajectory, Trajectory):
            return dataset or trajectory.dataset, trajectory.id
        names = [dataset] if dataset is not None else self.datasets
        found = [name for name in names if self._find_run(name, trajectory)._has(name, trajectory)]
        if len(found) != 1:
            why = "no attempt has this id" if not found else f"several datasets have it; name one: {', '.join(found)}"
            raise ConfigError(f"{self.path}: {trajectory!r}: {why}")
        return found[0], trajectory

    def _has(self, dataset: str, trajectory: str) -> bool:
        return self._read(lambda journal: journal.head(dataset, trajectory)) is not None

    def _locate(self, node: Node, dataset: str | None) -> tuple[str, int, str]:
        """An attempt that goes through a node, the place of the node's last message in it, and its dataset."""
        if node.episode == OPENING:
            raise ConfigError("the node belongs to the task's opening; expected one that an attempt added")
        found = self._read(lambda journal: journal.owner_of(node.episode))
        if found is None:
            raise ConfigError(f"{self.path}: {node} is of no attempt of this run that has ended")
        owner, trajectory = found
        return trajectory, sum(each.body.said is not None for each in node.path()) - 1, dataset or owner

    # ---- figures ------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> int:
        """Trajectories that did not fail."""
        return sum(count.trajectories for count in self._counts() if count.status != Status.FAILED)

    @property
    def failed(self) -> int:
        """Trajectories that failed because of infrastructure."""
        return sum(count.trajectories for count in self._counts() if count.status == Status.FAILED)

    @property
    def scored(self) -> int:
        """Finished trajectories with a verdict."""
        return sum(count.sums.scored for count in self._counts() if count.status != Status.FAILED)

    @property
    def solved(self) -> int:
        """Trajectories that their scorers judged as solved."""
        return sum(count.solved for count in self._counts() if count.status != Status.FAILED)

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the trajectories that have one; None where none has."""
        return self._read_once("mean_reward", lambda journal: journal.mean_reward())

    @property
    def cost(self) -> float:
        """What its models cost, in dollars."""
        return sum(count.sums.cost for count in self._counts())

    def _counts(self) -> list[StatusCounts]:
        return self._read_once("counts", lambda journal: journal.counts())

    # ---- reading ------------------------------------------------------------------------------------------------

    def read_trajectory(self, dataset: str, trajectory: str) -> Trajectory:
        """One trajectory by its id, with its marks by people. Raises `KeyError` if there is none."""
        return with_marks(self._read_recorded(dataset, trajectory), self.path, dataset)

    def requests(self, trajectory: Trajectory) -> Iterator[list[JSON]]:
        """The messages of each request that the agent's model was sent, as its API takes them: one for each answer, in
        order. Images are `data:` URLs."""
        return requests_of(trajectory, trajectory.system, trajectory.image_url)

    def _read_recorded(self, dataset: str, trajectory: str) -> Trajectory:
        found = self._read(lambda journal: journal.head(dataset, trajectory))
        if found is None:
            raise KeyError(f"{self.path}: no attempt {trajectory!r} of the dataset {dataset!r} has ended")
        head, has_nodes = found
        nodes = _LazyNodes(functools.partial(self._read_nodes, dataset, trajectory)) if has_nodes else None
        return self._files.open(head, nodes, functools.partial(self._read_line, dataset, trajectory))

    def _read_nodes(self, dataset: str, trajectory: str) -> Sequence[NodeBody]:
        found: Sequence[NodeBody] = self._read(lambda journal: journal.whole_path(dataset, trajectory))
        return found

    def _read_line(self, dataset: str, trajectory: str) -> Sequence[Message]:
        line: bytes = self._read(lambda journal: journal.line(dataset, trajectory))
        return read_saved(line).read_messages()

    def _read_once(self, name: str, ask: Callable[[JournalReader], T]) -> T:
        """Something about the whole run, read again only if something was written since."""

        def read(journal: JournalReader) -> T:
            version = journal.data_version
            if name not in self._kept or self._kept[name][0] != version:
                self._kept[name] = version, ask(journal)
            found: T = self._kept[name][1]
            return found

        return self._read(read)

    def _read(self, ask: Callable[[JournalReader], T]) -> T:
        with self._lock:
            if self._journal is None:
                self._journal = self._held.enter_context(open_reader(self.path))
            return ask(self._journal)


class Trajectories(Sequence[Trajectory]):
    """The trajectories of a run, each read from disk on access."""

    def __init__(self, run: Run, keys: Sequence[TrajectoryKey]) -> None:
        self._run = run
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Trajectory: ...

    @overload
    def __getitem__(self, place: slice) -> Trajectories: ...

    def __getitem__(self, place: int | slice) -> Trajectory | Trajectories:
        if isinstance(place, slice):
            return Trajectories(self._run, self._keys[place])
        key = self._keys[place]
        return self._run.read_trajectory(key.dataset, key.id)

    def __iter__(self) -> Iterator[Trajectory]:
        marked = MarkedRun(self._run.path)
        return (self._read(key, marked) for key in self._keys)

    def _read(self, key: TrajectoryKey, marked: MarkedRun) -> Trajectory:
        return marked.add_to(self._run._read_recorded(key.dataset, key.id), key.dataset)

    def __repr__(self) -> str:
        return f"<{len(self)} trajectories of {self._run.path}>"

    @property
    def ids(self) -> list[str]:
        """Their ids, without reading the trajectories."""
        return [key.id for key in self._keys]

    def where(
        self,
        test: Callable[[Trajectory], object] | None = None,
        /,
        *,
        mark: str | Collection[str] = (),
        no_mark: str | Collection[str] = (),
        label: str | Collection[str] = (),
        author: str | Collection[str] = (),
        **wanted: Any,
    ) -> Trajectories:
        """The trajectories that match all conditions: `where(success=True, status="completed")`. Each name is an
        attribute of `Trajectory`; a list, tuple or set matches any of its values. `test` is a function of the
        trajectory.

        `mark`, `no_mark` and `label` are about the marks of people, on the trajectory or any of its messages:
        `where(mark="good")`, `where(no_mark="bad", label=["slow", "odd"])`. With `author`, only the marks of these
        people count.
        """
        named = {"mark": mark, "no_mark": no_mark, "label": label, "author": author}
        people = make_mark_selection(*(_words(name, given) for name, given in named.items()))
        for name in wanted:
            if not hasattr(Trajectory, name) and name not in _LISTED:
                raise TypeError(f"where: a trajectory has no attribute {name!r}")
        listed = {name: value for name, value in wanted.items() if name in _LISTED}
        read = {name: value for name, value in wanted.items() if name not in _LISTED}
        keys = [key for key in self._keys if _fits(key, listed)]
        if people.is_given or read or test is not None:
            marked = MarkedRun(self._run.path)
            keys = [key for key in keys if people.reason_against(marked.of(key.dataset, key.id)) is None]
            if read or test is not None:
                keys = [key for key in keys if self._passes(key, read, test, marked)]
        return Trajectories(self._run, keys)

    def _passes(
        self,
        key: TrajectoryKey,
        wanted: dict[str, Any],
        test: Callable[[Trajectory], object] | None,
        marked: MarkedRun,
    ) -> bool:
        found = self._read(key, marked)
        return _fits(found, wanted) and (test is None or bool(test(found)))


def _words(name: str, given: str | Collection[str]) -> Collection[str]:
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, Collection) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"where: {name}: expected a text or several, got {given!r}")
    return words


def _fits(found: object, wanted: dict[str, Any]) -> bool:
    for name, value in wanted.items():
        is_one_of = isinstance(value, list | tuple | set | frozenset)
        if getattr(found, name) not in (value if is_one_of else (value,)):
            return False
    return True


class _LazyNodes(Sequence[NodeBody]):
    """The nodes of a path, read when the first of them is asked for."""

    def __init__(self, read: Callable[[], Sequence[NodeBody]]) -> None:
        self._read = read

    @functools.cached_property
    def _nodes(self) -> Sequence[NodeBody]:
        return self._read()

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, place: Any) -> Any:
        return self._nodes[place]

    def __iter__(self) -> Iterator[NodeBody]:
        return iter(self._nodes)


def load_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory for reading, whether the run has ended, was stopped, or is still going on. Raises
    `ConfigError` if the folder holds no run."""
    found = find_run(Path(path))
    if found is None:
        raise ConfigError(f"{path}: is not a run directory; expected a folder with a journal, such as runs/default")
    return Run(found)
