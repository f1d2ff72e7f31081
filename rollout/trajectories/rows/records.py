"""What is written of each form: its columns, and the records that a group of attempts makes.

A maker is given the attempts at one task at a time. What it leaves out it tells its account, with a reason that can be
counted, so that the numbers add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from rollout.core.messages import JSON, Message
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.best import Best, best_of
from rollout.trajectories.rows.breaks import START, STEP, break_in_ids, break_in_messages
from rollout.trajectories.rows.columns import (
    PAIR_COLUMNS,
    PROCESS_COLUMNS,
    TEXT_COLUMNS,
    TOKEN_COLUMNS,
    TREE_COLUMNS,
    VERL_COLUMNS,
)
from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.forms import Stretch, per_step, prefix_merge
from rollout.trajectories.rows.memory import LAST_STEPS, MemoryBuilder, last_steps, remember
from rollout.trajectories.rows.preferences import Pairs, pairs_of
from rollout.trajectories.rows.process import process_row
from rollout.trajectories.rows.text_rows import refuse_images, row_as_sent, text_row
from rollout.trajectories.rows.token_rows import TokenRow, token_row
from rollout.trajectories.rows.token_tree import build_tree
from rollout.trajectories.rows.tokenising import ChatTokenizer

NO_IDS = "no token ids on record (--tokenizer makes some, --text needs none)"
NOTHING = "nothing to learn"


class Account(Protocol):
    """Where a maker tells what became of attempts."""

    def drop(self, reason: str) -> None:
        """An attempt is left out."""
        ...

    def note(self, text: str) -> None:
        """Something worth counting that leaves nothing out."""
        ...


class Maker(Protocol):
    """One form of training data."""

    @property
    def columns(self) -> Columns:
        """What its records have."""
        ...

    @property
    def compares(self) -> bool:
        """Whether its records tell of attempts that are left out, too: then it is given them (`is_learnt`)."""
        ...

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        """The records of the attempts at one task."""
        ...


class RowMaker(msgspec.Struct, frozen=True):
    """Rows, one after the other: `prefix_merge`, `per_step` and `memory`."""

    compares: ClassVar[bool] = False
    form: str = "prefix_merge"
    has_ids: bool = True
    """Whether rows hold token ids; else they hold messages."""
    tokenizer: ChatTokenizer | None = None
    builder: MemoryBuilder = last_steps
    last_steps: int = LAST_STEPS

    @property
    def columns(self) -> Columns:
        return TOKEN_COLUMNS if self.has_ids else TEXT_COLUMNS

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            try:
                stretches = self.stretches(attempted, account)
                if not self.has_ids:
                    # Before the first is written: an attempt is left out as a whole.
                    for stretch in stretches:
                        refuse_images(stretch)
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
        }

    def stretches(self, attempted: Attempted, account: Account) -> list[Stretch]:
        """The stretches of an attempt that hold something to learn. Raises Unfit where there is none."""
        exchanges = list(self._exchanges(attempted, account))
        if self.form == "prefix_merge":
            find = break_in_ids if self.has_ids else break_in_messages
            found = list(prefix_merge(exchanges, find, can_mask=self.has_ids))
        else:
            found = list(per_step(exchanges))
        learnt = [stretch for stretch in found if stretch.is_learnt]
        if not learnt:
            raise Unfit(NOTHING)
        return learnt

    def _exchanges(self, attempted: Attempted, account: Account) -> Iterator[Exchange]:
        exchanges: Iterator[Exchange] = iter(attempted.exchanges)
        if self.form == "memory":
            exchanges = remember(attempted, self.builder, self.last_steps)
        for exchange in exchanges:
            if exchange.is_masked:
                # A row of its own, with nothing to learn in it: it is not written.
                account.note("answers with a masked secret: not learnt")
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
        row = token_row(attempted.id, stretch, _advantages(attempted, stretch))
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
        advantages = _advantages(attempted, stretch)
        if self.form == "per_step":
            (exchange,) = stretch.exchanges
            row = row_as_sent(attempted.id, exchange, None if advantages is None else advantages[0])
        else:
            row = text_row(attempted.id, stretch, advantages)
        return {
            "prompt": row.prompt,
            "completion": row.completion,
            "tools": row.tools,
            "advantages": row.advantages,
        }


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


class TreeMaker(msgspec.Struct, frozen=True):
    """One record for each task: its tree of tokens."""

    rows: RowMaker
    compares: ClassVar[bool] = False
    columns: ClassVar[Columns] = TREE_COLUMNS

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
            made += [token_row(attempted.id, stretch, _advantages(attempted, stretch)) for stretch in stretches]
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


class PairMaker(msgspec.Struct, frozen=True):
    """Preference pairs of siblings."""

    which: Pairs = "extremes"
    margin: float = 0.0
    compares: ClassVar[bool] = True
    columns: ClassVar[Columns] = PAIR_COLUMNS

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        paired: set[str] = set()
        for pair in pairs_of(group, self.which, self.margin):
            try:
                record = pair.to_json()
            except Unfit as error:
                account.note(f"pairs left out: {error}")
                continue
            paired |= {*pair.chosen.rewards, *pair.rejected.rewards}
            yield {"task_id": group[0].head.task_id, "group_id": group[0].group, **record}
        for attempted in group:
            if attempted.is_learnt and attempted.id not in paired:
                account.drop("no reward" if attempted.reward is None else "no sibling with another value")


class ProcessMaker(msgspec.Struct, frozen=True):
    """The worth of each step."""

    above: float = 0.0
    compares: ClassVar[bool] = False
    columns: ClassVar[Columns] = PROCESS_COLUMNS

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            try:
                record = process_row(attempted, self.above)
            except Unfit as error:
                account.drop(str(error))
                continue
            yield {
                "trajectory_id": attempted.id,
                "task_id": attempted.head.task_id,
                "group_id": attempted.group,
                **record,
                "reward": attempted.reward,
            }


class VerlMaker:
    """One record for each task, as verl's datasets are: what to ask, not what was answered."""

    compares = True
    columns = VERL_COLUMNS

    def __init__(self) -> None:
        self._count = 0

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        first = group[0]
        opening = first.messages[: first.opening]
        if any(message.role not in ("system", "user") or message.images for message in opening):
            for _ in filter(lambda attempted: attempted.is_learnt, group):
                account.drop("its opening is more than a system prompt and a user's words")
            return
        rewards = [attempted.reward for attempted in group if attempted.reward is not None]
        number, self._count = self._count, self._count + 1
        yield {
            "data_source": str(first.head.metadata.get("dataset") or "rollout"),
            "prompt": [_spoken(message) for message in opening],
            "ability": "agent",
            "reward_model": {"style": "rule", "ground_truth": first.head.task_id},
            "extra_info": {
                "index": number,
                "split": "",
                "task_id": first.head.task_id,
                "attempts": len(group),
                "mean_reward": sum(rewards) / len(rewards) if rewards else None,
            },
        }


def _spoken(message: Message) -> JSON:
    return {"role": message.role, "content": message.content or ""}


def _advantages(attempted: Attempted, stretch: Stretch) -> list[float] | None:
    return None if attempted.advantages is None else attempted.advantages[stretch.first : stretch.last + 1]


def _listed(values: Any) -> list[float] | None:
    return None if values is None else list(values)
