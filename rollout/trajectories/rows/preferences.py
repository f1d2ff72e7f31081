"""The form `preferences`: pairs of answers to the same request, one of which turned out better, for DPO.

Answers are siblings where their requests are equal in all but the ids of calls: branches of a tree at the node where
they part, and chains for as long as their worlds answered alike. Each answer is worth the mean reward of all attempts
that gave it there. What is compared is the one answer, not all that followed, so no observation is ever preferred.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, ClassVar, Literal

import msgspec
from pydantic import Field

from rollout.core.messages import JSON, message_to_json
from rollout.trajectories.exports.conversational import entries
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.form import Account, RowForm
from rollout.trajectories.rows.row_maker import OWNER_COLUMNS
from rollout.trajectories.rows.text_rows import read_text_request

Pairs = Literal["extremes", "all"]
_encode = msgspec.json.Encoder(order="deterministic").encode


class Preferences(RowForm):
    """Pairs of answers to the same request."""

    compares: ClassVar[bool] = True
    columns: ClassVar[Columns] = {
        **OWNER_COLUMNS,
        "prompt": ["json"],
        "chosen": ["json"],
        "rejected": ["json"],
        "tools": "json",
        "chosen_value": "float",
        "rejected_value": "float",
        "chosen_attempts": "int",
        "rejected_attempts": "int",
        "chosen_id": "text",
        "rejected_id": "text",
        "step": "int",
    }
    pairs: Pairs = "extremes"
    """Of each request the best answer and the worst, or every two."""
    margin: float = Field(0.0, ge=0)
    """Values must differ by more than this."""

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        paired: set[str] = set()
        unfit: dict[str, str] = {}
        for pair in pairs_of(group, self.pairs, self.margin):
            attempts = {*pair.chosen.rewards, *pair.rejected.rewards}
            try:
                record = pair.to_json()
            except Unfit as error:
                account.note(f"pairs left out: {error}")
                unfit |= dict.fromkeys(attempts, str(error))
                continue
            paired |= attempts
            yield {"task_id": group[0].head.task_id, "group_id": group[0].group, **record}
        for attempted in group:
            if attempted.is_learnt and attempted.id not in paired:
                why = unfit.get(attempted.id, "no sibling with another value")
                account.drop("no reward" if attempted.reward is None else why)


class Candidate(msgspec.Struct):
    """An answer, and what became of those who gave it."""

    exchange: Exchange
    trajectory: str
    """The first attempt that gave it, of those that may be learnt."""
    step: int
    rewards: dict[str, float]
    is_learnt: bool = False
    """Whether any attempt that may be learnt gave it."""

    @property
    def value(self) -> float:
        return sum(self.rewards.values()) / len(self.rewards)


class Preference(msgspec.Struct, frozen=True):
    """A pair."""

    chosen: Candidate
    rejected: Candidate

    def to_json(self) -> JSON:
        """The record: `prompt`, `chosen` and `rejected` in the conversational form, and where they come from."""
        asked = read_text_request(self.chosen.exchange.request)
        written = [entries([*asked, candidate.exchange.answer]) for candidate in (self.chosen, self.rejected)]
        return {
            "prompt": written[0][:-1],
            "chosen": written[0][-1:],
            "rejected": written[1][-1:],
            "tools": self.chosen.exchange.tools,
            "chosen_value": self.chosen.value,
            "rejected_value": self.rejected.value,
            "chosen_attempts": len(self.chosen.rewards),
            "rejected_attempts": len(self.rejected.rewards),
            "chosen_id": self.chosen.trajectory,
            "rejected_id": self.rejected.trajectory,
            "step": self.chosen.step,
        }


def pairs_of(group: Sequence[Attempted], which: Pairs = "extremes", margin: float = 0.0) -> Iterator[Preference]:
    """The pairs that the attempts at a task hold, whose values differ by more than `margin`. `extremes`: of each
    request the best answer and the worst; `all`: every two. Attempts without a reward say nothing; answers that are
    not to be learnt, or were cut off by length, are in no pair, but what became of them counts."""
    for candidates in _siblings(group):
        ranked = sorted(candidates, key=lambda candidate: -candidate.value)
        chosen = combinations(ranked, 2) if which == "all" else [(ranked[0], ranked[-1])]
        for better, worse in chosen:
            if better.value - worse.value > margin:
                yield Preference(better, worse)


def _siblings(group: Sequence[Attempted]) -> Iterator[list[Candidate]]:
    """The different answers to each request that was answered in several ways."""
    requests: dict[bytes, dict[bytes, Candidate]] = {}
    for attempted in group:
        if attempted.reward is None:
            continue
        for step, exchange in enumerate(attempted.exchanges):
            answers = requests.setdefault(_digest([exchange.request, exchange.tools]), {})
            # One alone, as it is on record: an answer that is the same but for the ids of its calls is the same.
            key = _digest([[message_to_json(exchange.answer)]])
            candidate = answers.setdefault(key, Candidate(exchange, attempted.id, step, {}))
            candidate.rewards[attempted.id] = attempted.reward
            # Whoever tokenises an answer that was cut off would close it as if the model had ended it there.
            is_learnt = attempted.is_learnt and exchange.is_learnt and exchange.finish_reason != "length"
            if is_learnt and not candidate.is_learnt:
                candidate.trajectory, candidate.step, candidate.is_learnt = attempted.id, step, True
    for answers in requests.values():
        learnt = [candidate for candidate in answers.values() if candidate.is_learnt]
        if len(learnt) > 1:
            yield learnt


def _digest(parts: Any) -> bytes:
    """A hash of messages in which calls are known by their order instead of their ids."""
    names: dict[str, str] = {}

    def named(call: str) -> str:
        return names.setdefault(call, f"call_{len(names)}")

    def plain(message: JSON) -> JSON:
        known = {key: value for key, value in message.items() if key != "raw"}
        if message.get("tool_calls"):
            known["tool_calls"] = [{**call, "id": named(call["id"])} for call in message["tool_calls"]]
        if message.get("tool_call_id"):
            known["tool_call_id"] = named(message["tool_call_id"])
        return known

    messages, *others = parts
    return hashlib.blake2b(_encode([list(map(plain, messages)), *others]), digest_size=16).digest()
