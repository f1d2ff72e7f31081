"""The form `per_step`: a row of each exchange, with exactly the context that the model saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.form import RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import RowMaker, advantages_of
from rollout.trajectories.rows.stretches import Stretch, per_step
from rollout.trajectories.rows.text_rows import TextRow, row_as_sent


class PerStep(RowForm):
    """One exchange: the request exactly as it was sent, and its answer."""

    has_advantages: ClassVar[bool] = True

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        return StepMaker(tokens.has_ids(tokens.any_ids), tokens.tokenizer, tokens.image_column)


class StepMaker(RowMaker, frozen=True):
    """Rows of one exchange each."""

    def divide(self, exchanges: Iterable[Exchange]) -> Iterator[Stretch]:
        return per_step(exchanges)

    def text(self, attempted: Attempted, stretch: Stretch) -> TextRow:
        (exchange,) = stretch.exchanges
        advantages = advantages_of(attempted, stretch)
        return row_as_sent(attempted.id, exchange, None if advantages is None else advantages[0])
