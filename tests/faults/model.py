"""Faults of the model server: every kind that the stub server knows, spread over one run.

The tag of a conversation says which fault its agent meets and in which step, so each conversation meets one fault and
every line can be held against the kind that hit it. Injected is what the server's own statistics say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout.testing import FAULT_KINDS, StubProcess
from rollout.testing.script import FaultKind
from tests.faults.accounting import Ledger
from tests.faults.runs import NOTE, PEEK, Conversation, Run, agent_script, make_conversations

PART = "model server"
EACH = 80
"""Conversations for each kind of fault; as many again as 8 kinds meet none."""
STEPS = 4
OPTIONS: dict[FaultKind, dict[str, Any]] = {
    "status": {"status": 422},
    "overload": {"retry_after": 0.1},
    "slow": {"delay": 0.5},
    "huge": {"size": 200_000},
}
VISIBLE: frozenset[FaultKind] = frozenset(
    {"length", "huge", "null_content_no_calls", "broken_arguments", "unknown_tool", "duplicate_call_ids",
     "context_length"}
)  # fmt: skip
"""Faults that are an answer of the model and belong into the record: such lines cannot equal those of the calm run.
They are accounted for, searched for foreign markers and for secrets. All others must leave no trace in the line."""
RECOVERABLE: frozenset[FaultKind] = frozenset({"broken_arguments", "unknown_tool", "duplicate_call_ids"})
"""Visible faults after which the agent goes on: the last message is that of the calm run."""


def _rules(kind: FaultKind) -> list[dict[str, Any]]:
    fault = {"kind": kind, **OPTIONS.get(kind, {})}
    return [{"when": {"step": step, "contains": f"[{kind}@{step}]"}, "fault": fault} for step in range(STEPS)]


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """A calm run, then the same with faults, resumed once, because a refused request fails its conversation."""
    ledger = Ledger(PART)
    each = max(4, round(EACH * scale))
    tags = [f"{kind}@{number % STEPS}" for kind in FAULT_KINDS for number in range(each)]
    conversations = make_conversations([*tags, *["none@0"] * (8 * each)], seed)
    usual = agent_script(NOTE, PEEK, NOTE)
    with StubProcess(usual) as stub:
        calm = Run(folder / "calm", conversations, stub.url)
        calm.finish(ledger, "none")
    rules = [rule for kind in FAULT_KINDS for rule in _rules(kind)]
    with StubProcess({**usual, "rules": [*rules, *usual["rules"]]}) as stub:
        run = Run(folder / "faults", conversations, stub.url, log_level="DEBUG")
        run.finish(ledger, "none", codes=(0, 1))
        run.finish(ledger, "none")
        struck = stub.stats().faults
    for kind in FAULT_KINDS:
        ledger.inject(kind, struck.get(kind, 0))
    kinds = {one.id: _kind(one) for one in conversations}
    wanted = calm.by_id()
    run.audit(ledger, _kind, calm=wanted, is_compared=lambda line: kinds[line["id"]] not in VISIBLE)
    for line in run.lines():
        if kinds[line["id"]] in RECOVERABLE and line["messages"][-1] != wanted[line["id"]]["messages"][-1]:
            ledger.blame(kinds[line["id"]], "changed", f"{line['id']} does not end as in the calm run")
    return ledger


def _kind(one: Conversation) -> str:
    return one.tag.partition("@")[0]
