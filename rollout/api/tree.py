"""The tree of a task for people: a text that shows where attempts share their beginning and where they part."""

from __future__ import annotations

from collections.abc import Callable

from rollout.store.reading.trajectory_files import TrajectoryFiles
from rollout.terminal.task_tree import draw_tree
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import RolloutTree

WIDTH = 100


class TaskTree:
    """All finished attempts at a task."""

    def __init__(
        self, tree: RolloutTree, files: TrajectoryFiles, view: Callable[[Trajectory], Trajectory] = lambda one: one
    ) -> None:
        self.nodes = tree
        """The tree itself, node by node."""
        self._files = files
        self._view = view

    @property
    def task_id(self) -> str:
        return self.nodes.task_id

    @property
    def trajectories(self) -> list[Trajectory]:
        """The attempts, by number."""
        return [self._view(found) for found in self._files.open_tree(self.nodes)]

    def draw(self, width: int = WIDTH) -> str:
        """The tree as text: one line for each message, and at the end of each attempt its result. What attempts share
        is drawn once."""
        return "\n".join(map(str, draw_tree(self.nodes, width)))
