"""The simulated user that a model plays, from a brief of its own and with a view of its own.

Its model is given its part (guidelines and scenario) and sees the conversation from the other side: the assistant's
words come as `user`, its own as `assistant`. The agent's tool calls, their results and reasoning are never in its view;
where the user has tools of its own, its own calls and their results are.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollout.agents.users.user import UserReply, is_silence, read_reply, strip_markers
from rollout.agents.view import ContextView, ReasoningRule
from rollout.core import seeds
from rollout.core.errors import DeadlineError, ModelError, UserError
from rollout.core.messages import NO_TOOLS, Message, Role, Toolset
from rollout.core.task import Task
from rollout.core.world import World
from rollout.models.model import Model, Request, Sampling

SILENT_TRIES = 3
GUIDELINES = """\
You play a person who contacts a service and talks to its assistant. Stay in this role for the whole conversation.

How you talk:
- Write only what this person says next: one short message, in everyday words. No stage directions, no thoughts.
- Begin with the one thing that troubles you most, loosely described. Do not lay out everything you want at once.
- Bring up your next wish only when the present one is settled or has been refused.
- Give names, numbers and dates exactly as your scenario states them, and only when they are asked for or needed. \
What the scenario does not say, you do not know; say so instead of inventing it.
- You decide by your scenario, not by what the assistant recommends.
- When the assistant asks you to confirm something, answer that question and wait for the result. Do not end the \
conversation in the same message.

How you end:
- When everything in your scenario is settled, or has been finally refused, say goodbye and write ###STOP###
- When the assistant hands you over to somebody else, write ###TRANSFER###
- When you cannot answer from your scenario and the conversation cannot go on without it, write ###OUT-OF-SCOPE###"""
_FIRST = "(The line is open. Say your first sentence.)"
_SILENCE = "(The assistant has said nothing.)"


class ModelUser:
    """A user played by a model."""

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, model: Model, sampling: Sampling, task: Task, seed: int, guidelines: str | None = None) -> None:
        self._model = model
        self._sampling = sampling
        self._task = task
        self._seed = seed
        self._read = 0
        self._view = ContextView(user_prompt(task, guidelines), ReasoningRule.DROP)
        self._has_begun = False

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        if not self._has_begun:
            self._has_begun = True
            if not dialogue or not self._task.messages:
                # The user opens the conversation, and its model answers something all the same.
                self._view.add(Message(role="user", content=_FIRST))
        for message in dialogue[self._read :]:
            self._view.add(_from_the_other_side(message))
        self._read = len(dialogue)
        for attempt in range(SILENT_TRIES):
            seed = seeds.derive(self._seed, "user", len(dialogue), attempt)
            request = Request(self._view.messages, self._view.wire, self.tools, self._sampling, seed)
            try:
                generation = await self._model.generate(request)
            except (ModelError, DeadlineError) as error:
                failed = UserError(f"the simulated user's model failed: {error}", transient=error.transient)
                for note in getattr(error, "__notes__", ()):
                    failed.add_note(note)
                raise failed from error
            if generation.message.tool_calls and len(self.tools):
                return UserReply(None, generation=generation, calls=generation.message.tool_calls)
            text, end = read_reply(generation.message.content or "")
            if text is not None or end is not None:
                return UserReply(text, end, generation)
        return UserReply(None, end="silent", generation=generation)


def _from_the_other_side(message: Message) -> Message:
    if message.role == "tool":
        return message
    if is_silence(message):
        return Message(role="user", content=_SILENCE)
    role: Role = "assistant" if message.role == "user" else "user"
    return Message(role=role, content=message.content, tool_calls=message.tool_calls)


def user_prompt(task: Task, guidelines: str | None) -> str:
    """The brief of a model user: guidelines, and the task's scenario without its markers."""
    scenario = task.user_system_prompt
    if not scenario:
        parts = [str(task.info.get(key) or "") for key in ("reason_for_call", "instruction", "known_info")]
        scenario = "\n\n".join(part for part in parts if part)
    return f"{guidelines or GUIDELINES}\n\n<scenario>\n{strip_markers(scenario)}\n</scenario>"
