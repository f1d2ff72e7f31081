"""Failures as they happen: each cause is reported when it first comes, and counted from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollout.core.messages import Message
from rollout.trajectories.causes import Causes, describe_cause
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody


class FailureReport:
    """Reports the first failure of each cause. An observer."""

    def __init__(self, report: Callable[[str], None], registry_file: str | None) -> None:
        self._report = report
        self._registry_file = registry_file
        self._causes = Causes()

    def lines(self) -> list[str]:
        """Each cause with its number, the most frequent first."""
        return [f"{cause.count} × {self._described(cause.text, cause.check)}" for cause in self._causes.listed()]

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        """Nothing to report."""

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        """Nothing to report."""

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        """Count a failure, and report it if it is the first of its cause."""
        if head is None or head.status != "failed":
            return
        cause = self._causes.add(head.error)
        if cause is not None:
            self._report(f"{trajectory} failed: {self._described(cause.text, cause.check)}")

    def _described(self, text: str, check: str | None) -> str:
        return describe_cause(text, check, self._registry_file)
