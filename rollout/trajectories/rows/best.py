"""The attempts worth imitating: solved, then the highest reward, then the shortest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rollout.trajectories.rows.exchange import Attempted

Best = Literal["one", "all"]


def best_of(group: Sequence[Attempted], how_many: Best = "one") -> list[Attempted]:
    """Of the attempts at a task that succeeded, the best one, or all of them from the best on."""
    solved = [attempted for attempted in group if attempted.head.success]
    solved.sort(key=_rank)
    return solved[:1] if how_many == "one" else solved


def _rank(attempted: Attempted) -> tuple[float, int, int, int]:
    words = sum(len(exchange.answer.text) + len(exchange.answer.reasoning or "") for exchange in attempted.exchanges)
    # Without a reward it was checked by nobody, and comes last.
    worth = float("inf") if attempted.reward is None else -attempted.reward
    return worth, len(attempted.exchanges), words, attempted.number
