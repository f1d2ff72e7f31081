"""Which trajectories an export takes: by status, success, stop reason, scores and marks."""

from __future__ import annotations

import msgspec

from rollout.trajectories.saved import SavedLine
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

    def reason_against(self, line: SavedLine) -> str | None:
        """Why a trajectory is left out, in words that can be counted; None where it is taken."""
        metadata = line.metadata
        if line.status not in self.statuses:
            return f"status {line.status}"
        if self.success is not None and line.success is not self.success:
            return "no success" if self.success else "success"
        if self.stop_reasons and metadata.get("stop_reason") not in self.stop_reasons:
            return f"stop reason {metadata.get('stop_reason')}"
        if self.min_scores:
            scores = {score["name"]: score.get("value") for score in metadata.get("scores") or ()}
            for name, least in self.min_scores:
                value = scores.get(name)
                if value is None:
                    return f"no score {name}"
                if value < least:
                    return f"score {name} below {least:g}"
        if not self.with_marks and not self.without_marks:
            return None
        marks = marks_of(line)
        if not self.with_marks <= marks:
            return f"without mark {min(self.with_marks - marks)}"
        if self.without_marks & marks:
            return f"mark {min(self.without_marks & marks)}"
        return None


def marks_of(line: SavedLine) -> set[str]:
    """A trajectory's marks; each kind of tool error counts as one (`tool_error:bad_arguments`)."""
    metadata = line.metadata
    return {*(metadata.get("marks") or ()), *(f"tool_error:{kind}" for kind in metadata.get("tool_errors") or ())}
