"""Groups: the attempts at one task, compared with one another."""

from __future__ import annotations

from collections.abc import Iterable


def is_mixed(rewards: Iterable[float | None]) -> bool:
    """Whether a group can teach something: two of its rewards differ. What has no reward says nothing."""
    return len({reward for reward in rewards if reward is not None}) > 1
