"""The user's turn: what is said to the agent next, with what the user does before it speaks."""

from __future__ import annotations

from rollout.agents.users.faults import check_reply
from rollout.agents.users.user import ASKED_AGAIN, User
from rollout.core import seeds
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.engine.control import Control
from rollout.engine.counts import UNJUDGED
from rollout.engine.path import LivePath
from rollout.engine.plan import AttemptSpec, Plan
from rollout.trajectories.stop import StopReason
from rollout.trajectories.tree import End, NodeBody


class UserTurn:
    """Asks the user of one episode. Before it, the monitor's judge may end the conversation, and the user may call
    tools of its own; all of it is nodes of the path."""

    def __init__(self, plan: Plan, attempt: AttemptSpec, path: LivePath, user: User | None, control: Control) -> None:
        self._plan = plan
        self._attempt = attempt
        self._path = path
        self._user = user
        self._control = control

    async def hear(self) -> str | None:
        """The user's next words; None where the conversation is over."""
        path = self._path
        while path.stop is None:
            if path.user_side.pending:
                results = await path.user_side.answer(path.user_side.pending)
                state = await path.states.read()
                path.refuse_late()
                path.append_results(results, "user_tool", state)
                self._control.go_on()
                continue
            await self._ask_user()
            if (said := path.leaf.body).kind == "user" and path.stop is None:
                return said.message.content if said.message is not None else None
            self._control.go_on()
        return None

    async def _ask_user(self) -> None:
        path, plan = self._path, self._plan
        if self._user is None:
            if path.count.generations == 0:
                raise ConfigError("the task's opening leaves nothing to answer: it must end with a user's message")
            path.stop = StopReason.AGENT_DONE
            return
        await path.be_durable()
        path.refuse_late()
        if path.monitor is not None and plan.judge is not None and not path.is_judged and path.dialogue:
            await self._ask_judge()
            return
        reply = await self._user.reply(path.dialogue)
        if reply.generation is not None:
            self._control.charge(reply.generation.cost)
        path.refuse_late()
        if reply.calls:
            if path.user_side.steps >= plan.max_steps:
                path.append(NodeBody("user", generation=reply.generation, end="silent"))
                return
            asked = Message(role="user", tool_calls=reply.calls)
            path.append(NodeBody("user_call", message=asked, generation=reply.generation))
            return
        if reply.end is None and path.count.turns >= plan.max_turns:
            # The agent may not answer any more, so these words would hang at the end of the record. Their cost counts.
            path.append(NodeBody("user", generation=reply.generation, end="max_turns"))
            return
        marks: tuple[str, ...] = (ASKED_AGAIN,)
        if not reply.asks_again:
            marks = check_reply(self._attempt.task, path.dialogue, reply.text, reply.end)
        message = Message(role="user", content=reply.text) if reply.text is not None else None
        path.append(
            NodeBody(
                "user",
                message=message,
                generation=reply.generation,
                end=reply.end,
                marks=marks,
                author=reply.author,
            )
        )

    async def _ask_judge(self) -> None:
        path = self._path
        assert path.monitor is not None
        verdict = await path.monitor.judge(path.dialogue, seeds.derive(self._attempt.seed, path.place, "judge"))
        if verdict.generation is not None:
            self._control.charge(verdict.generation.cost)
        path.refuse_late()
        marks = (UNJUDGED,) if verdict.is_complete is None else ()
        end: End | None = "judged_complete" if verdict.is_complete else None
        path.append(NodeBody("judge", generation=verdict.generation, end=end, marks=marks))
