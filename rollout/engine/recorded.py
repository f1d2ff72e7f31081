"""The answers on record, for an agent that is run again from the start.

A foreign agent has no state that could be saved. It is resumed by running it again: each of its requests takes the
nodes that the request led to before, until the record is used up and the session is live. Where a request does not fit
the next node, the agent does something else than it did, and `ReplayMismatch` is raised.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence

from rollout.core.errors import ReplayMismatch
from rollout.core.messages import JSON, Message, ToolCall
from rollout.trajectories.tree import NodeBody

SCRIPTED = "scripted"
"""The mark of a message that the agent's program wrote, not its model."""
DECLINED = "declined"
"""The kind of error that answers a call which the agent did not make."""
USERS_SIDE = ("judge", "user_call", "user_tool")
"""Nodes between an agent's words and the user's reply, which the agent never sees."""


class RecordedAnswers:
    """The nodes of a path that an agent has not caught up with yet. False when there are none left."""

    def __init__(self, nodes: Sequence[NodeBody] = (), heard: int = 0) -> None:
        self.heard = heard
        """The number of messages that the agent knows of."""
        self.calls: tuple[ToolCall, ...] = ()
        """The calls of the last answer."""
        self.made: set[str] = set()
        """The ids of those calls that the agent has made."""
        self._nodes = deque(nodes)
        if self and self._nodes[0].kind == "observation":
            self._next()

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def mismatch(self, did: str) -> ReplayMismatch:
        """The error for an agent that did something else than the next node says."""
        return _mismatch(did, self._nodes[0])

    def take_answer(self) -> Message:
        """The answer of the agent's model."""
        body = self._next()
        if body.kind != "generation" or body.said is None or SCRIPTED in body.marks:
            raise _mismatch("asked its model", body)
        return body.said

    def take_aside(self, asked: JSON) -> Message | None:
        """The answer to a question aside; None where it was not answered yet. Several may have been asked at once and
        answered in any order, so each is known by what was asked."""
        for place, body in enumerate(self._nodes):
            if body.kind != "aside":
                raise _mismatch("asked its model something aside", body)
            if body.data == asked and body.generation is not None:
                del self._nodes[place]
                return body.generation.message
        return None

    def take_note(self, text: str) -> None:
        """An instruction of the agent's own."""
        body = self._next()
        if body.kind != "note" or body.said is None or body.said.content != text:
            raise _mismatch("wrote another instruction", body)

    def take_written(self, message: Message) -> None:
        """A message that the agent's program wrote."""
        body = self._next()
        if body.kind != "generation" or SCRIPTED not in body.marks or body.said != message:
            raise _mismatch("wrote another message", body)

    def take_reply(self) -> NodeBody | None:
        """The user's reply; None where the record ends before it."""
        while self._nodes:
            body = self._next()
            if body.kind == "user":
                return body
            if body.kind not in USERS_SIDE:
                raise _mismatch("spoke to the user", body)
        return None

    def results(self) -> dict[str | None, Message]:
        """The results of the last answer's calls: all of them, or none. The agent may have asked something aside before
        the last of them was made."""
        following = itertools.dropwhile(lambda body: body.kind == "aside", self._nodes)
        results = itertools.takewhile(lambda body: body.kind == "tool", following)
        return {body.said.tool_call_id: body.said for body in results if body.said is not None}

    def take_results(self, wanted: Sequence[ToolCall], found: Mapping[str | None, Message]) -> list[Message]:
        """The results of some calls, of those that `results` found. The agent may ask for them in any order."""
        missing = [call for call in wanted if call.id not in found]
        if missing:
            raise ReplayMismatch(f"the agent called {missing[0].name}, which is not on record there")
        self.made.update(call.id for call in wanted)
        if all(call.id in self.made for call in self.calls):
            self.made.clear()
            for _ in self.calls:
                if self._next().kind != "tool":
                    raise ReplayMismatch("the agent made its calls before it asked its model something aside")
            self.calls = ()
        return [found[call.id] for call in wanted]

    def decline_calls(self) -> None:
        """The agent goes on without the calls that it has not made."""
        while self._nodes and self._nodes[0].kind == "tool" and self.calls:
            body = self._next()
            was_made = body.said is not None and body.said.tool_call_id in self.made
            if body.error_kind != DECLINED and not was_made:
                raise _mismatch("went on without making its calls", body)
        self.made.clear()

    def _next(self) -> NodeBody:
        body = self._nodes.popleft()
        if body.said is not None:
            self.heard += 1
            if body.kind == "generation":
                self.calls = body.calls
            elif body.kind != "tool":
                self.calls = ()
        return body


def _mismatch(did: str, body: NodeBody) -> ReplayMismatch:
    return ReplayMismatch(f"the agent {did}, and {body.kind} is on record there")
