"""Calls that an agent makes again and again without getting any further.

A cycle is the same sequence of calls a second time: one turn's calls repeated at once (A-A), or a round of several
turns gone through once more (A-B-A-B). Not every cycle is a fault:

- Only the turns since the user last spoke are compared. A user who asks again gets the same call again.
- After a time-out or a crash, calling again is right.
- Calls that get somewhere in the end are polling or retrying: a round is excused if in this or a later round of the
  cycle a call got an answer that is no error and differs from the round before.

Going back to a call once (A-B-A) is no cycle: that is how an agent checks what it did.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rollout.core.messages import JSON, Message, ToolCall, read_arguments
from rollout.trajectories.filters.turns import Turn
from rollout.trajectories.trajectory import Trajectory

INFRASTRUCTURE = frozenset({"timeout", "crash"})
"""Kinds of error observations after which calling again is sensible."""
LONGEST_PERIOD = 4
"""Turns of the longest round that is looked for."""


class _Step:
    """The calls of one turn, with their answers."""

    def __init__(self, trajectory: Trajectory, turn: Turn) -> None:
        self.turn = turn
        self._trajectory = trajectory
        self._calls = trajectory.messages[turn.message].tool_calls
        self._names = [call.name for call in self._calls]
        self._texts = [call.arguments for call in self._calls]

    @functools.cached_property
    def _arguments(self) -> list[JSON]:
        return list(map(read_arguments, self._calls))

    @functools.cached_property
    def results(self) -> list[tuple[ToolCall, Message | None, str | None]]:
        return self._trajectory.answered_calls(self.turn.message)

    def asks_like(self, other: _Step) -> bool:
        """Whether two turns make the same calls, by what their arguments mean."""
        if self._names != other._names:
            return False
        return self._texts == other._texts or self._arguments == other._arguments

    @property
    def is_broken(self) -> bool:
        return any(kind in INFRASTRUCTURE for _, _, kind in self.results)

    def advances(self, other: _Step) -> bool:
        """Whether some call was answered otherwise than before, and not by an error."""
        pairs = zip(other.results, self.results, strict=True)
        return any(
            kind is None and (old is None or new is None or old.content != new.content)
            for (_, old, _), (_, new, kind) in pairs
        )


def find_cycles(trajectory: Trajectory, turns: Sequence[Turn], *, any_answer: bool) -> dict[int, int]:
    """The turns that only go through a cycle once more, each with the turns of a round. `any_answer`: what the world
    answered makes no difference."""
    found: dict[int, int] = {}
    steps: list[_Step] = []
    place = 0
    for turn in turns:
        if any(map(_is_wish, trajectory.messages[place : turn.message])):
            _search(steps, any_answer, found)
            steps = []
        place = turn.message
        if trajectory.messages[place].tool_calls:
            steps.append(_Step(trajectory, turn))
    _search(steps, any_answer, found)
    return found


def _is_wish(message: Message) -> bool:
    return message.role == "user" and bool((message.content or "").strip() or message.images)


def _search(steps: Sequence[_Step], any_answer: bool, found: dict[int, int]) -> None:
    for period in range(1, min(LONGEST_PERIOD, len(steps) // 2) + 1):
        begin = period
        while begin < len(steps):
            end = begin
            while end < len(steps) and steps[end].asks_like(steps[end - period]):
                end += 1
            # A stretch shorter than a round is a return, not a cycle.
            if end - begin >= period:
                _judge(steps, begin, end, period, any_answer, found)
            begin = end + 1


def _judge(steps: Sequence[_Step], begin: int, end: int, period: int, any_answer: bool, found: dict[int, int]) -> None:
    advances = [] if any_answer else [at for at in range(begin, end) if steps[at].advances(steps[at - period])]
    # The round that gets somewhere is excused as a whole.
    excused = advances[-1] + period if advances else begin
    for place in range(begin, end):
        if not steps[place - period].is_broken and place >= excused:
            found.setdefault(steps[place].turn.turn, period)
