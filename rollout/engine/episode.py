"""One episode: the live execution that grows one path of a tree to a leaf.

What happens next is always read off the path's last node: after a user's or a tool's message the agent answers; after
an answer that asks for tools they are called; after any other answer the user speaks, and before it does it may call
tools of its own. All other state (the view, the dialogue, the counters, the monitor) is fed by `_absorb`, node by
node, and by nothing else. So resuming is no special case: the saved nodes are absorbed, the world is brought back by
replaying the calls, and the loop goes on. A branch is none either: it absorbs what others grew.

Before any model is asked again, the agent's or the user's, the episode waits until what came before is durable: see
`rollout.store.journal`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from rollout.agents.monitor import Monitor
from rollout.agents.users.faults import check_reply
from rollout.agents.users.user import ASKED_AGAIN, User
from rollout.core import seeds
from rollout.core.async_tools import is_cancelled
from rollout.core.calls import CallReader, answer_calls
from rollout.core.errors import (
    BranchMismatch,
    ConfigError,
    ContextLengthError,
    ReplayMismatch,
    RolloutError,
    describe_error,
)
from rollout.core.messages import Image, Message, ToolCall, ToolResult, Toolset, has_words
from rollout.core.results import failed_result
from rollout.core.secrets import mask_data
from rollout.core.world import Opening, World
from rollout.engine.control import Control
from rollout.engine.counts import MASKED, UNJUDGED, Counts
from rollout.engine.observer import Observer
from rollout.engine.outcome import UNSCORED, Ending, make_head, unscored_trajectory
from rollout.engine.plan import AttemptSpec, Plan
from rollout.engine.replay import calls_any, check_opening, replay
from rollout.engine.state_keys import StateKeys
from rollout.engine.user_tools import UserSide
from rollout.models.masking import mask_message
from rollout.models.model import Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.scoring.panel import Verdict
from rollout.store.blobs import file_url, image_url
from rollout.store.record import Finished, Record
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.rewards import recorded_reward
from rollout.trajectories.stop import WORDLESS_ENDS, Status, StopReason
from rollout.trajectories.sums import Sums
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import End, Node, NodeBody, RolloutTree

log = logging.getLogger(__name__)
_ENDS: dict[End, StopReason] = {
    "stop": StopReason.USER_STOP,
    "transfer": StopReason.USER_TRANSFER,
    "out_of_scope": StopReason.USER_OUT_OF_SCOPE,
    "script_end": StopReason.SCRIPT_END,
    "silent": StopReason.USER_SILENT,
    "max_turns": StopReason.MAX_TURNS,
    "judged_complete": StopReason.MONITOR_JUDGE,
    "answered": StopReason.ANSWERED,
    "world_done": StopReason.WORLD_DONE,
}


class Growing(Protocol):
    """What grows one path. `run` once, then read `leaf`."""

    leaf: Node

    async def run(self, saved: Sequence[NodeBody] = ()) -> Head:
        """Grow the path to its end and write the trajectory down. Raises `Paused` where the run pauses, and
        `ReplayMismatch` where `saved` cannot be brought back: then the caller starts anew."""
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
        task = attempt.task
        self.id = attempt.id
        self.trajectory = attempt.trajectory
        self.leaf = start
        self._start = start
        self._plan = plan
        self._task = task
        self._tree = tree
        self._branch = attempt.branch
        self._seed = attempt.seed
        self._sampling = attempt.sampling
        self._prefix = attempt.prefix
        self._record = record
        self._control = control
        self._observers = observers
        self._world: World = plan.environment.make_world(task)
        self._user: User | None = plan.make_user(task, self._seed, self._world) if plan.make_user is not None else None
        self._monitor = Monitor(plan.monitor, plan.judge) if plan.monitor is not None else None
        self._tools = plan.environment.tools_for(task, 0)
        self._offers = [(0, self._tools)]
        self._reader = plan.reader
        self._dialect = plan.viewing.dialect
        url_of = file_url if plan.viewing.images == "file" else image_url
        self._system = self._dialect.system(plan.system, self._tools)
        self._view = plan.viewing.open(self._system, len(task.messages), functools.partial(url_of, record.folder))
        self._dialogue: list[Message] = []
        self._place = 0
        self._batch: Any | None = None
        self._last: Message | None = None
        self._is_judged = False
        self._is_cut = False
        self._is_in_step = False
        """Whether the world is where the path is."""
        self._clock: asyncio.Timeout | None = None
        self._max_steps = task.max_steps or plan.max_steps
        self._said_something = False
        self._asked_again = 0
        self._pending: tuple[ToolCall, ...] = ()
        self._user_side = UserSide(self._user)
        self._stop: StopReason | None = None
        self._error: RolloutError | None = None
        self._count = Counts()
        self._covered = 0
        """So many of the view's messages are in the token ids of the path."""
        self._states = StateKeys(plan.name, self._world, plan.record_states)
        self._opening_state: str | None = None
        self._started = time.perf_counter()
        for node in start.path():
            self._absorb(node.body)
        # What a path had cost where this episode branched off is counted by the trajectory that it branched from.
        self._inherited = self._count.sums() if start is not tree.trunk else Sums()

    async def run(self, saved: Sequence[NodeBody] = ()) -> Head:
        """Grow the path to its end and write the trajectory down. Raises `Paused` where the run pauses, and
        `ReplayMismatch` where `saved` cannot be brought back: then the caller starts anew."""
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
        # Before anything can go wrong: what is on record is part of the path, however far its world comes back.
        for body in saved:
            self._grow(body)
        if self._is_cut or calls_any(saved, self._plan.irreversible):
            self._stop = StopReason.CUT
            self._answer_late()
            return
        try:
            async with asyncio.timeout(self._plan.episode_timeout) as clock:
                self._clock = clock
                opening = await self._open_worlds()
                if self._start is not self._tree.trunk:
                    await self._go_to_start(opening)
                elif saved:
                    check_opening(opening, saved)
                else:
                    await self._begin(opening)
                await self._replay(saved)
                self._is_in_step = True
                # Calls that were asked for are answered even when this is the end: no record ends in open calls.
                while self._stop is None or self._pending:
                    self._control.go_on()
                    await self._step()
        except TimeoutError as error:
            if not clock.expired():
                # Somebody's own time-out that was not translated at its boundary: not our deadline.
                self._stop, self._error = StopReason.ERROR, RolloutError(f"unexpected {describe_error(error)}")
                return
            self._stop = StopReason.CUT if self._is_cut else StopReason.DEADLINE
            self._answer_late()
        except ContextLengthError as error:
            self._stop, self._error = StopReason.CONTEXT_LENGTH, error
        except RolloutError as error:
            if error.kind == "cancelled" or isinstance(error, ReplayMismatch) or error.kind == "journal":
                raise
            log.warning("%s: %s: %s", self.trajectory, error.kind, error)
            self._stop, self._error = StopReason.ERROR, error
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            self._stop = StopReason.ERROR
            self._error = RolloutError("a model, a world or a user raised CancelledError, though nothing was cancelled")
            log.warning("%s: %s", self.trajectory, self._error)
        except Exception as error:
            log.exception("%s: unexpected error", self.trajectory)
            self._stop, self._error = StopReason.ERROR, RolloutError(f"unexpected {describe_error(error)}")
        finally:
            self._clock = None

    async def _begin(self, opening: Opening) -> None:
        """What the world shows before the agent acts is the path's first node."""
        self._opening_state = await self._states.read()
        if opening.observation is not None:
            self._keep_images(opening.images)
            self._append([NodeBody("observation", message=opening.observation, data=opening.data)])

    async def _open_worlds(self) -> Opening:
        seed = self._plan.world_seed(self._task)
        opening = await self._world.open(self._task, seed)
        if opening.tools is not self._plan.toolset:
            self._reader = CallReader(opening.tools)
        if opening.observation is not None:
            shown, data = mask_message(opening.observation), mask_data(opening.data)
            opening = msgspec.structs.replace(opening, observation=shown, data=data)
        await self._user_side.open(self._task, seed)
        return opening

    async def _close_worlds(self) -> None:
        try:
            await self._world.close()
        finally:
            await self._user_side.close()

    async def _go_to_start(self, opening: Opening) -> None:
        """Bring a new world to the state at a node that others grew: by a snapshot, or by replaying their calls."""
        acted = next((node for node in self._start.up() if node.body.kind == "tool"), None)
        if acted is not None and acted.snapshot is not None:
            await self._world.restore(acted.snapshot)
            return
        bodies = [node.body for node in self._start.path()[self._tree.trunk.depth + 1 :]]
        if calls_any(bodies, self._plan.irreversible):
            raise BranchMismatch("a call on the way is irreversible and is not made again")
        try:
            check_opening(opening, bodies)
            await self._replay(bodies)
        except ReplayMismatch as error:
            raise BranchMismatch(str(error)) from error

    async def _replay(self, bodies: Sequence[NodeBody]) -> None:
        await replay(bodies, self._answer_agent, self._user_side.answer)

    async def _answer_agent(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        return await answer_calls(calls, self._reader, self._world)

    def _own_sums(self, head: Head) -> Sums:
        """What this episode added, for sums over all: shared parts of paths are counted once."""
        return self._count.sums(is_scored=head.scored) - self._inherited

    def _answer_late(self) -> None:
        """Calls whose answers come too late are answered as such: no record ends in open calls."""
        text = "the conversation's time was over"
        self._append_results([failed_result(call.id, "timeout", f"{call.name}: {text}") for call in self._pending])

    # ---- the loop -----------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        if self._pending:
            results = await self._answer_agent(self._pending)
            self._append_results(results, state=await self._states.read())
            if self._plan.strategy.branches and not self._user_side.has_world:
                self.leaf.snapshot = await self._world.snapshot()
                self._record.keep_snapshot(self.id, self.leaf.place, self.leaf.snapshot)
        elif self._user_side.pending:
            results = await self._user_side.answer(self._user_side.pending)
            self._append_results(results, "user_tool", await self._states.read())
        elif self._last is not None and self._last.role != "assistant":
            if self._count.steps >= self._max_steps:
                self._stop = StopReason.MAX_STEPS
            else:
                await self._generate()
        else:
            await self._ask_user()

    async def _generate(self) -> None:
        await self._be_durable()
        view = self._view
        seed = seeds.derive(self._seed, self._place)
        sent = self._dialect.sent(self._tools)
        request = Request(view.messages, view.wire, sent, self._sampling, seed, prefix=self._prefix)
        if self._plan.takes_ids and view.rewritten is None:
            request.ids, request.covered = self._count.tokens.known, self._covered
        version = self._control.weight_version
        agent = self._plan.agent
        if isinstance(agent, ReferenceModel):
            turn = self._task.turn_after(self._users_heard)
            answer = await agent.play(request, Reference(self._task, turn, view.path, self._tools))
        else:
            answer = await agent.generate(request)
        generation = self._dialect.read(answer, seed)
        if version is not None and generation.weight_version is None:
            generation = msgspec.structs.replace(generation, weight_version=version)
        self._control.charge(generation.cost)
        if generation.tokens is not None:
            tokens = self._count.tokens.relate(generation.tokens, view.rewritten)
            generation = msgspec.structs.replace(generation, tokens=tokens)
        marks = (MASKED,) if generation.is_masked else ()
        self._append([NodeBody("generation", generation=generation, marks=marks)])

    async def _be_durable(self) -> None:
        """Wait for what was paid for to be safe, before anything more is asked of any model."""
        if self._batch is not None:
            await self._record.settle(self._batch)
            self._control.go_on()

    def _append_results(
        self, results: list[ToolResult], kind: Literal["tool", "user_tool"] = "tool", state: str | None = None
    ) -> None:
        for result in results:
            self._keep_images(result.images)
        if results:
            bodies = [
                NodeBody(
                    kind,
                    message=result.to_message(),
                    error_kind=result.error_kind,
                    is_undone=result.is_undone,
                    end=result.end,
                    data=result.data,
                )
                for result in results
            ]
            if state is not None:
                bodies[-1] = msgspec.structs.replace(bodies[-1], state_key=state)
            self._append(bodies)

    def _keep_images(self, images: Sequence[Image]) -> None:
        for image in images:
            self._record.keep_image(image)

    async def _ask_user(self) -> None:
        if self._user is None:
            if self._count.generations == 0:
                raise ConfigError("the task's opening leaves nothing to answer: it must end with a user's message")
            self._stop = StopReason.AGENT_DONE
            return
        await self._be_durable()
        if self._monitor is not None and self._plan.judge is not None and not self._is_judged and self._dialogue:
            await self._ask_judge(self._monitor)
            return
        reply = await self._user.reply(self._dialogue)
        if reply.generation is not None:
            self._control.charge(reply.generation.cost)
        if reply.calls:
            if self._user_side.steps >= self._plan.max_steps:
                self._append([NodeBody("user", generation=reply.generation, end="silent")])
                return
            asked = Message(role="user", tool_calls=reply.calls)
            self._append([NodeBody("user_call", message=asked, generation=reply.generation)])
            return
        if reply.end is None and self._count.turns >= self._plan.max_turns:
            # The agent may not answer any more, so these words would hang at the end of the record. Their cost counts.
            self._append([NodeBody("user", generation=reply.generation, end="max_turns")])
            return
        marks: tuple[str, ...] = (ASKED_AGAIN,)
        if not reply.asks_again:
            marks = check_reply(self._task, self._dialogue, reply.text, reply.end)
        message = Message(role="user", content=reply.text) if reply.text is not None else None
        generation = reply.generation
        self._append([NodeBody("user", message=message, generation=generation, end=reply.end, marks=marks)])

    async def _ask_judge(self, monitor: Monitor) -> None:
        verdict = await monitor.judge(self._dialogue, seeds.derive(self._seed, self._place, "judge"))
        if verdict.generation is not None:
            self._control.charge(verdict.generation.cost)
        marks = (UNJUDGED,) if verdict.is_complete is None else ()
        end: End | None = "judged_complete" if verdict.is_complete else None
        self._append([NodeBody("judge", generation=verdict.generation, end=end, marks=marks)])

    # ---- the path -----------------------------------------------------------------------------------------------

    def _append(self, bodies: list[NodeBody]) -> None:
        """Grow the path: into the journal, into the tree, into everything that follows from it."""
        if self._opening_state is not None:
            bodies[0] = msgspec.structs.replace(bodies[0], state_key=self._opening_state)
            self._opening_state = None
        self._batch = self._record.put(self.id, self._place, bodies)
        for body in bodies:
            self._grow(body)
            for observer in self._observers:
                observer.node_added(self._plan.name, self.trajectory, body)

    def _grow(self, body: NodeBody) -> None:
        self.leaf = self._tree.append(self.leaf, body, self.id, self._place)
        self._place += 1
        if body.kind == "generation":
            # What a branch begins with belongs to its first generation alone.
            self._prefix = None
        self._absorb(body)

    def _absorb(self, body: NodeBody) -> None:
        count = self._count
        self._states.absorb(body)
        if body.generation is not None:
            count.saw(body)
        count.marks.extend(body.marks)
        if body.is_private:
            assert body.message is not None
            self._dialogue.append(body.message)
            said = len(self._view.path) - (self._system is not None)
            self._user_side.absorb(body, self._task.turn_after(self._users_heard + 1), said)
            return
        self._is_judged = body.kind == "judge"
        message = body.said
        if body.end is not None:
            self._stop = _ENDS[body.end]
        if message is None:
            return
        self._last = message
        if body.kind == "generation":
            self._view.rewritten = None
        self._view.add(message, body.data)
        if body.kind == "generation":
            self._covered = len(self._view.messages)
            if body.generation is not None and body.generation.is_masked:
                # The answer is sent with a mask where the secret was, so the ids so far do not lead to it.
                self._view.rewritten = "text"
        if message.role == "tool":
            self._pending = ()
            count.tool_results += 1
            if body.error_kind is not None:
                count.tool_errors[body.error_kind] = count.tool_errors.get(body.error_kind, 0) + 1
            if self._monitor is not None and self._stop is None:
                self._stop = self._monitor.saw_result(message, body.error_kind)
        elif body.kind == "observation":
            pass  # shown by the world, said by nobody
        elif message.role == "user":
            self._dialogue.append(message)
            count.steps = self._user_side.steps = 0
            count.turns += body.end is None
            self._asked_again += ASKED_AGAIN in body.marks
            self._offer_tools(self._task.turn_after(self._users_heard))
        elif message.role == "assistant":
            count.steps += 1
            self._pending = message.tool_calls
            self._said_something = has_words(message.content)
            if self._said_something:
                self._dialogue.append(Message(role="assistant", content=message.content))
            elif not message.tool_calls:
                self._dialogue.append(Message(role="assistant", content=""))
            if self._monitor is not None and body.kind == "generation":
                self._stop = self._monitor.saw_generation(message)

    @property
    def _users_heard(self) -> int:
        """User messages that open a turn of the task: all but those that only ask again."""
        return self._count.turns - self._asked_again

    def _offer_tools(self, turn: int) -> None:
        """The tools of a turn, which a suite may hand out one after the other."""
        tools = self._plan.environment.tools_for(self._task, max(turn, 0))
        if tools is not self._tools and tools.wire != self._tools.wire:
            self._tools = tools
            self._offers.append((turn, tools))
            self._view.rewritten = "tools"

    # ---- the end ------------------------------------------------------------------------------------------------

    async def _score(self, trajectory: Trajectory) -> Verdict:
        """What the scorers say. Not of what broke: a failure of infrastructure is never a score."""
        assert self._stop is not None
        if self._stop in UNSCORED:
            return Verdict(unscored=UNSCORED[self._stop])
        if not self._is_in_step:
            return Verdict(unscored="its world was not ready within timeouts.episode")
        if self._plan.panel.asks_models:
            await self._be_durable()
        verdict = await self._plan.panel.judge(self._task, trajectory, self._world, self._close_worlds)
        for generation in verdict.asked:
            self._control.charge(generation.cost)
            self._append([NodeBody("judge", generation=generation)])
        return verdict

    def _prompt_name(self, tools: Toolset) -> str:
        """The blob of system prompt and tools: the dataset's, or this task's own where it brings its own tools."""
        if tools is self._plan.toolset:
            return str(self._plan.identity["system prompt and tools"])
        return self._record.keep_blob(self._plan.prompt(tools))

    def _ending(self) -> Ending:
        assert self._stop is not None
        prompts = [(turn, self._prompt_name(tools)) for turn, tools in self._offers]
        # An empty last word is no proper end, but where the world takes an answer none is needed.
        has_ended = self._said_something or self._stop in WORDLESS_ENDS
        return Ending(
            trajectory=self.trajectory,
            plan=self._plan,
            task=self._task,
            seed=self._seed,
            branch=self._branch,
            count=self._count,
            stop=self._stop,
            error=self._error,
            tools=self._tools,
            prompts=prompts,
            states=self._states.of_steps if self._plan.record_states else None,
            user_calls=self._user_side.calls,
            captions=self._view.captions,
            ended_properly=bool(self._dialogue and has_ended),
            started=self._started,
        )
