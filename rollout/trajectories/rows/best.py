"""The form `sft`: rows of the attempts worth imitating: solved, then the highest reward, then the shortest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import RowMaker

Best = Literal["one", "all"]


class BestAttempts(RowForm):
    """Rows of the best attempt at each task, for supervised training."""

    best: Best = "one"
    """Of each task the best attempt, or all that solved it."""

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        # The best attempts are mostly taught to another model, so ids are written only where they are asked for.
        return BestMaker(RowMaker(tokens.has_ids(False), tokens.tokenizer, tokens.image_column), self.best)


class BestMaker(msgspec.Struct, frozen=True):
    """Rows of the best attempts alone: supervised data."""

    compares: ClassVar[bool] = False
    rows: RowMaker
    how_many: Best = "one"

    @property
    def columns(self) -> Columns:
        return self.rows.columns

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        chosen = best_of(group, self.how_many)
        names = {attempted.id for attempted in chosen}
        for attempted in group:
            if attempted.id not in names:
                account.drop("no success" if not attempted.head.success else "not the best of its task")
        return self.rows.records(chosen, account)


def best_of(group: Sequence[Attempted], how_many: Best = "one") -> list[Attempted]:
    """Of the attempts at a task that succeeded, the best one, or all of them from the best on."""
    solved = [attempted for attempted in group if attempted.head.success]
    solved.sort(key=_rank)
    return solved[:1] if how_many == "one" else solved


def _rank(attempted: Attempted) -> tuple[float, int, int, int]:
    words = sum(len(exchange.answer.text) + len(exchange.answer.reasoning or "") for exchange in attempted.exchanges)
    # Without a reward it was not checked, and comes last.
    worth = float("inf") if attempted.reward is None else -attempted.reward
    return worth, len(attempted.exchanges), words, attempted.number
