"""Counts of each rank of a cluster, for the display and metrics.json."""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON


class RankCounts(msgspec.Struct):
    """What a rank has done in this command, for people."""

    rank: int
    host: str = ""
    share: float = 0.0
    """Of `max_workers`, and of the tasks where ranks have weights."""
    slots: int = 0
    """Episodes that it may have at once."""
    running: int = 0
    taken: int = 0
    """Episodes that it was given."""
    stolen: int = 0
    """Of these, how many were beyond its share: others were behind, or dead."""
    done: int = 0
    failed: int = 0
    steps: int = 0
    """Answers of models."""
    restarts: int = 0
    is_live: bool = False
    seconds: float = 0.0
    """How long it was there."""

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds else 0.0

    def cells(self) -> dict[str, str]:
        """For a table."""
        return {
            "rank": str(self.rank),
            "host": self.host if self.is_live else f"{self.host} (gone)",
            "share": f"{self.share:.0%} ({self.slots})",
            "live": str(self.running),
            "done": str(self.done),
            "failed": str(self.failed),
            "steps/s": f"{self.steps_per_second:.1f}",
            "stolen": str(self.stolen),
            "restarts": str(self.restarts),
        }

    def to_json(self) -> JSON:
        """For metrics.json."""
        return {**msgspec.structs.asdict(self), "steps_per_second": round(self.steps_per_second, 3)}
