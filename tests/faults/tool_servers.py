"""Tools of a mock domain that misbehave, each because of the arguments of its own conversation.

A call that misbehaves is visible to the model, so its line is held against what the documentation promises: which error
the agent reads, that the call counts as never made, and how the conversation ends. All conversations that made no such
call share workers with those that did, and must be those of the calm run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.runs import NOTE, PEEK, Conversation, Run, agent_script, make_conversations

PART = "tool servers"
EACH = 24
BYSTANDERS = 1750
STEP = 1
"""The step in which a tool misbehaves; one note was made before, and one is made after it."""
KINDS: dict[str, str | None] = {
    "raise": "crash", "recursion": "crash", "hang": "timeout", "spin": "timeout", "exit": "crash", "memory": "crash",
    "huge": "crash", "unencodable": None, "cycle": None, "print": None, "long": None, "junk": "failed",
}  # fmt: skip
"""The kind of error that is recorded, None for a call whose result can be shown, `failed` for one that fails its
conversation."""
UNDONE = ("hang", "spin", "exit", "memory")
"""Calls that count as never made: what they noted is not in the ledger afterwards."""


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """The calm run knows only bystanders; the other has misbehaving conversations among them."""
    ledger = Ledger(PART)
    each = max(3, round(EACH * scale))
    tags = [f"how={kind}" for kind in KINDS for _ in range(each)]
    conversations = make_conversations([*tags, *["how=none"] * max(100, round(BYSTANDERS * scale))], seed)
    bystanders = [one for one in conversations if one.tag == "how=none"]
    rules = [_misbehave(kind) for kind in KINDS]
    settings: dict[str, Any] = {
        "mock_servers": {"processes": 3, "memory_mb": 256},
        "timeouts": {"tool": 4, "grace": 3, "request": 10},
    }
    with StubProcess(agent_script(NOTE, PEEK, NOTE, rules=rules)) as stub:
        calm = Run(folder / "calm", bystanders, stub.url, **settings)
        calm.finish(ledger, "calm")
        run = Run(folder / "faults", conversations, stub.url, **settings)
        # Those whose server falsifies the channel fail, each time that they are tried. The second time there are only
        # those, and a run pauses where the first 20 fail.
        run.finish(ledger, "junk", codes=(1,))
        run.finish(ledger, "junk", codes=(1, 3))
    wanted = calm.by_id()
    kinds = {one.id: _kind(one) for one in conversations}
    lines = [*run.lines(), *run.lines("run/failed.jsonl")]
    run.audit(ledger, _kind, calm=wanted, is_compared=lambda line: kinds[line["id"]] == "none", lines=lines)
    for line in lines:
        if (kind := kinds[line["id"]]) != "none":
            # A tool was called, and misbehaved, where its conversation says so: the call is in the record.
            ledger.inject(kind, int(_has_called(line, kind)))
            if (text := _broken_promise(kind, line)) is not None:
                ledger.blame(kind, "changed", f"{line['id']}: {text}")
    return ledger


def _kind(one: Conversation) -> str:
    return one.tag.removeprefix("how=")


def _misbehave(kind: str) -> dict[str, Any]:
    call = {"name": "misbehave", "arguments": {"how": kind, "text": "{opening}"}}
    return {"when": {"step": STEP, "contains": f"[how={kind}]"}, "reply": {"tool_calls": [call]}}


def _has_called(line: Mapping[str, Any], kind: str) -> bool:
    calls = [call["function"] for message in line["messages"] for call in message.get("tool_calls") or ()]
    return any(call["name"] == "misbehave" and json.loads(call["arguments"])["how"] == kind for call in calls)


def _broken_promise(kind: str, line: Mapping[str, Any]) -> str | None:
    """What is not as promised in the line of a conversation with a misbehaving call."""
    metadata, expected = line["metadata"], KINDS[kind]
    if expected == "failed":
        is_right = metadata["status"] == "failed" and metadata["error"]["kind"] == "world" and not metadata["scored"]
        return None if is_right else f"status {metadata['status']}, error {metadata['error']}"
    if metadata["status"] != "completed":
        return f"status {metadata['status']}, error {metadata['error']}"
    errors = {expected: 1} if expected else {}
    if metadata["tool_errors"] != errors:
        return f"errors {metadata['tool_errors']}, expected {errors}"
    results = [message["content"] for message in line["messages"] if message["role"] == "tool"]
    if ("never made" in results[-1]) == (kind in UNDONE):
        return f"the ledger says {results[-1][:300]}"
    return None
