"""The engine: admits episodes, up to `max_workers` at once, until every task has its trajectories.

Workers take the next episode when they are free and end when there is none, so memory follows the number of live
episodes, not of tasks. A strategy that wants more episodes after a leaf gets new workers. What goes wrong in one
episode, or in the strategy of one tree, stays in it; only a journal that cannot be written stops the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

import msgspec

from rollout.config.exploring import Dynamic
from rollout.config.schema import Tail
from rollout.core.async_tools import is_cancellation
from rollout.core.errors import BranchMismatch, ConfigError, JournalError, ReplayMismatch, RolloutError, describe_error
from rollout.core.secrets import excerpt
from rollout.engine.admission import Admission
from rollout.engine.control import Control, Grace, Paused, rare_collections
from rollout.engine.episode import Episode, Growing, OpenEpisode
from rollout.engine.groups import Group, GroupStream
from rollout.engine.live_tree import DueEpisode, LiveTree
from rollout.engine.observer import Observer, Progress
from rollout.engine.plan import AttemptSpec, Plan
from rollout.store.journal import Journal
from rollout.store.reading.episodes import SavedEpisode
from rollout.store.reading.trajectory_files import TrajectoryFiles
from rollout.store.reading.trees import leaf_of
from rollout.strategies.strategy import Expansion
from rollout.tasks.source import trajectory_id
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import PERSON, Node, NodeBody, RolloutTree

log = logging.getLogger(__name__)
CONSUMER_LEFT = "the consumer of groups is gone"
"""Why a run pauses whose groups are no longer asked for."""
HIRE_AT_ONCE = 16
HOPELESS = 20
"""This many failures and no success: something is wrong that a person has to fix."""


class Engine:
    """Runs plans to their end. `control` pauses it, observers look on, `open_episode` says where episodes run."""

    def __init__(
        self,
        plans: Sequence[Plan],
        journal: Journal,
        *,
        max_workers: int,
        control: Control | None = None,
        grace: float = 10.0,
        tail: Tail | None = None,
        dynamic: Dynamic | None = None,
        observers: Sequence[Observer] = (),
        open_episode: OpenEpisode = Episode,
    ) -> None:
        self.control = control or Control()
        self.progress = Progress(total=sum(plan.total for plan in plans))
        self._journal = journal
        self._files = TrajectoryFiles(journal.folder)
        self._max_workers = max_workers
        self._grace = Grace(self.control, grace)
        self._observers: tuple[Observer, ...] = (self.progress, *observers)
        self._due: deque[DueEpisode] = deque()
        self._admission = Admission(plans, journal, self.progress, dynamic)
        self._saved = {plan.name: journal.unfinished(plan.name) for plan in plans}
        self._source = self._open_tasks(plans)
        self._workers = 0
        self._tail = tail
        self._tail_timer: asyncio.TimerHandle | None = None
        self._is_tail_cut = False
        self._live: set[Growing] = set()
        self._make_episode = open_episode
        self._stream: GroupStream | None = None
        self.replay_mismatches = 0
        for plan in plans:
            self.progress.finished_before += len(self._admission.finished[plan.name] & plan.wanted_ids())

    async def run(self) -> None:
        """Until everything is done or the run pauses."""
        self._admission.start(streams=self._stream is not None)
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
        wait. Leaving the loop early pauses the run. Groups that an earlier command grew and that were not taken come
        first."""
        self._stream = stream = GroupStream(ahead)
        running = asyncio.create_task(self._run_stream(stream))
        try:
            while (group := await stream.get()) is not None:
                yield group
                self._journal.finish_tree(group.tree_id)
        finally:
            if not running.done():
                self.control.pause(CONSUMER_LEFT)
                stream.let_go()
            await running

    async def _run_stream(self, stream: GroupStream) -> None:
        try:
            await self.run()
        finally:
            stream.end()

    def pause(self, reason: str) -> None:
        """Begin nothing new: live episodes have their grace to get to a point from which they resume."""
        self.control.pause(reason)

    def cut(self) -> None:
        """Stop at once: live episodes are cancelled where they stand, and resume from their last durable node."""
        self._grace.cut()

    async def flush(self) -> None:
        """Wait until everything that has ended is recorded, so that it can be read from the run directory."""
        await self._journal.flush()

    def not_needed(self) -> dict[str, int]:
        """Trajectories of each dataset that were planned at most and that are not asked for."""
        return self._admission.not_needed()

    def _open_tasks(self, plans: Sequence[Plan]) -> Iterator[LiveTree | None]:
        """The trees to grow, one after the other; None where the next one has to wait."""
        for plan in plans:
            for index, task_id in enumerate(plan.tasks.ids[: plan.task_count]):
                if self._admission.is_done(plan, task_id):
                    continue
                while (may_open := self._admission.may_open(plan, task_id)) is None:
                    yield None
                if not may_open:
                    continue
                try:
                    task = plan.read_task(index)
                except ConfigError as error:
                    # The file changed under the run: this task waits for the next one, the others go on.
                    log.error("%s", error)
                    continue
                tree = RolloutTree(task.id, task.messages, plan.tree_seed(task.id))
                live_tree = LiveTree(plan=plan, task=task, tree=tree, next_number=plan.first_number)
                if self._admission.leaves(plan):
                    if not self._take_up(live_tree):
                        continue
                elif self._admission.has_ended(plan, task_id):
                    live_tree.id = self._tree_of(live_tree)
                self._admission.opened(plan, task_id)
                yield live_tree

    def _take_up(self, live_tree: LiveTree) -> bool:
        """Take what earlier commands made of a task into its tree. False where that began with other words: attempts at
        two tasks are no group. Where none of them has ended, nothing is lost and the tree starts again."""
        plan, task = live_tree.plan, live_tree.task
        tree, saved = self._journal.saved_leaves(plan.name, task.id)
        if tree and self._journal.opening(tree) != task.messages:
            if saved:
                log.error(
                    "%s: the task's opening changed since it was begun, and %d of its attempts have ended; it is left "
                    "out: restore the old words, give the new ones other ids, or start a new run (--no-resume)",
                    task.id,
                    len(saved),
                )
                return False
            tree = 0
        live_tree.id, live_tree.saved = tree, saved
        return True

    def _tree_of(self, live_tree: LiveTree) -> int:
        """The tree of a task of which some attempts have ended: the others belong to it, too. 0, for a tree of its own,
        where the task began with other words then."""
        tree = self._journal.tree_of(live_tree.plan.name, live_tree.task.id)
        return tree if tree and self._journal.opening(tree) == live_tree.task.messages else 0

    def _take(self) -> DueEpisode | None:
        """The next episode, or None where there is none now."""
        while not self._due:
            live_tree = next(self._source, None)
            if live_tree is None:
                return None
            self._begin(live_tree)
        return self._due.popleft()

    def _begin(self, live_tree: LiveTree) -> None:
        """Make the first episodes of a tree due."""
        if self._expand(live_tree, live_tree.plan.strategy.begin):
            self._go_on(live_tree)

    def _go_on(self, live_tree: LiveTree) -> None:
        """Where every episode so far has ended, ask for the next round, and end the tree where there is none."""
        strategy = live_tree.plan.strategy
        while not live_tree.open:
            launched = live_tree.next_number
            # A run that does not wait for its stragglers begins nothing new either.
            if strategy.has_rounds and not self._is_tail_cut and not self._expand(live_tree, strategy.after):
                return
            if live_tree.next_number == launched:
                self._end_tree(live_tree)
                return

    def _expand(self, live_tree: LiveTree, decide: Callable[[RolloutTree], Iterable[Expansion]]) -> bool:
        """Schedule the episodes that a strategy decides on. Episodes of earlier commands are added to the tree instead.
        False where the strategy failed: the tree stays as it is, unfinished, and the others go on."""
        plan, task = live_tree.plan, live_tree.task
        try:
            for expansion in decide(live_tree.tree):
                if not isinstance(expansion, Expansion):
                    raise TypeError(f"it returned {excerpt(repr(expansion), 200)}; expected an Expansion")
                for _ in range(expansion.count):
                    self._launch(live_tree, expansion)
        except JournalError:
            raise
        except Exception as error:
            what = f"the strategy failed: {describe_error(error)}"
            level = logging.DEBUG if what in plan.logged else logging.ERROR
            plan.logged.add(what)
            log.log(level, "%s: task %s is left unfinished: %s", plan.name, task.id, what, exc_info=error)
            self._admission.gave_up(plan, task.id)
            return False
        return True

    def _end_tree(self, live_tree: LiveTree) -> None:
        """Note that a task needs nothing more. What failed is tried again by a resume, and the tree goes on then."""
        plan, task, leaves = live_tree.plan, live_tree.task, live_tree.tree.leaves
        if self._stream is not None:
            self._stream.put(Group(plan.name, task, live_tree.tree, live_tree.id, self._files))
        elif plan.strategy.has_rounds and live_tree.id and all(leaf.status is not Status.FAILED for leaf in leaves):
            self._journal.finish_tree(live_tree.id)
        attempts = live_tree.next_number - plan.first_number + len(live_tree.saved)
        self._admission.ended(plan, task.id, attempts, (leaf.reward for leaf in leaves))

    def _launch(self, live_tree: LiveTree, expansion: Expansion) -> None:
        number, live_tree.next_number = live_tree.next_number, live_tree.next_number + 1
        trajectory = trajectory_id(live_tree.task.id, number)
        saved = live_tree.saved.pop(trajectory, None)
        if saved is not None:
            live_tree.take_in(self._journal, saved, number)
        elif trajectory not in self._admission.finished[live_tree.plan.name]:
            live_tree.open += 1
            node, _, reason, temperature, beginning = msgspec.structs.astuple(expansion)
            if not isinstance(node, Node):
                node = live_tree.node_at(self._journal, node)
            self._due.append(DueEpisode(live_tree, node, number, reason, temperature, beginning))

    def _hire(self, group: asyncio.TaskGroup, most: int) -> bool:
        """Start workers for what is due, at most this many; whether there may be more to start."""
        for _ in range(most):
            if self._workers >= self._max_workers or self.control.is_pausing:
                return False
            launch = self._take()
            if launch is None:
                return False
            self._workers += 1
            self._grace.watch(group.create_task(self._work(group, launch)))
        return True

    async def _work(self, group: asyncio.TaskGroup, launch: DueEpisode | None) -> None:
        try:
            while launch is not None:
                await self._grow(launch)
                if self._stream is not None:
                    await self._stream.room()
                launch = None if self.control.is_pausing else self._take()
                if self._due or self._admission.has_rule:
                    self._hire(group, max(len(self._due), HIRE_AT_ONCE))
        except asyncio.CancelledError:
            if not self._grace.is_over:
                raise
        finally:
            self._workers -= 1

    async def _grow(self, launch: DueEpisode) -> None:
        """Run one episode, and let the strategy say what follows from it."""
        live_tree, plan = launch.live_tree, launch.live_tree.plan
        saved = self._saved[plan.name].pop(launch.trajectory, None)
        tries = 0
        if saved is not None and self._journal.opening(saved.tree) != live_tree.task.messages:
            log.warning("%s: the task's opening changed since it was begun; it starts again", launch.trajectory)
            tries = saved.attempt + 1
            saved = None
        if saved is not None:
            launch = self._as_recorded(launch, saved)
        for observer in self._observers:
            observer.episode_began(plan.name, launch.trajectory, live_tree.task.messages, saved is not None)
        head = None
        try:
            try:
                episode = self._open_episode(launch, saved, tries)
                head = await self._run(episode, self._journal.nodes(saved.id) if saved is not None else ())
            except ReplayMismatch as error:
                self.replay_mismatches += 1
                tries = (saved.attempt if saved is not None else tries) + 1
                if isinstance(error, BranchMismatch):
                    launch = msgspec.structs.replace(launch, start=live_tree.tree.trunk, reason="fresh", beginning=None)
                log.warning("%s: %s; the path starts again (attempt %d)", launch.trajectory, error, tries + 1)
                episode = self._open_episode(launch, None, tries, is_restart=True)
                head = await self._run(episode)
        except Paused:
            return
        except JournalError:
            raise
        except RolloutError as error:
            # Expected of machines: its workers died again and again. It stays unfinished, its siblings go on.
            log.error("%s: could not be run: %s", launch.trajectory, error)
            self._admission.gave_up(plan, live_tree.task.id)
            return
        except (Exception, asyncio.CancelledError) as error:
            if is_cancellation(error):
                raise
            # A fault of ours in one episode: it stays unfinished, its siblings go on.
            log.exception("%s: could not be run", launch.trajectory)
            self._admission.gave_up(plan, live_tree.task.id)
            return
        finally:
            for observer in self._observers:
                observer.episode_ended(plan.name, launch.trajectory, head)
        self._notice_hopelessness(head)
        self._notice_tail()
        live_tree.tree.add_leaf(
            leaf_of(episode.leaf, launch.number, head, launch.start, launch.reason, launch.beginning)
        )
        live_tree.open -= 1
        self._go_on(live_tree)

    async def _run(self, episode: Growing, saved: Sequence[NodeBody] = ()) -> Head:
        if self._is_tail_cut:
            episode.cut()
        self._live.add(episode)
        try:
            return await episode.run(saved)
        finally:
            self._live.discard(episode)

    def _notice_tail(self) -> None:
        """If enough attempts have ended, give the others a grace period, then record those that are left as cut."""
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
            text = "unknown" if head.error is None else head.error.text
            self.control.pause("nothing works", f"the first {HOPELESS} conversations all failed (last error: {text})")

    def _as_recorded(self, launch: DueEpisode, saved: SavedEpisode) -> DueEpisode:
        """An attempt that was begun starts where it started then, whatever the strategy says now."""
        live_tree, branch = launch.live_tree, self._journal.branch(saved.id)
        start, beginning = live_tree.start_of(self._journal, branch)
        reason = "init" if branch is None else branch.reason
        return msgspec.structs.replace(launch, start=start, reason=reason, beginning=beginning)

    def _open_episode(
        self, launch: DueEpisode, saved: SavedEpisode | None, tries: int, *, is_restart: bool = False
    ) -> Growing:
        live_tree, plan = launch.live_tree, launch.live_tree.plan
        seed = plan.episode_seed(live_tree.task.id, launch.number)
        if saved is not None:
            live_tree.id, episode = saved.tree, saved.id
        else:
            if live_tree.id == 0:
                live_tree.id = self._journal.begin_tree(plan.name, live_tree.task.id, live_tree.task.messages)
            episode = self._journal.begin_episode(live_tree.id, launch.trajectory, tries, seed, launch.branch)
        live_tree.began(episode, launch.number, launch.beginning)
        attempt = AttemptSpec(
            episode,
            launch.trajectory,
            live_tree.task,
            launch.describe(),
            seed,
            plan.sampling_at(launch.temperature),
            None if launch.beginning is None else launch.beginning.prefix,
            # A person who wants to go on from here is not served by an attempt that begins afresh.
            is_restart or launch.reason == PERSON,
        )
        return self._make_episode(
            plan, attempt, live_tree.tree, launch.start, self._journal, self.control, self._observers
        )
