"""A path that is being grown: its nodes, and everything that follows from them.

The view that the model is sent, the dialogue that the user hears, counters, monitor, offered tools, pending calls and
the stop reason are all fed by `absorb`, node by node, and by nothing else. So resuming is no special case: the saved
nodes are absorbed. A branch is none either: it absorbs what others grew.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from rollout.agents.monitor import Monitor
from rollout.agents.users.user import ASKED_AGAIN, User
from rollout.core.messages import Image, Message, ToolCall, ToolResult, has_words
from rollout.core.results import failed_result
from rollout.core.world import World
from rollout.engine.control import Control
from rollout.engine.counts import Counts
from rollout.engine.observer import Observer
from rollout.engine.plan import AttemptSpec, Plan
from rollout.engine.state_keys import StateKeys
from rollout.engine.user_tools import UserSide
from rollout.store.blobs import file_url, image_url
from rollout.store.record import Record
from rollout.trajectories.stop import StopReason
from rollout.trajectories.sums import Sums
from rollout.trajectories.tree import End, Node, NodeBody, RolloutTree

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


class LivePath:
    """The path of one episode, from the root of its tree to `leaf`."""

    def __init__(
        self,
        plan: Plan,
        attempt: AttemptSpec,
        tree: RolloutTree,
        start: Node,
        record: Record,
        control: Control,
        observers: Sequence[Observer],
        world: World,
        user: User | None,
    ) -> None:
        task = attempt.task
        self.leaf = start
        self.place = 0
        """The number of nodes that this episode has added."""
        self.stop: StopReason | None = None
        self.pending: tuple[ToolCall, ...] = ()
        """Calls that the agent has asked for and that are not answered."""
        self.is_closed = False
        """Whether its agent has returned. What the agent still waited for comes too late for the record."""
        self.last: Message | None = None
        self.dialogue: list[Message] = []
        """What the user has heard."""
        self.count = Counts()
        self.tools = plan.environment.tools_for(task, 0)
        self.offers = [(0, self.tools)]
        """The tools that were offered, each with the turn from which on."""
        self.is_judged = False
        """Whether the monitor's judge has been asked since the last message."""
        self.has_spoken = False
        """Whether the agent's last message has words."""
        self.covered = 0
        """The number of the view's messages that are in the token ids of the path."""
        self.prefix = attempt.prefix
        self.opening_state: str | None = None
        """The key of the world's first state, until the first node takes it."""
        self.user_side = UserSide(user)
        self.states = StateKeys(plan.name, world, plan.record_states)
        self.monitor = Monitor(plan.monitor, plan.judge) if plan.monitor is not None else None
        self.system = plan.viewing.dialect.system(plan.system, self.tools)
        url_of = file_url if plan.viewing.images == "file" else image_url
        self.view = plan.viewing.open(self.system, len(task.messages), functools.partial(url_of, record.folder))
        self._plan = plan
        self._attempt = attempt
        self._tree = tree
        self._record = record
        self._control = control
        self._observers = observers
        self._asked_again = 0
        self._batch: Any | None = None
        for node in start.path():
            self.absorb(node.body)
        # What a path had cost where this episode branched off is counted by the trajectory that it branched from.
        self.inherited = self.count.sums() if start is not tree.trunk else Sums()

    @property
    def turn(self) -> int:
        """The conversation turn, as reference actions count turns."""
        return self._attempt.task.turn_after(self._users_heard)

    @property
    def _users_heard(self) -> int:
        """User messages that open a turn of the task: all but those that only ask again."""
        return self.count.turns - self._asked_again

    # ---- growing ------------------------------------------------------------------------------------------------

    def append(self, *bodies: NodeBody) -> None:
        """Grow the path: into the journal, into the tree, into everything that follows from it."""
        now = time.time()
        nodes = [msgspec.structs.replace(body, added=now) for body in bodies]
        if self.opening_state is not None:
            nodes[0] = msgspec.structs.replace(nodes[0], state_key=self.opening_state)
            self.opening_state = None
        self._batch = self._record.put(self._attempt.id, self.place, nodes)
        for body in nodes:
            self.grow(body)
            for observer in self._observers:
                observer.node_added(self._plan.name, self._attempt.trajectory, body)

    def append_results(
        self, results: Sequence[ToolResult], kind: Literal["tool", "user_tool"] = "tool", state: str | None = None
    ) -> list[Message]:
        """Add the answers to all calls of one message, and return them. `state`: the key of the world's state behind
        them."""
        if not results:
            return []
        for result in results:
            self.keep_images(result.images)
        messages = [result.to_message() for result in results]
        bodies = [
            NodeBody(
                kind,
                message=message,
                error_kind=result.error_kind,
                is_undone=result.is_undone,
                end=result.end,
                data=result.data,
            )
            for result, message in zip(results, messages, strict=True)
        ]
        if state is not None:
            bodies[-1] = msgspec.structs.replace(bodies[-1], state_key=state)
        self.append(*bodies)
        return messages

    def answer_late(self) -> None:
        """Answer pending calls whose answers come too late: no record ends in open calls."""
        text = "the conversation's time was over"
        self.append_results([failed_result(call.id, "timeout", f"{call.name}: {text}") for call in self.pending])

    def keep_images(self, images: Sequence[Image]) -> None:
        """Write images to the blobs."""
        for image in images:
            self._record.keep_image(image)

    def grow(self, body: NodeBody) -> None:
        """Add a node that is on record already."""
        self.leaf = self._tree.append(self.leaf, body, self._attempt.id, self.place)
        self.place += 1
        if body.kind == "generation":
            # What a branch begins with belongs to its first generation alone.
            self.prefix = None
        self.absorb(body)

    async def be_durable(self) -> None:
        """Wait for what was paid for to be safe, before anything more is asked of any model. Raises `Paused`."""
        if self._batch is not None:
            await self._record.settle(self._batch)
            self._control.go_on()

    def refuse_late(self) -> None:
        """Called by what has waited for something, before it adds that to the path. Where the agent has returned
        meanwhile, it left that task behind: it ends as cancelled, which asyncio does not report."""
        if self.is_closed:
            raise asyncio.CancelledError

    # ---- what follows from a node -------------------------------------------------------------------------------

    def absorb(self, body: NodeBody) -> None:
        """Take in the next node of the path."""
        count = self.count
        self.states.absorb(body)
        if body.generation is not None:
            count.saw(body)
        count.marks.extend(body.marks)
        if body.is_private:
            assert body.message is not None
            self.dialogue.append(body.message)
            said = len(self.view.path) - (self.system is not None)
            self.user_side.absorb(body, self._attempt.task.turn_after(self._users_heard + 1), said)
            return
        self.is_judged = body.kind == "judge"
        count.steps += body.kind == "aside"
        message = body.said
        if body.end is not None:
            self.stop = _ENDS[body.end]
        if message is None:
            return
        if body.kind == "note":
            self._take_back_unsaid()
        self.last = message
        if body.kind == "generation":
            self.view.rewritten = None
        self.view.add(message, body.data)
        if body.generation is not None and body.kind == "generation" and not body.generation.is_scripted:
            self.covered = len(self.view.messages)
            if body.generation.is_masked:
                # The answer is sent with a mask where the secret was, so the ids so far do not lead to it.
                self.view.rewritten = "text"
        if message.role == "tool":
            self._absorb_result(body, message)
        elif body.kind == "observation" or body.kind == "note":
            pass  # shown by the world or the agent's program, not said to anybody
        elif message.role == "user":
            self.dialogue.append(message)
            count.steps = self.user_side.steps = 0
            count.turns += body.end is None
            self._asked_again += ASKED_AGAIN in body.marks
            self._offer_tools()
        elif message.role == "assistant":
            self._absorb_answer(body, message)

    def _absorb_result(self, body: NodeBody, message: Message) -> None:
        self.pending = ()
        self.count.tool_results += 1
        if body.error_kind is not None:
            self.count.tool_errors[body.error_kind] = self.count.tool_errors.get(body.error_kind, 0) + 1
        if self.monitor is not None and self.stop is None:
            self.stop = self.monitor.saw_result(message, body.error_kind)

    def _absorb_answer(self, body: NodeBody, message: Message) -> None:
        self.count.steps += 1
        self.pending = message.tool_calls
        self.has_spoken = has_words(message.content)
        if self.has_spoken:
            self.dialogue.append(Message(role="assistant", content=message.content))
        elif not message.tool_calls:
            self.dialogue.append(Message(role="assistant", content=""))
        if self.monitor is not None and body.kind == "generation":
            self.stop = self.monitor.saw_generation(message)

    def _take_back_unsaid(self) -> None:
        """An agent that goes on with a note after an answer of words did not say these words to the user."""
        if self.last is None or self.last.role != "assistant" or self.last.tool_calls or not self.dialogue:
            return
        self.dialogue.pop()
        if self.monitor is not None:
            self.monitor.take_back()

    def _offer_tools(self) -> None:
        """The tools of a turn, which a suite may hand out one after the other."""
        turn = self.turn
        tools = self._plan.environment.tools_for(self._attempt.task, max(turn, 0))
        if tools is not self.tools and tools.wire != self.tools.wire:
            self.tools = tools
            self.offers.append((turn, tools))
            self.view.rewritten = "tools"
