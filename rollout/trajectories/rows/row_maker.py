"""Rows, one after the other: the machinery that the forms of rows share.

A `RowMaker` divides the exchanges of each attempt into stretches and makes a row of each, of token ids or of messages.
By default a stretch goes on until the prefix breaks; forms that divide otherwise override a method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.exports.conversational import in_parts
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Column, Columns
from rollout.trajectories.rows.breaks import START, STEP, break_in_ids, break_in_text
from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.form import Account
from rollout.trajectories.rows.stretches import Stretch, prefix_merge
from rollout.trajectories.rows.text_rows import TextRow, images_of, text_row
from rollout.trajectories.rows.token_rows import token_row
from rollout.trajectories.rows.tokenising import ChatTokenizer

NO_IDS = "no token ids on record (--tokenizer makes some, --text needs none)"
NOTHING = "nothing to learn"
OWNER_COLUMNS: Columns = {"task_id": "text", "group_id": "text"}
_ROW_COLUMNS: Columns = {
    "id": "text",
    "trajectory_id": "text",
    **OWNER_COLUMNS,
    "row": "int",
    "rows": "int",
    "first_step": "int",
    "last_step": "int",
    "begins": "text",
    "reward": "float",
    "success": "bool",
    "status": "text",
    "finish_reasons": ["text"],
    "weight_versions": ["text"],
}
TOKEN_COLUMNS: Columns = {
    **_ROW_COLUMNS,
    "input_ids": ["id"],
    "attention_mask": ["bit"],
    "loss_mask": ["bit"],
    "labels": ["id"],
    "logprobs": ["number"],
    "advantages": ["number"],
    "prompt_length": "int",
    "exact": "bool",
}
TEXT_COLUMNS: Columns = {
    **_ROW_COLUMNS,
    "prompt": ["json"],
    "completion": ["json"],
    "tools": "json",
    "advantages": ["number"],
}


class RowMaker(msgspec.Struct, frozen=True):
    """Makes rows of attempts, each by itself."""

    compares: ClassVar[bool] = False
    has_ids: bool
    """Whether rows hold token ids; else they hold messages."""
    tokenizer: ChatTokenizer | None
    """Makes token ids where there are none."""
    image_column: Column | None = None
    """The type of an image in `images`; None: rows have no such column."""

    @property
    def columns(self) -> Columns:
        columns = TOKEN_COLUMNS if self.has_ids else TEXT_COLUMNS
        return columns if self.image_column is None else {**columns, "images": [self.image_column]}

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            try:
                stretches = self.stretches(attempted, account)
            except Unfit as error:
                account.drop(str(error))
                continue
            for number, stretch in enumerate(stretches):
                if stretch.begins not in (START, STEP):
                    account.note(f"rows begun by a break: {stretch.begins}")
                yield self._row(attempted, stretch, number, len(stretches))

    def _row(self, attempted: Attempted, stretch: Stretch, number: int, count: int) -> JSON:
        return {
            "id": f"{attempted.id}#{number}",
            "trajectory_id": attempted.id,
            "task_id": attempted.head.task_id,
            "group_id": attempted.group,
            "row": number,
            "rows": count,
            "first_step": stretch.first,
            "last_step": stretch.last,
            "begins": stretch.begins,
            "reward": attempted.reward,
            "success": attempted.head.success,
            "status": attempted.head.status,
            "finish_reasons": [exchange.finish_reason for exchange in stretch.exchanges],
            "weight_versions": [exchange.weight_version for exchange in stretch.exchanges],
            **(self._tokens(attempted, stretch) if self.has_ids else self._text(attempted, stretch)),
            **({} if self.image_column is None else {"images": images_of(stretch.exchanges[-1].request)}),
        }

    def stretches(self, attempted: Attempted, account: Account) -> list[Stretch]:
        """The stretches of an attempt that hold something to learn. Raises Unfit where there is none."""
        exchanges = list(self._prepared(attempted, account))
        learnt = [stretch for stretch in self.divide(exchanges) if stretch.is_learnt]
        if not learnt:
            raise Unfit(NOTHING)
        return learnt

    def exchanges(self, attempted: Attempted) -> Iterator[Exchange]:
        """What rows are made of: by default the exchanges as they were. Raises Unfit."""
        return iter(attempted.exchanges)

    def divide(self, exchanges: Iterable[Exchange]) -> Iterator[Stretch]:
        """The exchanges of each row: by default as many as go on behind one another."""
        find = break_in_ids if self.has_ids else break_in_text
        return prefix_merge(exchanges, find, can_mask=self.has_ids)

    def text(self, attempted: Attempted, stretch: Stretch) -> TextRow:
        """The row of a stretch in messages."""
        return text_row(attempted.id, stretch, advantages_of(attempted, stretch))

    def _prepared(self, attempted: Attempted, account: Account) -> Iterator[Exchange]:
        """The exchanges with token ids where these are wanted, and without a loss where they cannot be learnt."""
        for exchange in self.exchanges(attempted):
            if exchange.unsampled is not None:
                # A row of its own, with nothing to learn in it: it is not written.
                account.note(f"{exchange.unsampled}: not learnt")
                yield exchange
                continue
            if self.has_ids and exchange.ids is None:
                if self.tokenizer is None:
                    raise Unfit(NO_IDS)
                exchange = self.tokenizer.encode(exchange)
            if exchange.finish_reason == "length" and (exchange.ids is None or not exchange.ids.is_exact):
                # Whoever tokenises it would close it as if the model had ended it there.
                if exchange.is_learnt:
                    account.note("answers cut off by length: not learnt")
                exchange = msgspec.structs.replace(exchange, is_learnt=False)
            yield exchange

    def _tokens(self, attempted: Attempted, stretch: Stretch) -> JSON:
        row = token_row(attempted.id, stretch, advantages_of(attempted, stretch))
        return {
            "input_ids": row.ids.tolist(),
            "attention_mask": [1] * len(row.ids),
            "loss_mask": row.loss_mask,
            "labels": row.labels,
            "logprobs": _listed(row.logprobs),
            "advantages": _listed(row.advantages),
            "prompt_length": row.prompt_length,
            "exact": row.is_exact,
        }

    def _text(self, attempted: Attempted, stretch: Stretch) -> JSON:
        row = self.text(attempted, stretch)
        has_parts = self.image_column is not None
        return {
            "prompt": in_parts(row.prompt) if has_parts else row.prompt,
            "completion": in_parts(row.completion) if has_parts else row.completion,
            "tools": row.tools,
            "advantages": row.advantages,
        }


def advantages_of(attempted: Attempted, stretch: Stretch) -> list[float] | None:
    """The advantages of a stretch, one for each exchange; None where none are known."""
    return None if attempted.advantages is None else attempted.advantages[stretch.first : stretch.last + 1]


def _listed(values: Any) -> list[float] | None:
    return None if values is None else list(values)
