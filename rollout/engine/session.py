"""A live session: what an agent does, and how it becomes nodes of the path.

Before any model is asked again, the agent's or the user's, a session waits until what came before is durable: see
`rollout.store.journal`.

An agent that is run again over what is recorded is answered from the record first (`rollout.engine.recorded`). When the
record is used up, the session is live.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rollout.agents.agent import EpisodeOver
from rollout.agents.users.user import User
from rollout.core import seeds
from rollout.core.calls import answer_calls
from rollout.core.errors import AgentError, RolloutError, WorldError, describe_error
from rollout.core.messages import (
    NO_TOOLS,
    Message,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSpec,
    encode_message,
    message_from_json,
)
from rollout.core.results import DECLINED_TEXT
from rollout.core.world import Snapshot, World
from rollout.engine.control import Control
from rollout.engine.counts import MASKED
from rollout.engine.path import LivePath
from rollout.engine.plan import AttemptSpec, Plan
from rollout.engine.recorded import DECLINED, SCRIPTED, RecordedAnswers
from rollout.engine.user_turn import UserTurn
from rollout.models.model import Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.store.record import Record
from rollout.trajectories.generation import Generation
from rollout.trajectories.stop import StopReason
from rollout.trajectories.tree import NodeBody

SECOND_MESSAGE = (
    "a message or a call of the conversation is being waited for already; await one before the next generate(), say() "
    "or call(). Only questions about other messages, generate([…]), and calls of one answer may be under way at once"
)


class LiveSession:
    """The session of one episode. It is handed to the agent, and keeps the contract of `rollout.agents.agent`."""

    def __init__(
        self,
        plan: Plan,
        attempt: AttemptSpec,
        path: LivePath,
        world: World,
        user: User | None,
        record: Record,
        control: Control,
    ) -> None:
        self.error: RolloutError | None = None
        """What broke the session. An agent cannot go on after it, whatever it catches."""
        self.clock: asyncio.Timeout | None = None
        """Ends the attempt, also where the agent catches its cancellation."""
        self.reader = plan.reader
        """Reads calls; another one where the world brought its own tools."""
        self._plan = plan
        self._attempt = attempt
        self._path = path
        self._world = world
        self._user_turn = UserTurn(plan, attempt, path, user, control)
        self._record = record
        self._control = control
        self._max_steps = attempt.task.max_steps or plan.max_steps
        self._recorded = RecordedAnswers()
        self._made: dict[str, ToolResult] = {}
        """Results of pending calls, until all of them are there."""
        self._calling = asyncio.Lock()
        """Held while calls are made."""
        self._asides = 0
        """The number of questions aside so far."""
        self._is_asking = False
        """Whether the model or the user is being asked for the next message."""

    async def begin(self, recorded: Sequence[NodeBody]) -> None:
        """Make ready for an agent that is run from the start: answer it from these nodes first, which are the path from
        the task's opening on. Where the task has no opening, the user speaks first."""
        heard = len(self._path.view.path) - sum(body.said is not None for body in recorded)
        self._recorded = RecordedAnswers(recorded, heard)
        if all(message.role == "system" for message in self.messages):
            await self.say()

    # ---- what an agent sees -------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        return list(self._path.view.path[: self._count])

    @property
    def _count(self) -> int:
        """The number of messages that the agent knows of."""
        return self._recorded.heard if self._recorded else len(self._path.view.path)

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._path.tools.specs

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        calls = self._recorded.calls if self._recorded else self._path.pending
        made = {*self._made, *self._recorded.made}
        return tuple(call for call in calls if call.id not in made) if made else calls

    @property
    def is_over(self) -> bool:
        # Calls that were asked for are answered even where this is the end: no record ends in open calls.
        return not self._recorded and self._path.stop is not None and not self._path.pending

    @property
    def is_asked(self) -> bool:
        last = self._path.last
        return last is not None and last.role != "assistant"

    @functools.cached_property
    def random(self) -> random.Random:
        # A branch draws what the chain drew that it grew from: else it could not walk what they share.
        lineage = self._attempt.branch.get("lineage")
        seed = self._plan.episode_seed(self._attempt.task.id, lineage[0][0]) if lineage else self._attempt.seed
        return random.Random(seeds.derive(seed, "agent"))

    # ---- what an agent does -------------------------------------------------------------------------------------

    async def generate(self, prompt: str | Sequence[Message | Mapping[str, Any]] | None = None) -> Message:
        self._begin_step()
        try:
            if prompt is not None and not isinstance(prompt, str):
                return await self._ask_aside(prompt)
            self._refuse_second_message()
            self.decline_pending()
            if not self._recorded:
                self._refuse_further_answer()
            if prompt is not None:
                self._note(prompt)
            if self._recorded:
                return self._recorded.take_answer()
            self._is_asking = True
            try:
                return await self._generate()
            finally:
                self._is_asking = False
        except RolloutError as error:
            self._break(error)
            raise

    async def call(self, /, *calls: ToolCall | str, **arguments: Any) -> list[Message]:
        self._begin_step()
        try:
            # One after the other, in the order asked: also where an agent makes several at once.
            async with self._calling:
                self._path.refuse_late()
                if self._is_asking:
                    raise AgentError(SECOND_MESSAGE)
                if calls and isinstance(calls[0], str):
                    if len(calls) > 1:
                        raise AgentError(f"call {calls[0]}: give its arguments by name: call({calls[0]!r}, item=…)")
                    self.decline_pending()
                    self._write(Message(role="assistant", tool_calls=(self._own_call(calls[0], arguments),)))
                    calls = ()
                wanted = [call for call in calls if isinstance(call, ToolCall)] or self.pending
                if self._recorded and (results := self._recorded.results()):
                    return self._recorded.take_results(wanted, results)
                if self._path.stop is not None and not self._path.pending:
                    raise EpisodeOver
                return await self._call(wanted)
        except RolloutError as error:
            self._break(error)
            raise

    async def say(self, text: str | None = None) -> str | None:
        self._begin_step()
        try:
            if text is not None and not isinstance(text, str):
                raise AgentError(f"say: expected a text, got {text!r}")
            self._refuse_second_message()
            self.decline_pending()
            if text is not None and not self._has_just_said(text):
                self._write(Message(role="assistant", content=text))
            if (reply := self._recorded.take_reply()) is not None:
                return None if reply.end is not None or reply.said is None else reply.said.content
            self._refuse_end()
            self._is_asking = True
            try:
                return await self._user_turn.hear()
            finally:
                self._is_asking = False
        except RolloutError as error:
            self._break(error)
            raise

    def finish(self) -> None:
        """The agent has returned. Raises ReplayMismatch where it did so before it had done what is recorded."""
        if self._path.stop is None or self._recorded:
            self.decline_pending()
        if self._recorded:
            raise self._recorded.mismatch("returned")

    # ---- models -------------------------------------------------------------------------------------------------

    async def _generate(self) -> Message:
        path, plan = self._path, self._plan
        await path.be_durable()
        view = path.view
        seed = seeds.derive(self._attempt.seed, path.place)
        sent = plan.viewing.dialect.sent(path.tools)
        request = Request(view.messages, view.wire, sent, self._attempt.sampling, seed, prefix=path.prefix)
        if plan.takes_ids and view.rewritten is None:
            request.ids, request.covered = path.count.tokens.known, path.covered
        version = self._control.weight_version
        generation = plan.viewing.dialect.read(await self._ask(request, path.tools), seed)
        if version is not None and generation.weight_version is None:
            generation = msgspec.structs.replace(generation, weight_version=version)
        self._control.charge(generation.cost)
        path.refuse_late()
        if generation.tokens is not None:
            tokens = path.count.tokens.relate(generation.tokens, view.rewritten)
            generation = msgspec.structs.replace(generation, tokens=tokens)
        marks = (MASKED,) if generation.is_masked else ()
        path.append(NodeBody("generation", generation=generation, marks=marks))
        return generation.message

    async def _ask(self, request: Request, tools: Toolset) -> Generation:
        self._path.refuse_late()
        agent = self._plan.agent
        if isinstance(agent, ReferenceModel):
            reference = Reference(self._attempt.task, self._path.turn, self._path.view.path, tools)
            return await agent.play(request, reference)
        return await agent.generate(request)

    async def _ask_aside(self, prompt: Sequence[Message | Mapping[str, Any]]) -> Message:
        """Ask the model about something other than the conversation."""
        try:
            messages = [entry if isinstance(entry, Message) else message_from_json(dict(entry)) for entry in prompt]
            wire = [encode_message(message) for message in messages]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise AgentError(f"generate: expected a text or messages: {describe_error(error)}") from error
        number, self._asides = self._asides, self._asides + 1
        asked = {"number": number, "prompt": hashlib.blake2b(b",".join(wire), digest_size=8).hexdigest()}
        if (answer := self._recorded.take_aside(asked)) is not None:
            return answer
        self._refuse_further_answer()
        await self._path.be_durable()
        seed = seeds.derive(self._attempt.seed, "aside", number)
        generation = await self._ask(Request(messages, wire, NO_TOOLS, self._attempt.sampling, seed), NO_TOOLS)
        self._control.charge(generation.cost)
        self._path.refuse_late()
        self._path.append(NodeBody("aside", generation=generation, data=asked))
        return generation.message

    # ---- tools --------------------------------------------------------------------------------------------------

    async def answer_agent(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The world's answers to the agent's calls."""
        return await answer_calls(calls, self.reader, self._world)

    async def _call(self, wanted: Sequence[ToolCall]) -> list[Message]:
        path = self._path
        if not wanted:
            raise AgentError("there is no pending call; make one of your own: session.call(name, **arguments)")
        if wanted is not path.pending:
            by_id = {call.id: call for call in path.pending if call.id not in self._made}
            for call in wanted:
                if call.id not in by_id:
                    text = f"call {call.id} ({call.name}) is not pending; make a call of the last answer, once"
                    raise AgentError(text)
            wanted = [by_id[call.id] for call in wanted]
        results = await self.answer_agent(wanted)
        path.refuse_late()
        if self._recorded and len(wanted) + len(self._made) == len(path.pending):
            raise self._recorded.mismatch("made its calls")
        if len(wanted) == len(path.pending):
            return await self._append_results(results)
        self._made.update((result.call_id, result) for result in results)
        if all(call.id in self._made for call in path.pending):
            made, self._made = self._made, {}
            await self._append_results([made[call.id] for call in path.pending])
        return [result.to_message() for result in results]

    async def _append_results(self, results: Sequence[ToolResult]) -> list[Message]:
        path = self._path
        state = await path.states.read() if self._plan.record_states else None
        path.refuse_late()
        messages = path.append_results(results, state=state)
        if self._plan.strategy.branches and not path.user_side.has_world:
            path.leaf.snapshot = await self._snapshot()
            self._record.keep_snapshot(self._attempt.id, path.leaf.place, path.leaf.snapshot)
        return messages

    async def _snapshot(self) -> Snapshot | None:
        """The state of the world. Raises WorldError for whatever the world raises."""
        try:
            return await self._world.snapshot()
        except RolloutError:
            raise
        except Exception as error:
            raise WorldError(f"{type(self._world).__name__}.snapshot failed: {describe_error(error)}") from error

    def decline_pending(self) -> None:
        """Answer the calls that the agent did not make before it went on, or returned."""
        if self._recorded:
            self._recorded.decline_calls()
            return
        path = self._path
        if not path.pending:
            return
        made = self._made
        self._made = {}
        path.append_results([made.get(call.id) or _declined(call) for call in path.pending])

    def _own_call(self, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        try:
            return ToolCall(f"call_{self._count}", name, msgspec.json.encode(arguments).decode())
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"call {name}: the arguments have no JSON form: {error}") from error

    # ---- what the agent's program writes itself -----------------------------------------------------------------

    def _note(self, text: str) -> None:
        """Add an instruction of the agent's own to the conversation."""
        if self._recorded:
            self._recorded.take_note(text)
            return
        self._refuse_end()
        self._path.append(NodeBody("note", message=Message(role="user", content=text)))

    def _write(self, message: Message) -> None:
        """Add an assistant's message that the agent's program wrote."""
        if self._recorded:
            self._recorded.take_written(message)
            return
        self._refuse_end()
        reason: Any = "tool_calls" if message.tool_calls else "stop"
        written = Generation(message, reason, is_scripted=True)
        author = getattr(self._plan.program, "author", None)
        # What a person wrote counts as an answer: another agent may go on from it.
        marks = (SCRIPTED,) if author is None else ()
        self._path.append(NodeBody("generation", generation=written, marks=marks, author=author))

    def _has_just_said(self, text: str) -> bool:
        """Whether a text is that of the last answer, which need not be written again."""
        count = self._count
        last = self._path.view.path[count - 1] if count else None
        return last is not None and last.role == "assistant" and last.content == text

    # ---- what cannot go on ----------------------------------------------------------------------------------------

    def _refuse_end(self) -> None:
        if self._path.stop is not None:
            raise EpisodeOver

    def _refuse_further_answer(self) -> None:
        """End the attempt where its model has given all the answers that a turn may have."""
        self._refuse_end()
        if self._path.count.steps >= self._max_steps:
            self._path.stop = StopReason.MAX_STEPS
            raise EpisodeOver

    def _refuse_second_message(self) -> None:
        """What a model is asked must be what is recorded before its answer, so messages come one after the other."""
        if self._is_asking or self._calling.locked():
            raise AgentError(SECOND_MESSAGE)

    def _begin_step(self) -> None:
        """Check that the session can go on."""
        self._path.refuse_late()
        if self.error is not None or (self.clock is not None and self.clock.expired()):
            raise EpisodeOver
        if not self._recorded:
            try:
                self._control.go_on()
            except RolloutError as error:
                self._break(error)
                raise

    def _break(self, error: RolloutError) -> None:
        """Remember what broke the attempt (a model, the world, a pause), so that no agent can catch it and go on to a
        score. What the agent itself did wrong it may catch."""
        if not isinstance(error, AgentError):
            self.error = error


def _declined(call: ToolCall) -> ToolResult:
    text = f"{call.name}: {DECLINED_TEXT}"
    return ToolResult(call.id, text, is_error=True, error_kind=DECLINED, is_undone=True)
