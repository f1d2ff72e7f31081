"""Selection of trajectories for an export: by status, success, stop reason, scores, marks and people's marks."""

from __future__ import annotations

import msgspec

from rollout.trajectories.line import Head
from rollout.trajectories.person_marks import MarkSelection
from rollout.trajectories.stop import Status

FINISHED = frozenset({str(Status.COMPLETED), str(Status.TRUNCATED)})


class Selection(msgspec.Struct, frozen=True):
    """All that is given must hold."""

    statuses: frozenset[str] = FINISHED
    success: bool | None = None
    stop_reasons: frozenset[str] = frozenset()
    """Empty: any."""
    min_scores: tuple[tuple[str, float], ...] = ()
    with_marks: frozenset[str] = frozenset()
    without_marks: frozenset[str] = frozenset()
    people: MarkSelection = MarkSelection()

    def reason_against(self, head: Head) -> str | None:
        """Why a trajectory is left out, in words that can be counted; None where it is taken."""
        if head.status not in self.statuses:
            return f"status {head.status}"
        if self.success is not None and head.success is not self.success:
            return "no success" if self.success else "success"
        if self.stop_reasons and head.stop_reason not in self.stop_reasons:
            return f"stop reason {head.stop_reason}"
        if self.min_scores:
            scores = {score.name: score.value for score in head.scores}
            for name, least in self.min_scores:
                value = scores.get(name)
                if value is None:
                    return f"no score {name}"
                if value < least:
                    return f"score {name} below {least:g}"
        if self.people.is_given and (reason := self.people.reason_against(head.person_marks)) is not None:
            return reason
        if not self.with_marks and not self.without_marks:
            return None
        marks = marks_of(head)
        if not self.with_marks <= marks:
            return f"without mark {min(self.with_marks - marks)}"
        if self.without_marks & marks:
            return f"mark {min(self.without_marks & marks)}"
        return None


def marks_of(head: Head) -> set[str]:
    """A trajectory's marks; each kind of tool error counts as one (`tool_error:bad_arguments`)."""
    return {*head.marks, *(f"tool_error:{kind}" for kind in head.tool_errors)}
