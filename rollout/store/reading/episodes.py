"""Reading the episodes and trees of a journal: which there are, how they hang together, and which have ended."""

from __future__ import annotations

import msgspec

from rollout.store.damage import missing, reads_journal
from rollout.store.reading.scanning import ScanReader
from rollout.trajectories.line import Head
from rollout.trajectories.stop import StopReason
from rollout.trajectories.tree import OPENING

_head_decoder = msgspec.msgpack.Decoder(Head)


class SavedEpisode(msgspec.Struct, frozen=True):
    """An episode that was started and has no finished trajectory."""

    id: int
    tree: int
    task: str
    trajectory: str
    attempt: int
    seed: int


class SavedBeginning(msgspec.Struct, frozen=True):
    """The generation whose first tokens an episode begins with: the key of its node, and the number of tokens."""

    owner: int
    place: int
    tokens: int


class Branch(msgspec.Struct, frozen=True):
    """The start of an episode that is not one of the first chains: after a node of another episode, or at the trunk
    (`OPENING`)."""

    parent: int
    place: int
    reason: str
    beginning: SavedBeginning | None = None

    @property
    def is_at_trunk(self) -> bool:
        return self.parent == OPENING


class SavedLeaf(msgspec.Struct, frozen=True):
    """A finished attempt of a tree that is still growing."""

    episode: int
    head: Head
    branch: Branch | None


class EpisodeTimes(msgspec.Struct, frozen=True):
    """When an episode began, and when its trajectory had ended, in seconds since 1970; 0 where that is not known."""

    started: float
    finished: float


NO_TIMES = EpisodeTimes(0.0, 0.0)


