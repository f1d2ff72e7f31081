"""Stretches: which exchanges make up a row, in the conversion of many turns to single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from rollout.trajectories.rows.breaks import MASKED, START, STEP
from rollout.trajectories.rows.exchange import Exchange

FindBreak = Callable[[Exchange, Exchange], str | None]


class Stretch(msgspec.Struct, frozen=True):
    """The exchanges of one row, each of which goes on behind the one before it."""

    begins: str
    """Why it does not go on behind the stretch before it; `start` where there is none."""
    first: int
    """The place of its first exchange on the path."""
    exchanges: list[Exchange]

    @property
    def last(self) -> int:
        return self.first + len(self.exchanges) - 1

    @property
    def is_learnt(self) -> bool:
        """Whether there is anything to learn in it."""
        return any(exchange.is_learnt for exchange in self.exchanges)


def prefix_merge(exchanges: Iterable[Exchange], find_break: FindBreak, *, can_mask: bool = True) -> Iterator[Stretch]:
    """Stretches that are as long as can be. Without `can_mask` a row cannot leave out single answers; so an answer that
    is not learnt ends the stretch before it and is context of the next."""
    begins, first, stretch = START, 0, list[Exchange]()
    for place, exchange in enumerate(exchanges):
        cause = find_break(stretch[-1], exchange) if stretch else None
        if cause is None and stretch and not can_mask and not (exchange.is_learnt and stretch[-1].is_learnt):
            cause = MASKED
        if cause is not None:
            yield Stretch(begins, first, stretch)
            begins, first, stretch = cause, place, []
        stretch.append(exchange)
    if stretch:
        yield Stretch(begins, first, stretch)


def per_step(exchanges: Iterable[Exchange]) -> Iterator[Stretch]:
    """A stretch for each exchange."""
    for place, exchange in enumerate(exchanges):
        yield Stretch(STEP if place else START, place, [exchange])
