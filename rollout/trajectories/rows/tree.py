"""The form `tree`: one record for each task, with what its rows share once (`token_tree`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import OWNER_COLUMNS, RowMaker, advantages_of
from rollout.trajectories.rows.token_rows import TokenRow, token_row
from rollout.trajectories.rows.token_tree import build_tree

COLUMNS: Columns = {
    **OWNER_COLUMNS,
    "trajectory_ids": ["text"],
    "rewards": ["float"],
    "input_ids": ["id"],
    "loss_mask": ["bit"],
    "logprobs": ["number"],
    "advantages": ["number"],
    "node_lengths": ["int"],
    "node_parents": ["int"],
    "node_positions": ["int"],
    "node_weights": ["float"],
    "node_attempts": ["int"],
    "node_steps": ["int"],
    "row_trajectories": ["int"],
    "row_ends": ["int"],
    "exact": "bool",
}


class TreeRows(RowForm):
    """All rows of a task, as a tree of tokens."""

    has_advantages: ClassVar[bool] = True
    needs_ids: ClassVar[bool] = True

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        return TreeMaker(RowMaker(True, tokens.tokenizer))


class TreeMaker(msgspec.Struct, frozen=True):
    """One record for each task: its tree of tokens."""

    rows: RowMaker
    compares: ClassVar[bool] = False
    columns: ClassVar[Columns] = COLUMNS

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        made: list[TokenRow] = []
        kept: dict[str, Attempted] = {}
        for attempted in group:
            try:
                stretches = self.rows.stretches(attempted, account)
            except Unfit as error:
                account.drop(str(error))
                continue
            kept[attempted.id] = attempted
            made += [token_row(attempted.id, stretch, advantages_of(attempted, stretch)) for stretch in stretches]
        if not made:
            return
        tree = build_tree(made)
        nodes = tree.nodes
        has_scores = all(node.logprobs is not None for node in nodes)
        has_advantages = all(node.advantages is not None for node in nodes)
        first = next(iter(kept.values()))
        yield {
            "task_id": first.head.task_id,
            "group_id": first.group,
            "trajectory_ids": tree.trajectories,
            "rewards": [kept[name].reward for name in tree.trajectories],
            "input_ids": [token for node in nodes for token in node.ids],
            "loss_mask": [int(node.span.is_learnt) for node in nodes for _ in node.ids],
            "logprobs": [value for node in nodes for value in node.logprobs or ()] if has_scores else None,
            "advantages": [value for node in nodes for value in node.advantages or ()] if has_advantages else None,
            "node_lengths": [node.span.length for node in nodes],
            "node_parents": [node.parent for node in nodes],
            "node_positions": [node.position for node in nodes],
            "node_weights": [node.weight for node in nodes],
            "node_attempts": [-1 if node.span.key is None else node.span.key[0] for node in nodes],
            "node_steps": [-1 if node.span.key is None else node.span.key[1] for node in nodes],
            "row_trajectories": [trajectory for trajectory, _ in tree.ends],
            "row_ends": [end for _, end in tree.ends],
            "exact": all(tree.exact),
        }
