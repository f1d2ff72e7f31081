"""The engine: admits episodes, up to `max_workers` at once, until every task has its trajectories.

Workers take the next episode when they are free and end when there is none, so memory follows the number of live
episodes, not of tasks. A strategy that wants more episodes after a leaf gets new workers. What goes wrong in one
episode stays in it; only a journal that cannot be written stops the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

import msgspec

from rollout.config.schema import Tail
from rollout.engine.collector import rare_collections
from rollout.engine.control import Control, Grace, Paused
from rollout.engine.episode import Episode
from rollout.engine.groups import Group, GroupStream
from rollout.engine.journal import Journal
from rollout.engine.observer import Observer, Progress
from rollout.engine.plan import Plan
from rollout.engine.reader import Branch, SavedEpisode, SavedLeaf
from rollout.errors import BranchMismatch, ConfigError, JournalError, ReplayMismatch
from rollout.messages import JSON
from rollout.strategies.strategy import Expansion
from rollout.tasks.source import attempt_number, trajectory_id
from rollout.tasks.task import Task
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, NodeBody, RolloutTree, path_messages

log = logging.getLogger(__name__)
HIRE_AT_ONCE = 16
HOPELESS = 20
"""So many failures and not one success: something is wrong that a person has to mend."""


class _LiveTree(msgspec.Struct):
    """A tree that is being grown."""

    plan: Plan
    task: Task
    tree: RolloutTree
    id: int = 0
    """The tree's id in the journal; 0 until its first new episode."""
    next_number: int = 0
    open: int = 0
    """Episodes of it that are due or live."""
    saved: dict[str, SavedLeaf] = {}
    """Attempts of earlier commands that have not been taken into the tree yet."""
    nodes: dict[tuple[int, int], Node] = {}
    """Nodes that were read from the journal, by their keys."""
    numbers: dict[int, int] = {}
    """The number of each episode."""


class _DueEpisode(msgspec.Struct):
    """An episode that is due."""

    live_tree: _LiveTree
    start: Node
    number: int
    trajectory: str
    reason: str