@reads_journal
class EpisodeReader(ScanReader):
    """Reads episodes and trees."""

    def finished_ids(self, dataset: str) -> set[str]:
        """Ids of the trajectories that did not fail."""
        rows = self._db.execute("SELECT id FROM trajectories WHERE dataset = ? AND status != 'failed'", (dataset,))
        return {trajectory for (trajectory,) in rows}

    def recorded_ids(self, dataset: str) -> set[str]:
        """Ids of all trajectories, failed ones included."""
        rows = self._db.execute("SELECT id FROM trajectories WHERE dataset = ?", (dataset,))
        return {trajectory for (trajectory,) in rows}

    def unfinished(self, dataset: str) -> dict[str, SavedEpisode]:
        """The newest episode of each trajectory that is unfinished or failed, by trajectory."""
        rows = self._db.execute(
            # In the order of the fields of SavedEpisode.
            "SELECT e.id, e.tree, t.task, e.trajectory, e.attempt, e.seed FROM episodes e "
            "JOIN trees t ON t.id = e.tree "
            "LEFT JOIN trajectories d ON d.dataset = t.dataset AND d.id = e.trajectory "
            "WHERE t.dataset = ? AND (d.id IS NULL OR d.status = 'failed') ORDER BY e.id",
            (dataset,),
        )
        return {episode.trajectory: episode for episode in (SavedEpisode(*row) for row in rows)}

    def saved_leaves(self, dataset: str, task: str) -> tuple[int, dict[str, SavedLeaf]]:
        """The tree of a task (0 if there is none) and its attempts that did not fail, by trajectory.

        Earlier versions began another tree for samples that were added later. Trees with the same opening are one."""
        tree = self.tree_of(dataset, task)
        if tree is None:
            return 0, {}
        rows = self._db.execute(
            # CROSS JOIN keeps the order: from the tree's few episodes to their trajectories, not through all of these.
            "SELECT d.id, d.episode, d.head FROM episodes e CROSS JOIN trajectories d "
            "ON d.dataset = ? AND d.id = e.trajectory AND d.episode = e.id "
            "WHERE e.tree IN (SELECT t.id FROM trees n JOIN trees t "
            "ON t.dataset = n.dataset AND t.task = n.task AND t.opening = n.opening WHERE n.id = ?) "
            "AND d.status != 'failed'",
            (dataset, tree),
        ).fetchall()
        leaves = {
            trajectory: SavedLeaf(episode, _head_decoder.decode(head), self.branch(episode))
            for trajectory, episode, head in rows
        }
        return tree, leaves

    def grown_tasks(self, dataset: str) -> set[str]:
        """The tasks whose trees are complete."""
        rows = self._db.execute(
            "SELECT t.task FROM grown g JOIN trees t ON t.id = g.tree WHERE t.dataset = ?", (dataset,)
        )
        return {task for (task,) in rows}

    def ranks(self, dataset: str) -> dict[str, int]:
        """The cluster rank that made each trajectory; the last one if there were several."""
        rows = self._db.execute(
            "SELECT d.id, p.rank FROM trajectories d JOIN placed p ON p.episode = d.episode WHERE d.dataset = ?",
            (dataset,),
        )
        return dict(rows.fetchall())

    def episode_of(self, dataset: str, trajectory: str) -> tuple[int, int] | None:
        """The episode of a trajectory that has ended, and its tree; None where there is none, or its nodes were not
        kept."""
        row = self._db.execute(
            "SELECT d.episode, e.tree FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.id = ? AND d.line IS NULL",
            (dataset, trajectory),
        ).fetchone()
        if row is None:
            return None
        episode, tree = row
        return int(episode), int(tree)

    def times_of(self, dataset: str, trajectory: str) -> EpisodeTimes:
        """The times of the episode that grew a trajectory."""
        row = self._db.execute(
            "SELECT e.started, d.finished FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.id = ?",
            (dataset, trajectory),
        ).fetchone()
        return NO_TIMES if row is None else EpisodeTimes(*row)

    def owner_of(self, episode: int) -> tuple[str, str] | None:
        """Dataset and id of the trajectory that an episode grew; None where it has not ended."""
        row = self._db.execute("SELECT dataset, id FROM trajectories WHERE episode = ?", (episode,)).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def tree_of(self, dataset: str, task: str) -> int | None:
        """The newest tree of a task; None where it was never begun."""
        (tree,) = self._db.execute(
            "SELECT max(id) FROM trees WHERE dataset = ? AND task = ?", (dataset, task)
        ).fetchone()
        return None if tree is None else int(tree)

    def grown_on(self, dataset: str) -> set[str]:
        """The ids of the corrections from which attempts have been grown on."""
        rows = self._db.execute(
            "SELECT c.id FROM trajectories c WHERE c.dataset = ? AND c.stop_reason = ? AND EXISTS (SELECT 1 FROM "
            "branches b JOIN trajectories d ON d.episode = b.episode WHERE b.parent = c.episode "
            "AND d.status != 'failed' AND d.stop_reason != ?)",
            (dataset, StopReason.CORRECTED, StopReason.CORRECTED),
        )
        return {trajectory for (trajectory,) in rows}

    def begun_attempts(self, tree: int) -> dict[str, int]:
        """The newest episode of each attempt of a tree, finished or not, by trajectory."""
        rows = self._db.execute("SELECT trajectory, id FROM episodes WHERE tree = ? ORDER BY id", (tree,))
        return dict(rows.fetchall())

    def trajectory_of(self, episode: int) -> str:
        """The id of the trajectory that an episode grows."""
        row = self._db.execute("SELECT trajectory FROM episodes WHERE id = ?", (episode,)).fetchone()
        if row is None:
            raise missing(f"episode {episode}")
        (trajectory,) = row
        return str(trajectory)

    def branch(self, episode: int) -> Branch | None:
        """The start of an episode; None for a first chain. An episode always starts from an earlier one, so following
        branches ends, also in a damaged journal."""
        row = self._db.execute("SELECT parent, place, reason FROM branches WHERE episode = ?", (episode,)).fetchone()
        if row is None:
            return None
        parent, place, reason = row
        branch = Branch(parent, place, reason, self._beginning(episode))
        if branch.parent >= episode or (branch.beginning is not None and branch.beginning.owner >= episode):
            raise ValueError(f"episode {episode} branches from a later one")
        return branch

    def _beginning(self, episode: int) -> SavedBeginning | None:
        row = self._db.execute("SELECT owner, place, tokens FROM beginnings WHERE episode = ?", (episode,)).fetchone()
        return None if row is None else SavedBeginning(*row)
