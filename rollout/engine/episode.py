"""One episode: the live execution that grows one path of a tree to a leaf.

It opens the worlds, brings them to where the path is (a snapshot, or a replay of the calls), lets the agent work in a
session until the attempt is over, has it scored and writes it down. What happens in between is the agent's decision
(`rollout.agents.chat`, unless the dataset names another), and every step of it is a node of the path
(`rollout.engine.session`, `rollout.engine.path`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from rollout.agents.agent import Agent, EpisodeOver
from rollout.agents.users.user import User
from rollout.core.async_tools import is_cancellation, is_cancelled
from rollout.core.calls import CallReader
from rollout.core.errors import (
    AgentError,
    BranchMismatch,
    ContextLengthError,
    ReplayMismatch,
    RolloutError,
    describe_error,
)
from rollout.core.messages import Toolset
from rollout.core.secrets import mask_data
from rollout.core.world import Opening, World
from rollout.engine.control import Control
from rollout.engine.observer import Observer
from rollout.engine.outcome import UNSCORED, Ending, make_head, unscored_trajectory
from rollout.engine.path import LivePath
from rollout.engine.plan import AttemptSpec, Plan
from rollout.engine.replay import calls_any, check_opening, replay
from rollout.engine.session import LiveSession
from rollout.environments.empty import UnmadeWorld
from rollout.models.masking import mask_message
from rollout.scoring.panel import Verdict
from rollout.store.blobs import image_url
from rollout.store.record import Finished, Record
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.rewards import recorded_reward
from rollout.trajectories.stop import WORDLESS_ENDS, Status, StopReason
from rollout.trajectories.sums import Sums
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import Node, NodeBody, RolloutTree

log = logging.getLogger(__name__)
CLOSE_SECONDS = 60.0
"""How long closing a world may take. The attempt's own clock is over by then."""


class Growing(Protocol):
    """What grows one path. `run` once, then read `leaf`."""

    @property
    def leaf(self) -> Node:
        """The path's last node."""
        ...

    async def run(self, saved: Sequence[NodeBody] = ()) -> Head:
        """Grow the path to its end and write the trajectory down. Raises `Paused` where the run pauses, and
        `ReplayMismatch` where `saved`, or a world that was lost on the way, cannot be brought back: then the caller
        starts the path again, once."""
        ...

    def cut(self) -> None:
        """End it where it stands, or before it begins: the run does not wait for it any more."""
        ...


OpenEpisode = Callable[[Plan, AttemptSpec, RolloutTree, Node, Record, Control, Sequence[Observer]], Growing]
"""Makes what grows an attempt's path from a node of its tree on: in this process, or on another machine."""


