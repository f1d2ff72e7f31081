"""MCP servers that die, hang, or answer nonsense, over standard input and output and over HTTP.

Each conversation has an instance of its own, and its tag says which tool does wrong in it. The servers themselves count
the calls of such tools. A call that does wrong is visible to the model: its line must have the promised error, and go
on with a new instance. All other conversations must be those of the calm run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.runs import Conversation, Run, agent_script, make_conversations
from tests.servers.mcp_config import RAW
from tests.servers.raw_mcp_http import RawHttpServer

PART = "MCP"
EACH = 22
BYSTANDERS = {"stdio": 300, "http": 1200}
SECONDS = 4
"""`timeout` of the servers."""
REFUSED = "refused"
"""The tag of conversations whose server does not start, the first time."""
CRASH, TIMEOUT, TOOL = ({"crash": 1},), ({"timeout": 1},), ({"tool": 1},)
Errors = tuple[dict[str, int], ...]
STDIO: dict[str, Errors] = {
    "die": CRASH, "hang": TIMEOUT, "nonsense": CRASH, "huge": CRASH, "fail": TOOL, "endless_line": CRASH,
    "endless_lines": CRASH, "deaf": TIMEOUT, "die_after": (*CRASH, {}), "endless_stderr": (*CRASH, *TIMEOUT),
    "endless_notices": (*CRASH, *TIMEOUT), REFUSED: ({},),
}  # fmt: skip
HTTP: dict[str, Errors] = {
    "reset": CRASH, "error500": TOOL, "cut": CRASH, "hang": TIMEOUT, "broken": CRASH, "forget": CRASH,
    "nonsense": CRASH, "endless": CRASH, "bomb": CRASH,
}  # fmt: skip
"""Tools that do wrong, with the errors that may be recorded: where there are two, which comes first is a race, between
the server and its next call, or between the limit on what it writes and the timeout."""
ECHO = {"name": "echo", "arguments": {"text": "{opening} Step {step}."}}


def _script(kinds: Mapping[str, Errors], usual: str) -> dict[str, Any]:
    """Echo, do wrong or tell the credential, echo, answer."""
    rules = [
        {
            "when": {"step": 1, "contains": f"[{kind}]"},
            "reply": {"tool_calls": [{"name": kind, "arguments": {"by": 9_000_000} if kind == "huge" else {}}]},
        }
        for kind in kinds
        if kind != REFUSED
    ]
    return agent_script(ECHO, {"name": usual, "arguments": {}}, ECHO, rules=rules)


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    ledger = Ledger(PART)
    _run_stdio(folder / "stdio", scale, seed, ledger)
    with _http_server() as server:
        entry = {"type": "http", "url": server.url, "headers": {"Authorization": "Bearer ${FAULTS_CREDENTIAL}"}}
        _run(folder / "http", "http", HTTP, entry, "authorization", scale, seed + 1, ledger)
        for kind in HTTP:
            ledger.inject(f"http: {kind}", server.called[kind])
    return ledger


def _run_stdio(folder: Path, scale: float, seed: int, ledger: Ledger) -> None:
    log, marks = folder / "calls.txt", folder / "marks"
    marks.mkdir(parents=True)
    arguments = ["-I", "-S", str(RAW), "--chatty", "--log", str(log), "--refuse-once", f"{marks}/{{task}}"]
    entry = {"command": sys.executable, "args": arguments, "env": {"VAULT_TOKEN": "${FAULTS_CREDENTIAL}"}}
    refused = _run(folder, "stdio", STDIO, entry, "env", scale, seed, ledger, marks)
    called = Counter(log.read_text().splitlines())
    for kind in STDIO:
        ledger.inject(f"stdio: {kind}", refused if kind == REFUSED else called[kind])


def _run(
    folder: Path,
    transport: str,
    kinds: Mapping[str, Errors],
    entry: dict[str, Any],
    usual: str,
    scale: float,
    seed: int,
    ledger: Ledger,
    marks: Path | None = None,
) -> int:
    """A calm run of the bystanders, then the run with those whose tools do wrong. Returns how many servers refused."""
    each = max(2, round(EACH * scale))
    bystanders = max(20, round(BYSTANDERS[transport] * scale))
    conversations = make_conversations([*(kind for kind in kinds for _ in range(each)), *["none"] * bystanders], seed)
    dataset = {"mcpServers": {"raw": {**entry, "timeout": SECONDS}}}
    settings: dict[str, Any] = {"dataset": dataset, "max_workers": 16}

    def kind_of(one: Conversation) -> str:
        return f"{transport}: {one.tag}"

    with StubProcess(_script(kinds, usual)) as stub:
        calm = Run(folder / "calm", [one for one in conversations if one.tag == "none"], stub.url, **settings)
        calm.finish(ledger, f"{transport}: none")
        if marks is not None:
            for one in conversations:
                if one.tag == REFUSED:
                    (marks / one.id).touch()
        placed = len(list(marks.iterdir())) if marks is not None else 0
        run = Run(folder / "faults", conversations, stub.url, **settings)
        run.finish(ledger, f"{transport}: none", codes=(0, 1))
        run.finish(ledger, f"{transport}: none")
    tags = {one.id: one.tag for one in conversations}
    run.audit(ledger, kind_of, calm=calm.by_id(), is_compared=lambda line: tags[line["id"]] == "none")
    for line in run.lines():
        metadata, errors = line["metadata"], kinds.get(tags[line["id"]], ({},))
        if metadata["status"] != "completed" or metadata["tool_errors"] not in errors:
            text = f"{line['id']}: {metadata['status']}, errors {metadata['tool_errors']}, expected {errors}"
            ledger.blame(f"{transport}: {tags[line['id']]}", "changed", text)
    return placed - (len(list(marks.iterdir())) if marks is not None else 0)


@contextlib.contextmanager
def _http_server() -> Iterator[RawHttpServer]:
    """The server in a thread of its own."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> RawHttpServer:
        return await RawHttpServer().__aenter__()

    server = asyncio.run_coroutine_threadsafe(make(), loop).result()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
