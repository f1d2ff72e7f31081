"""The filter that does as people marked: what they call bad is not learnt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from rollout.trajectories.filters.filter import TurnFilter
from rollout.trajectories.filters.marks import Found, Policy
from rollout.trajectories.filters.texts import quote
from rollout.trajectories.filters.turns import Turn
from rollout.trajectories.person_marks import PersonMark
from rollout.trajectories.trajectory import Trajectory


class MarkedByPeople(TurnFilter):
    """Trajectories and steps that people marked as bad.

    A mark on a tool result is about the step that made the call. Marks on messages of the user are about no step.
    """

    policy: Policy = "mask_turn"
    """What becomes of a marked step. A mark on the whole trajectory drops it, unless this is `keep`."""
    labels: list[str] = []
    """Labels that mean bad, too."""
    verdict_below: float | None = Field(None, ge=0, le=1)
    """A verdict below this means bad, too."""
    authors: list[str] = []
    """Only their marks count; empty: those of all."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        for mark in trajectory.person_marks:
            reason = self._reason(mark)
            if reason is None:
                continue
            evidence = "" if mark.kind == "label" else quote(mark.text or "")
            if mark.message is None:
                yield Found(reason, evidence)
            elif (turn := _turn_of(trajectory, turns, mark.message)) is not None:
                yield Found(reason, evidence, turn)

    def _reason(self, mark: PersonMark) -> str | None:
        """Why a mark means bad; None where it does not."""
        if self.authors and mark.author not in self.authors:
            return None
        if mark.kind == "bad":
            return f"{mark.author} marked it bad"
        if mark.kind == "label" and mark.text in self.labels:
            return f"{mark.author} labelled it {mark.text}"
        if mark.kind == "verdict" and mark.value is not None and mark.value < (self.verdict_below or 0):
            return f"{mark.author} gave it the verdict {mark.value:g}"
        return None


def _turn_of(trajectory: Trajectory, turns: Sequence[Turn], message: int) -> int | None:
    """The turn that a message belongs to: its own, or for a tool result that of the call."""
    if message >= len(trajectory.messages):
        return None
    while message > 0 and trajectory.messages[message].role == "tool":
        message -= 1
    return next((turn.turn for turn in turns if turn.message == message), None)
