"""What tells one attempt at a task from all others: all that an episode needs to know beside its dataset's plan."""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON
from rollout.core.task import Task
from rollout.models.model import Prefix, Sampling


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at a task. It is the same wherever its episode runs."""

    id: int
    """Of its episode, in the journal."""
    trajectory: str
    task: Task
    branch: JSON
    """Where it branched off and why, as it stands in the trajectory's metadata."""
    seed: int
    sampling: Sampling
    prefix: Prefix | None = None
    """The first tokens of its first generation, where it branches inside of one."""
