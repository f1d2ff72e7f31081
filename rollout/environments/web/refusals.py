"""Hosts that pages could not reach because of the egress rule, counted over the trajectories of a dataset."""

from __future__ import annotations

from collections import Counter

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.trajectory import Trajectory

MAX_HOSTS = 100


class _Refused(msgspec.Struct, frozen=True):
    """The part of an observation's data that is counted."""

    refused_hosts: tuple[str, ...] = ()
    refused_between: tuple[str, ...] = ()


class RefusedHosts:
    """For each host, the observations in which it was refused: the section `refused_hosts` of metrics.json."""

    name = "refused_hosts"

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def take(self, trajectory: Trajectory, info: JSON | None) -> None:
        """Count a trajectory. Observations without data, of earlier versions, count as none."""
        for data in trajectory.data.values():
            refused = msgspec.convert(data, _Refused)
            self._count.update(refused.refused_hosts + refused.refused_between)

    def result(self) -> JSON:
        """The hosts that were refused most often come first."""
        return dict(self._count.most_common(MAX_HOSTS))