class Episode:
    """Grows one path in this process. `run` once, then read `leaf`."""

    def __init__(
        self,
        plan: Plan,
        attempt: AttemptSpec,
        tree: RolloutTree,
        start: Node,
        record: Record,
        control: Control,
        observers: Sequence[Observer],
    ) -> None:
        self.id = attempt.id
        self.trajectory = attempt.trajectory
        self._plan = plan
        self._attempt = attempt
        self._task = attempt.task
        self._tree = tree
        self._start = start
        self._record = record
        self._control = control
        self._world: World
        user: User | None = None
        try:
            self._world = plan.environment.make_world(self._task)
            if plan.make_user is not None:
                user = plan.make_user(self._task, attempt.seed, self._world)
        except Exception as error:  # noqa: BLE001 - environments of other people may raise anything
            self._world = UnmadeWorld(error)
        self._path = LivePath(plan, attempt, tree, start, record, control, observers, self._world, user)
        self._session = LiveSession(plan, attempt, self._path, self._world, user, record, control)
        self._is_cut = False
        self._is_in_step = False
        """Whether the world is where the path is."""
        self._clock: asyncio.Timeout | None = None
        self._error: RolloutError | None = None
        self._started = time.perf_counter()

    @property
    def leaf(self) -> Node:
        """The path's last node."""
        return self._path.leaf

    async def run(self, saved: Sequence[NodeBody] = ()) -> Head:
        """Grow the path to its end and write the trajectory down. Raises `Paused` where the run pauses, and
        `ReplayMismatch` where `saved`, or a world that was lost on the way, cannot be brought back: then the caller
        starts the path again, once."""
        try:
            await self._live(saved)
            ending = self._ending()
            bodies = [node.body for node in self.leaf.path()[1:]]
            ended = unscored_trajectory(ending, bodies, functools.partial(image_url, self._record.folder))
            head = make_head(ending, ended, await self._score(ended))
            line = encode_line(head, ended.messages)
            is_failed = head.status == Status.FAILED
            done = Finished(
                self._plan.name, self.id, head, line, is_failed, self._own_sums(head), recorded_reward(head)
            )
            await self._record.settle(self._record.finish(done))
            return head
        finally:
            await self._close_worlds()

    def cut(self) -> None:
        """End it where it stands, or before it begins: the run does not wait for it any more."""
        self._is_cut = True
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time())

    async def _live(self, saved: Sequence[NodeBody]) -> None:
        path = self._path
        # Before anything can go wrong: what is on record is part of the path, however far its world comes back.
        for body in saved:
            path.grow(body)
        # A branch may begin behind an answer whose calls it makes itself.
        made = [self._start.body, *saved] if saved and self._start.body.calls else saved
        if self._is_cut or calls_any(made, self._plan.irreversible):
            path.stop = StopReason.CUT
            path.answer_late()
            return
        try:
            async with asyncio.timeout(self._plan.episode_timeout) as clock:
                self._clock = self._session.clock = clock
                opening = await self._open_worlds()
                if self._start is not self._tree.trunk:
                    await self._go_to_start(opening)
                elif saved:
                    check_opening(opening, saved)
                else:
                    await self._begin(opening)
                await self._replay(made)
                self._is_in_step = True
                await self._act()
                if clock.expired():
                    # The agent caught its cancellation and returned all the same.
                    raise TimeoutError
        except TimeoutError as error:
            if not clock.expired():
                # Somebody's own time-out that was not translated at its boundary: not our deadline.
                self._fail(RolloutError(f"unexpected {describe_error(error)}"))
                return
            path.stop = StopReason.CUT if self._is_cut else StopReason.DEADLINE
            path.answer_late()
        except ContextLengthError as error:
            path.stop, self._error = StopReason.CONTEXT_LENGTH, error
        except RolloutError as error:
            starts_again = isinstance(error, ReplayMismatch) and not self._attempt.is_restart
            if error.kind == "cancelled" or starts_again or error.kind == "journal":
                raise
            # Who looks on is shown each cause once, not each attempt.
            log.info("%s: %s: %s", self.trajectory, error.kind, error)
            self._fail(error)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            self._fail(
                RolloutError("an agent, a model, a world or a user raised CancelledError, though it was not cancelled")
            )
            log.warning("%s: %s", self.trajectory, self._error)
        except Exception as error:
            log.exception("%s: unexpected error", self.trajectory)
            self._fail(RolloutError(f"unexpected {describe_error(error)}"))
        finally:
            self._clock = None

    def _fail(self, error: RolloutError) -> None:
        self._path.stop, self._error = StopReason.ERROR, error

    async def _begin(self, opening: Opening) -> None:
        """What the world shows before the agent acts is the path's first node."""
        self._path.opening_state = await self._path.states.read()
        if opening.observation is not None:
            self._path.keep_images(opening.images)
            self._path.append(NodeBody("observation", message=opening.observation, data=opening.data))

    async def _open_worlds(self) -> Opening:
        seed = self._plan.world_seed(self._task)
        opening = await self._world.open(self._task, seed)
        if opening.tools is not self._plan.toolset:
            self._session.reader = CallReader(opening.tools)
        if opening.observation is not None:
            shown, data = mask_message(opening.observation), mask_data(opening.data)
            opening = msgspec.structs.replace(opening, observation=shown, data=data)
        await self._path.user_side.open(self._task, seed)
        return opening

    async def _close_worlds(self) -> None:
        try:
            await self._close(self._world)
        finally:
            if (world := self._path.user_side.world) is not None:
                await self._close(world)

    async def _close(self, world: World) -> None:
        """Close a world. That is clean-up: what goes wrong in it is reported, and is never a result."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS) as clock:
                await world.close()
        except (Exception, asyncio.CancelledError) as error:
            if is_cancellation(error):
                raise
            what = f"it did not end within {CLOSE_SECONDS:g} s" if clock.expired() else describe_error(error)
            log.warning("%s: %s.close failed: %s", self.trajectory, type(world).__name__, what)

    async def _go_to_start(self, opening: Opening) -> None:
        """Bring a new world to the state at a node that others grew: by a snapshot, or by replaying their calls."""
        acted = next((node for node in self._start.up() if node.body.kind == "tool"), None)
        if acted is not None and acted.snapshot is not None:
            await self._world.restore(acted.snapshot)
            return
        bodies = [node.body for node in self._start.path()[self._tree.trunk.depth + 1 :]]
        # Calls of the last node are not made yet.
        if calls_any(bodies[:-1], self._plan.irreversible):
            raise BranchMismatch("a call on the way is irreversible and is not made again")
        try:
            check_opening(opening, bodies)
            await self._replay(bodies)
        except ReplayMismatch as error:
            raise BranchMismatch(str(error)) from error

    async def _replay(self, bodies: Sequence[NodeBody]) -> None:
        await replay(bodies, self._session.answer_agent, self._path.user_side.answer)

    # ---- the agent ----------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        """Let the agent work until the attempt is over, or the agent is done."""
        agent, session, path = self._plan.program, self._session, self._path
        trunk = self._tree.trunk
        is_stateless = getattr(agent, "is_stateless", False)
        recorded = None if is_stateless else [node.body for node in self.leaf.path()[trunk.depth + 1 :]]
        try:
            await self._drive(agent, recorded)
            session.finish()
        except ReplayMismatch as error:
            if is_stateless or self._start is trunk:
                raise
            # What others grew cannot be walked by this agent, so nothing can branch from there.
            raise BranchMismatch(str(error)) from None
        if path.stop is None:
            path.stop = StopReason.AGENT_DONE
        elif path.pending:
            # Calls that were asked for are answered even when this is the end: no record ends in open calls.
            path.append_results(await session.answer_agent(path.pending))

    async def _drive(self, agent: Agent, recorded: Sequence[NodeBody] | None = None) -> None:
        """Run an agent, from the start over what is recorded where there is a record."""
        session = self._session
        try:
            if recorded is not None:
                await session.begin(recorded)
                await _run_program(agent.act(self._task.copy(), session))
            else:
                await agent.act(self._task, session)
        except EpisodeOver:
            pass
        except asyncio.CancelledError:
            raise
        except BaseExceptionGroup as group:
            # Tasks that the agent ran together may all have ended because the attempt had.
            if session.error is None and group.split(EpisodeOver)[1] is not None:
                raise AgentError(f"the agent failed: {describe_error(group)}") from group
        except AgentError:
            if session.error is None:
                raise
        except Exception as error:
            if session.error is None:
                what = f"the agent failed: {describe_error(error)}"
                log.log(
                    logging.DEBUG if what in self._plan.logged else logging.WARNING,
                    "%s: %s (the traceback of an error is logged once)",
                    self.trajectory,
                    what,
                    exc_info=error,
                )
                self._plan.logged.add(what)
                raise AgentError(what) from error
        finally:
            self._path.is_closed = True
        if session.error is not None:
            raise session.error

    def _own_sums(self, head: Head) -> Sums:
        """What this episode added, for sums over all: shared parts of paths are counted once."""
        return self._path.count.sums(is_scored=head.scored) - self._path.inherited

    # ---- the end ------------------------------------------------------------------------------------------------

    async def _score(self, trajectory: Trajectory) -> Verdict:
        """What the scorers say. Not of what broke: a failure of infrastructure is never a score."""
        path = self._path
        assert path.stop is not None
        if path.stop in UNSCORED:
            return Verdict(unscored=UNSCORED[path.stop])
        if not self._is_in_step:
            return Verdict(unscored="its world was not ready within timeouts.episode")
        if self._plan.panel.asks_models:
            await path.be_durable()
        verdict = await self._plan.panel.judge(self._task, trajectory, self._world, self._close_worlds)
        for generation in verdict.asked:
            self._control.charge(generation.cost)
            path.append(NodeBody("judge", generation=generation))
        return verdict

    def _prompt_name(self, tools: Toolset) -> str:
        """The blob of system prompt and tools: the dataset's, or this task's own where it brings its own tools."""
        if tools is self._plan.toolset:
            return str(self._plan.identity["system prompt and tools"])
        return self._record.keep_blob(self._plan.prompt(tools))

    def _ending(self) -> Ending:
        path = self._path
        assert path.stop is not None
        prompts = [(turn, self._prompt_name(tools)) for turn, tools in path.offers]
        # An empty last word is no proper end, but where the world takes an answer none is needed.
        has_ended = path.has_spoken or path.stop in WORDLESS_ENDS
        return Ending(
            trajectory=self.trajectory,
            plan=self._plan,
            task=self._task,
            seed=self._attempt.seed,
            branch=self._attempt.branch,
            count=path.count,
            stop=path.stop,
            error=self._error,
            tools=path.tools,
            prompts=prompts,
            states=path.states.of_steps if self._plan.record_states else None,
            user_calls=path.user_side.calls,
            captions=path.view.captions,
            ended_properly=bool(path.dialogue and has_ended),
            started=self._started,
        )


async def _without_exit(program: Coroutine[Any, Any, None]) -> None:
    """A program that calls `sys.exit` ends itself, not the process."""
    try:
        await program
    except SystemExit as error:
        if type(error) is not SystemExit:
            raise  # A signal ended the command.
        raise AgentError(f"the agent failed: SystemExit: {error}") from error


async def _run_program(program: Coroutine[Any, Any, None]) -> None:
    """Run a foreign coroutine in a task of its own: a program that cancels its task must not look like a
    cancelled episode, which would stay unfinished."""
    task = asyncio.ensure_future(_without_exit(program))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled is not None:
        raise cancelled
    task.result()
