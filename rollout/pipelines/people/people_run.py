"""`people/`, the run directory that holds what people add to the attempts of a run.

An attempt that a person works on is copied there once, node by node, as an episode that has no trajectory of its own.
What people add are further episodes of the same tree, which branch from a node of that copy or of each other. Their ids
are `task~+1`, `task~+2` and so on. Those of their episodes begin at `FIRST_ID`, so that the keys of nodes differ from
those of the run and both fit into one tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.store.blobs import copy_blob, copy_image, writing
from rollout.store.files.output_files import open_output
from rollout.store.files.run_file import RecordedTasks, read_run_file, write_run_file
from rollout.store.journal import Journal, open_journal
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.run_dir import PEOPLE, RUN_FILE
from rollout.tasks.source import BY_PEOPLE, attempt_number
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, NodeKey

FIRST_ID = 1 << 40
COPIED_AT_ONCE = 256
"""Nodes that are put into the journal with one commit."""


class WorkedOn(msgspec.Struct, frozen=True):
    """An attempt that a person works on, as it lies in `people/`."""

    dataset: str
    trajectory: Trajectory
    tree: int
    """The tree of its task in the journal of `people/`."""
    keys: Sequence[NodeKey]
    """The key of each node behind the opening."""

    def place_of(self, message: int) -> int:
        """The place in `keys` of the node that adds a message; -1 for the last message of the opening. Raises
        ConfigError for a message that is not there, or that is an earlier one of the opening."""
        nodes = self.trajectory.nodes or ()
        opening = self.trajectory.opening
        messages = len(self.trajectory.messages)
        if not 0 <= message < messages:
            raise ConfigError(f"{self.trajectory.id}: there is no message {message}; it has 0 to {messages - 1}")
        if message < opening - 1:
            raise ConfigError(
                f"{self.trajectory.id}: message {message} belongs to the task; expected {opening - 1} or a later one"
            )
        said = -1
        for place, body in enumerate(nodes):
            said += body.said is not None
            if said == message:
                return place - opening
        raise AssertionError(message)

    def generations_before(self, place: int) -> int:
        """The number of answers of the agent in front of a place of `keys`."""
        return sum(self.body(before).kind == "generation" for before in range(place))

    def body(self, place: int) -> NodeBody:
        """The node at this place of `keys`."""
        assert self.trajectory.nodes is not None
        return self.trajectory.nodes[self.trajectory.opening + place]


class PeopleRun:
    """`people/` of one run, open for writing. `open_people` opens it."""

    def __init__(self, run_dir: Path, run: JournalReader, journal: Journal) -> None:
        self.run_dir = run_dir
        """The run that people work on."""
        self.journal = journal
        self._run = run

    @property
    def folder(self) -> Path:
        """The folder `people`."""
        return self.journal.folder

    async def take_up(self, dataset: str, trajectory: str) -> WorkedOn:
        """Make an attempt ready to be worked on: one of the run, or one that people added before. Raises ConfigError
        where there is none of this id, or where it cannot be worked on."""
        journal = self.journal
        await journal.flush()
        own = journal.trajectory(dataset, trajectory)
        if own is not None:
            episode, tree = self._find_episode(journal, dataset, own)
            return WorkedOn(dataset, own, tree, [key for key, _ in journal.keyed_path(episode)])
        found = self._run.trajectory(dataset, trajectory)
        if found is None:
            raise ConfigError(f"{self.run_dir}: no attempt {trajectory!r} of the dataset {dataset!r} has ended")
        original, run_tree = self._find_episode(self._run, dataset, found)
        self.open_dataset(dataset)
        known = journal.document(f"copied:{original}")
        if known is not None:
            return WorkedOn(dataset, found, known["tree"], _keys(known["episode"], found))
        tree = await self._tree_with(dataset, found.task_id, self._run.opening(run_tree))
        episode = await self._copy(found, tree)
        journal.set_facts({f"copied:{original}": msgspec.json.encode({"tree": tree, "episode": episode}).decode()})
        return WorkedOn(dataset, found, tree, _keys(episode, found))

    async def tree_of(self, dataset: str, task_id: str) -> int:
        """The tree of a task that the run has begun, in the journal of `people/`. Raises ConfigError otherwise."""
        run_tree = self._run.tree_of(dataset, task_id)
        if run_tree is None:
            raise ConfigError(f"{self.run_dir}: no attempt at a task {task_id!r} of the dataset {dataset!r} has begun")
        self.open_dataset(dataset)
        return await self._tree_with(dataset, task_id, self._run.opening(run_tree))

    def next_number(self, tree: int, task_id: str, count: int = 1) -> int:
        """The first of `count` numbers for new attempts at a task. They are not given out again."""
        begun = self.journal.begun_attempts(tree)
        numbers = [attempt_number(task_id, trajectory) + 1 for trajectory in begun]
        first = max([BY_PEOPLE, self.journal.number(f"next:{tree}"), *numbers])
        self.journal.set_meta(f"next:{tree}", str(first + count))
        return first

    def open_dataset(self, dataset: str) -> None:
        """Open the output file of a dataset, and record what the run says of it."""
        journal = self.journal
        output = self.folder / "outputs" / f"{dataset}.jsonl"
        if journal.meta(f"output:{dataset}") is None:
            facts = {f"output:{dataset}": str(output.resolve())}
            if (identity := self._run.meta(f"identity:{dataset}")) is not None:
                facts[f"identity:{dataset}"] = identity
            journal.set_facts(facts)
        if not journal.is_attached(dataset):
            journal.attach(dataset, open_output(output, is_private=True))

    def _find_episode(self, reader: JournalReader, dataset: str, found: Trajectory) -> tuple[int, int]:
        episode = reader.episode_of(dataset, found.id)
        if episode is None:
            raise ConfigError(
                f"{self.run_dir}: the steps of {found.id} were not kept (use_checkpoints: false), so that nothing can "
                "be added to it"
            )
        return episode

    async def _tree_with(self, dataset: str, task_id: str, opening: tuple[Message, ...]) -> int:
        tree = self.journal.tree_of(dataset, task_id)
        if tree is not None and self.journal.opening(tree) == opening:
            return tree
        tree = self.journal.begin_tree(dataset, task_id, opening)
        await self.journal.flush()
        return tree

    async def _copy(self, found: Trajectory, tree: int) -> int:
        """Copy the nodes of an attempt of the run, and the files that they name."""
        journal, run = self.journal, self._run.path.parent
        names = {name for message in found.messages for name in message.images}
        prompts = [name for name in (found.prompt_name, *(name for _, name in found.prompt_names)) if name is not None]
        with writing(self.folder):
            for name in sorted(names):
                copy_image(run, self.folder, name)
            for name in dict.fromkeys(prompts):
                copy_blob(run, self.folder, name)
        episode = journal.begin_episode(tree, found.id, 0, found.seed)
        bodies = list(found.nodes or ())[found.opening :]
        for first in range(0, len(bodies), COPIED_AT_ONCE):
            batch = journal.put(episode, first, bodies[first : first + COPIED_AT_ONCE])
            assert batch is not None
            await journal.settle(batch)
        await journal.flush()
        return episode


@contextlib.asynccontextmanager
async def open_people(run_dir: Path) -> AsyncIterator[PeopleRun]:
    """Open `people/` of a run for writing, for one process at a time; it is made where there is none. Raises
    JournalError where another process has it."""
    with open_reader(run_dir) as run:
        folder = run_dir / PEOPLE
        journal = open_journal(folder, first_id=FIRST_ID)
        try:
            if not (folder / RUN_FILE).exists():
                _write_people_file(run_dir, folder)
            people = PeopleRun(run_dir, run, journal)
            for dataset in journal.datasets():
                people.open_dataset(dataset)
            yield people
        finally:
            await journal.close()


def _write_people_file(run_dir: Path, folder: Path) -> None:
    recorded = read_run_file(run_dir)
    with writing(folder):
        write_run_file(
            folder,
            seed=int(recorded.get("seed") or 0),
            datasets=msgspec.convert(recorded.get("datasets") or {}, dict[str, RecordedTasks]),
            config=recorded.get("config") or {},
            modules=recorded.get("modules") or [],
            folder=recorded.get("folder"),
        )


def _keys(episode: int, found: Trajectory) -> list[NodeKey]:
    return [(episode, place) for place in range(len(found.nodes or ()) - found.opening)]