class Engine:
    """Runs plans to their end. `control` pauses it, observers look on."""

    def __init__(
        self,
        plans: Sequence[Plan],
        journal: Journal,
        *,
        max_workers: int,
        control: Control | None = None,
        grace: float = 10.0,
        tail: Tail | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.control = control or Control()
        self.progress = Progress(total=sum(plan.total for plan in plans))
        self._journal = journal
        self._max_workers = max_workers
        self._grace = Grace(self.control, grace)
        self._observers: tuple[Observer, ...] = (self.progress, *observers)
        self._due: deque[_DueEpisode] = deque()
        self._finished = {plan.name: journal.finished_ids(plan.name) for plan in plans}
        self._saved = {plan.name: journal.unfinished(plan.name) for plan in plans}
        self._source = self._open_tasks(plans)
        self._workers = 0
        self._tail = tail
        self._tail_timer: asyncio.TimerHandle | None = None
        self._is_tail_cut = False
        self._live: set[Episode] = set()
        self._stream: GroupStream | None = None
        self.replay_mismatches = 0
        for plan in plans:
            self.progress.finished_before += len(self._finished[plan.name] & plan.wanted_ids())

    async def run(self) -> None:
        """Until everything is done or the run pauses."""
        try:
            with rare_collections():
                async with asyncio.TaskGroup() as group:
                    while self._hire(group, HIRE_AT_ONCE):  # noqa: ASYNC110 - nothing to wait for, only to let others run
                        # Opening a world and sending a first request takes a while; the loop breathes in between.
                        await asyncio.sleep(0)
        except BaseExceptionGroup as group_error:
            # Only a journal that cannot be written gets here; one such error says it all.
            raise group_error.exceptions[0] from None
        finally:
            self._grace.close()
            if self._tail_timer is not None:
                self._tail_timer.cancel()

    async def stream(self, ahead: int = 4) -> AsyncIterator[Group]:
        """Run, and give out each task's group as soon as it is grown. Other tasks go on meanwhile, until `ahead` groups
        wait. Leaving the loop early pauses the run. Groups that an earlier command grew and nobody took come first."""
        self._stream = stream = GroupStream(ahead)
        running = asyncio.create_task(self._run_stream(stream))
        try:
            while (group := await stream.get()) is not None:
                yield group
                self._journal.finish_tree(group.tree_id)
        finally:
            if not running.done():
                self.control.pause("nobody takes groups any more")
                stream.let_go()
            await running

    async def _run_stream(self, stream: GroupStream) -> None:
        try:
            await self.run()
        finally:
            stream.end()

    def cut(self) -> None:
        """Stop at once: live episodes are cancelled where they stand, and resume from their last durable node."""
        self._grace.cut()

    def _open_tasks(self, plans: Sequence[Plan]) -> Iterator[_LiveTree]:
        for plan in plans:
            finished = self._finished[plan.name]
            grown = self._journal.grown_tasks(plan.name)
            for index, task_id in enumerate(plan.tasks.ids[: plan.task_count]):
                if task_id in grown or (
                    not self._needs_leaves(plan)
                    and all(trajectory_id(task_id, number) in finished for number in range(plan.strategy.most))
                ):
                    continue
                try:
                    task = plan.read_task(index)
                except ConfigError as error:
                    # The file changed under the run: this task waits for the next one, the others go on.
                    log.error("%s", error)
                    continue
                live_tree = _LiveTree(plan, task, RolloutTree(task.id, task.messages, plan.tree_seed(task.id)))
                if self._needs_leaves(plan):
                    live_tree.id, live_tree.saved = self._journal.saved_leaves(plan.name, task.id)
                yield live_tree

    def _take(self) -> _DueEpisode | None:
        """The next episode, or None where there is none now."""
        while not self._due:
            live_tree = next(self._source, None)
            if live_tree is None:
                return None
            self._expand(live_tree, live_tree.plan.strategy.begin(live_tree.tree))
        return self._due.popleft()

    def _expand(self, live_tree: _LiveTree, expansions: Iterable[Expansion]) -> None:
        """Make episodes due. Those of earlier commands are taken into the tree; when a round is whole, the next is
        asked for."""
        plan = live_tree.plan
        while True:
            launched = live_tree.next_number
            for expansion in expansions:
                for _ in range(expansion.count):
                    self._launch(live_tree, expansion)
            if live_tree.open:
                return
            if live_tree.next_number == launched or not plan.strategy.has_rounds:
                self._complete(live_tree)
                return
            expansions = plan.strategy.after(live_tree.tree)

    def _needs_leaves(self, plan: Plan) -> bool:
        """Whether trees need the attempts of earlier commands."""
        return plan.strategy.has_rounds or self._stream is not None

    def _complete(self, live_tree: _LiveTree) -> None:
        """A tree needs nothing more."""
        if self._stream is not None:
            self._stream.put(Group(live_tree.plan.name, live_tree.task, live_tree.tree, live_tree.id))
        elif live_tree.plan.strategy.has_rounds:
            self._journal.finish_tree(live_tree.id)

    def _launch(self, live_tree: _LiveTree, expansion: Expansion) -> None:
        number, live_tree.next_number = live_tree.next_number, live_tree.next_number + 1
        trajectory = trajectory_id(live_tree.task.id, number)
        saved = live_tree.saved.pop(trajectory, None)
        if saved is not None:
            self._take_in(live_tree, saved, number)
        elif trajectory not in self._finished[live_tree.plan.name]:
            live_tree.open += 1
            self._due.append(_DueEpisode(live_tree, expansion.node, number, trajectory, expansion.reason))

    def _take_in(self, live_tree: _LiveTree, saved: SavedLeaf, number: int) -> None:
        """Make an attempt of an earlier command part of the tree, where it was."""
        branch = saved.branch
        start, node = self._read_nodes(live_tree, saved.episode, number)
        reason = branch.reason if branch is not None else "init"
        live_tree.tree.add_leaf(_leaf(node, number, saved.head, start, reason))

    def _read_nodes(self, live_tree: _LiveTree, episode: int, number: int) -> tuple[Node, Node]:
        """Hang an episode's nodes into the tree; the node that it starts from, and its last."""
        tree, branch = live_tree.tree, self._journal.branch(episode)
        node = start = tree.trunk if branch is None else self._node_at(live_tree, branch)
        live_tree.numbers[episode] = number
        for place, body in enumerate(self._journal.nodes(episode)):
            node = tree.append(node, body, episode, place)
            live_tree.nodes[episode, place] = node
        return start, node

    def _node_at(self, live_tree: _LiveTree, branch: Branch) -> Node:
        """The node that an episode branched from, also where its owner failed later and is no leaf."""
        if (branch.parent, branch.place) not in live_tree.nodes:
            owner = self._journal.trajectory_of(branch.parent)
            self._read_nodes(live_tree, branch.parent, attempt_number(live_tree.task.id, owner))
        return live_tree.nodes[branch.parent, branch.place]

    def _hire(self, group: asyncio.TaskGroup, most: int) -> bool:
        """Start workers for what is due, at most so many; whether there may be more to start."""
        for _ in range(most):
            if self._workers >= self._max_workers or self.control.is_pausing:
                return False
            launch = self._take()
            if launch is None:
                return False
            self._workers += 1
            self._grace.watch(group.create_task(self._work(group, launch)))
        return True

    async def _work(self, group: asyncio.TaskGroup, launch: _DueEpisode | None) -> None:
        try:
            while launch is not None:
                await self._grow(launch)
                if self._stream is not None:
                    await self._stream.room()
                launch = None if self.control.is_pausing else self._take()
                if self._due:
                    self._hire(group, len(self._due))
        except asyncio.CancelledError:
            if not self._grace.is_over:
                raise
        finally:
            self._workers -= 1

    async def _grow(self, launch: _DueEpisode) -> None:
        """Run one episode, and let the strategy say what follows from it."""
        live_tree, plan = launch.live_tree, launch.live_tree.plan
        saved = self._saved[plan.name].pop(launch.trajectory, None)
        attempt = 0
        if saved is not None and self._journal.opening(saved.tree) != live_tree.task.messages:
            log.warning("%s: the task's opening changed since it was begun; it starts anew", launch.trajectory)
            attempt = saved.attempt + 1
            saved = None
        if saved is not None:
            launch = self._as_recorded(launch, saved)
        for observer in self._observers:
            observer.episode_began(plan.name, launch.trajectory, live_tree.task.messages, saved is not None)
        head = None
        try:
            try:
                episode = self._open_episode(launch, saved, attempt)
                head = await self._run(episode, self._journal.nodes(saved.id) if saved is not None else ())
            except ReplayMismatch as error:
                self.replay_mismatches += 1
                attempt = (saved.attempt if saved is not None else attempt) + 1
                if isinstance(error, BranchMismatch):
                    launch = msgspec.structs.replace(launch, start=live_tree.tree.trunk, reason="fresh")
                log.warning("%s; the path starts anew (attempt %d)", error, attempt + 1)
                episode = self._open_episode(launch, None, attempt)
                head = await self._run(episode)
        except Paused:
            return
        except JournalError:
            raise
        except Exception:
            # A fault of ours in one episode: it stays unfinished, its siblings go on.
            log.exception("%s: could not be run", launch.trajectory)
            return
        finally:
            for observer in self._observers:
                observer.episode_ended(plan.name, launch.trajectory, head)
        self._notice_hopelessness(head)
        self._notice_tail()
        live_tree.tree.add_leaf(_leaf(episode.leaf, launch.number, head, launch.start, launch.reason))
        live_tree.open -= 1
        if not live_tree.open:
            self._expand(live_tree, plan.strategy.after(live_tree.tree))

    async def _run(self, episode: Episode, saved: Sequence[NodeBody] = ()) -> Head:
        if self._is_tail_cut:
            episode.cut()
        self._live.add(episode)
        try:
            return await episode.run(saved)
        finally:
            self._live.discard(episode)

    def _notice_tail(self) -> None:
        """Where enough is done, give the rest its grace. What is left then is recorded as cut, begun or not."""
        if self._tail is None or self._tail_timer is not None or not self.progress.total:
            return
        share = self.progress.finished / self.progress.total
        if self._tail.threshold <= share < 1:
            self._tail_timer = asyncio.get_running_loop().call_later(self._tail.grace, self._cut_tail)

    def _cut_tail(self) -> None:
        log.info("%d of %d are done; the others are cut", self.progress.finished, self.progress.total)
        self._is_tail_cut = True
        for episode in self._live:
            episode.cut()

    def _notice_hopelessness(self, head: Head) -> None:
        """Pause where not one conversation of this command has worked: a wrong key would fail ten thousand alike."""
        if self.progress.done == 0 and self.progress.failed >= HOPELESS and not self.control.is_pausing:
            error = head.metadata["error"] or {}
            log.error("the first %d conversations all failed; the last one: %s", HOPELESS, error.get("text"))
            self.control.pause("nothing works")

    def _as_recorded(self, launch: _DueEpisode, saved: SavedEpisode) -> _DueEpisode:
        """An attempt that was begun starts where it started then, whatever the strategy says now."""
        live_tree, branch = launch.live_tree, self._journal.branch(saved.id)
        if branch is None:
            return msgspec.structs.replace(launch, start=live_tree.tree.trunk)
        start = self._node_at(live_tree, branch)
        return msgspec.structs.replace(launch, start=start, reason=branch.reason)

    def _branch(self, launch: _DueEpisode) -> Branch | None:
        if launch.start is launch.live_tree.tree.trunk:
            return None
        return Branch(launch.start.episode, launch.start.place, launch.reason)

    def _open_episode(self, launch: _DueEpisode, saved: SavedEpisode | None, attempt: int = 0) -> Episode:
        live_tree, plan = launch.live_tree, launch.live_tree.plan
        seed = plan.episode_seed(live_tree.task.id, launch.number)
        if saved is not None:
            live_tree.id, episode = saved.tree, saved.id
        else:
            if live_tree.id == 0:
                live_tree.id = self._journal.begin_tree(plan.name, live_tree.task.id, live_tree.task.messages)
            branch = self._branch(launch)
            episode = self._journal.begin_episode(live_tree.id, launch.trajectory, attempt, seed, branch)
        live_tree.numbers[episode] = launch.number
        return Episode(
            plan,
            live_tree.task,
            live_tree.tree,
            launch.start,
            id=episode,
            trajectory=launch.trajectory,
            branch=_describe_branch(launch),
            seed=seed,
            journal=self._journal,
            control=self.control,
            observers=self._observers,
        )


def _leaf(node: Node, number: int, head: Head, start: Node, reason: str) -> Leaf:
    reward = float(head.success) if head.metadata["scored"] else None
    return Leaf(node, number, Status(head.status), reward, start, reason, head)


def _lineage(launch: _DueEpisode) -> list[tuple[int, int]]:
    """Whose steps a branch begins with: the number of each attempt on the way, the first chain first, with how many
    of the path's steps it made."""
    made: dict[int, int] = {}
    for node in launch.start.path()[launch.live_tree.tree.trunk.depth + 1 :]:
        number = launch.live_tree.numbers[node.episode]
        made[number] = made.get(number, 0) + (node.body.kind == "generation")
    return list(made.items())


def _describe_branch(launch: _DueEpisode) -> JSON:
    """Where an attempt begins, for its record."""
    told: JSON = {"number": launch.number, "reason": launch.reason}
    trunk = launch.live_tree.tree.trunk
    if launch.start is not trunk:
        told["parent"] = trajectory_id(launch.live_tree.task.id, launch.live_tree.numbers[launch.start.episode])
        told["shared_messages"] = len(path_messages(launch.start))
        told["lineage"] = _lineage(launch)
    return told
