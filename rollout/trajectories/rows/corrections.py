"""The form `corrections`: what an agent answered beside what a person wrote instead, for DPO.

The attempts that end at a correction lie in `people/` of their run. Each makes one pair: the request as it was sent,
the correction as the better answer and the original as the worse one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rollout.core.messages import JSON
from rollout.trajectories.exports.conversational import entries
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RowForm
from rollout.trajectories.rows.text_rows import read_text_request


class Corrections(RowForm):
    """Pairs of an answer and its correction by a person."""

    keeps_grown_on: ClassVar[bool] = True
    columns: ClassVar[Columns] = {
        "id": "text",
        "task_id": "text",
        "corrected_id": "text",
        "author": "text",
        "step": "int",
        "prompt": ["json"],
        "chosen": ["json"],
        "rejected": ["json"],
        "tools": "json",
    }

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            head = attempted.head
            corrected = head.corrected
            if corrected is None or not attempted.exchanges:
                account.drop("no correction")
                continue
            if len(attempted.exchanges) < _answers(attempted):
                account.drop("the correction was cut off by a filter")
                continue
            exchange = attempted.exchanges[-1]
            if exchange.is_masked:
                account.drop("the correction is masked by a filter")
                continue
            try:
                asked = read_text_request(exchange.request)
            except Unfit as error:
                account.drop(str(error))
                continue
            chosen, rejected = (entries([*asked, answer]) for answer in (exchange.answer, corrected.answer))
            yield {
                "id": attempted.id,
                "task_id": head.task_id,
                "corrected_id": None if head.branch is None else head.branch.parent,
                "author": head.author,
                "step": len(attempted.exchanges) - 1,
                "prompt": chosen[:-1],
                "chosen": chosen[-1:],
                "rejected": rejected[-1:],
                "tools": exchange.tools,
            }


def _answers(attempted: Attempted) -> int:
    """The agent's answers on record, those that a filter cut off included."""
    return sum(message.role == "assistant" for message in attempted.messages[attempted.opening :])
