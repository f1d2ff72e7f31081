"""The chat agent: the model answers, its tool calls are made, and what it says goes to the user."""

from __future__ import annotations

from rollout.agents.agent import Session
from rollout.core.task import Task


class ChatAgent:
    """Lets the model decide everything. What comes next follows from the last message alone, so a resumed attempt and a
    branch go on from wherever they are."""

    is_stateless = True

    async def act(self, task: Task, session: Session) -> None:
        while not session.is_over:
            if session.pending:
                await session.call()
            elif session.is_asked:
                await session.generate()
            else:
                await session.say()
