"""A run in a folder of its own that is started, disturbed, resumed and audited.

Each conversation has a marker in its first message. The stub server's agent repeats the message in every call and in
its answer, and the tools repeat it in their results, so a line must be full of its own marker and free of all others.
What goes in lies in `in/`, everything that comes out in `out/`, which is searched for secrets: `in/` has to contain
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rollout.trajectories.line import comparable
from tests.conftest import write_tasks
from tests.faults.accounting import Ledger, audit_lines, find_secrets

ROOT = Path(__file__).parents[2]
ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]
API_KEY = 'vk_9+Zr/Q"t41LpXw8e'
CREDENTIAL = "cr_77/uH+b&Ym2=Tq5Wd"
"""Neither looks like a key to a pattern; both change when they are escaped."""
SECRETS = (API_KEY, CREDENTIAL)
DEADLINE = 240.0
"""Seconds after which a command that works has hung."""
GRACE = 3.0
"""`timeouts.grace` of the runs."""


class Conversation(msgspec.Struct, frozen=True):
    """One attempt: its id, its marker, and the tag that selects what happens to it."""

    id: str
    marker: str
    tag: str = ""

    @property
    def text(self) -> str:
        return f"Please keep a note of {self.marker}. [{self.tag}]" if self.tag else self.marker


def make_conversations(tags: Iterable[str], seed: int, *, first: int = 0) -> list[Conversation]:
    """A conversation for each tag, in random order."""
    shuffled = list(tags)
    random.Random(seed).shuffle(shuffled)
    return [
        Conversation(f"task{number}", _marker(seed, number), tag) for number, tag in enumerate(shuffled, start=first)
    ]


def _marker(seed: int, number: int) -> str:
    return f"mk-{hashlib.blake2b(f'{seed}/{number}'.encode(), digest_size=8).hexdigest()}"


NOTE = {"name": "note", "arguments": {"text": "{opening} Step {step}."}}
PONDER = {"name": "ponder", "arguments": {"text": "{opening} Step {step}."}}
PEEK = {"name": "peek", "arguments": {"text": "{opening}"}}
ANSWER = {"content": "Done: {opening} With {key}."}


def agent_script(*calls: Mapping[str, Any], rules: Sequence[Mapping[str, Any]] = (), **keys: Any) -> dict[str, Any]:
    """A stub script: an agent that makes these calls, one in each step, and then answers. `rules` come first."""
    usual: list[dict[str, Any]] = [
        {"when": {"step": step}, "reply": {"tool_calls": [call]}} for step, call in enumerate(calls)
    ]
    return {"echo_key": True, "rules": [*rules, *usual, {"reply": ANSWER}], **keys}


class Run:
    """A run directory with its config, tasks and output."""

    def __init__(
        self,
        folder: Path,
        conversations: Sequence[Conversation],
        url: str,
        *,
        dataset: Mapping[str, Any] | None = None,
        said: Path | None = None,
        task_info: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.conversations = list(conversations)
        self.task_info = dict(task_info or {})
        self.starts = 0
        (folder / "in").mkdir(parents=True)
        self.out.mkdir()
        self.said_in = said or self.out / "said"
        self.said_in.mkdir()
        self.write_tasks()
        config = {
            "max_workers": 32,
            "enable_monitor": False,
            "run_dir": str(self.out / "run"),
            "log_file": str(self.out / "run.log"),
            "timeouts": {"grace": GRACE, "tool": 3, "request": 5},
            "retries": {"first_wait": 0.01, "max_wait": 0.2, "attempts": 8},
            "models": {"agent": {"api_base": url, "api_key": "${FAULTS_KEY}"}},
            "datasets": {
                "faults": {
                    "path": str(folder / "in" / "tasks.jsonl"),
                    "output_path": str(self.out / "out.jsonl"),
                    "agent": "agent",
                    **(dataset if dataset is not None else self.ledger_domain()),
                }
            },
            **changes,
        }
        (folder / "in" / "config.yml").write_text(yaml.safe_dump(config))

    def configure(self, **changes: Any) -> None:
        """Change settings that a resumed run may change."""
        path = self.folder / "in" / "config.yml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))

    def ledger_domain(self) -> dict[str, Any]:
        """The mock domain whose tools keep notes, misbehave, and say the API key."""
        domain = self.folder / "in" / "domain"
        shutil.copytree(Path(__file__).with_name("domain"), domain, ignore=shutil.ignore_patterns("__pycache__"))
        entities = domain / "database" / "outputs" / "entities"
        entities.mkdir(parents=True)
        (entities / "Key.json").write_text(json.dumps([{"key_id": 1, "key": API_KEY}]))
        return {"base_path": str(domain), "mcp_domain": "Ledger"}

    def write_tasks(self, more: Sequence[Conversation] = ()) -> None:
        """The task file, with some conversations added."""
        self.conversations += more
        tasks = [
            {"id": one.id, "messages": [{"role": "user", "content": one.text}], "task_info": self.task_info}
            for one in self.conversations
        ]
        write_tasks(self.folder / "in" / "tasks.jsonl", *tasks)

    def start(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start or resume it in a process of its own. What it says is kept among its files."""
        command = [*ROLLOUT, "run", str(self.folder / "in" / "config.yml"), "--resume", "--no-colors", *options]
        self.starts += 1
        with (self.said_in / f"{self.starts}.txt").open("wb") as said:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=child_environment(**environment),
            )

    def said(self) -> str:
        """What the last start said."""
        return (self.said_in / f"{self.starts}.txt").read_text(errors="replace")

    def finish(self, ledger: Ledger, kind: str, *, codes: Sequence[int] = (0,), seconds: float = DEADLINE) -> None:
        """Resume it to its end."""
        code = end_of(self.start(), ledger, kind, seconds)
        if code is not None and code not in codes:
            ledger.blame(kind, "unfit", f"the last resume ended with {code}: {self.said()[-500:]}")

    def lines(self, name: str = "out.jsonl") -> list[dict[str, Any]]:
        path = self.out / name
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def by_id(self) -> dict[str, dict[str, Any]]:
        """Its lines in the form in which those of equal runs are equal."""
        return {line["id"]: comparable(line) for line in self.lines()}

    def audit(
        self,
        ledger: Ledger,
        kind_of: Callable[[Conversation], str],
        *,
        calm: Mapping[str, Any] | None = None,
        is_compared: Callable[[dict[str, Any]], bool] = lambda line: True,
        lines: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Account for every conversation, under the kind of fault that it was exposed to."""
        kinds = {one.id: kind_of(one) for one in self.conversations}
        fallback = next(iter(kinds.values()))
        found = self.lines() if lines is None else lines
        for one in self.conversations:
            ledger.expose(kinds[one.id], 1)
        for name, wrong, text in audit_lines({one.id: one.marker for one in self.conversations}, found):
            ledger.blame(kinds.get(name, fallback), wrong, text)
        if calm is not None:
            for line in found:
                if is_compared(line) and comparable(line) != calm.get(line["id"]):
                    ledger.blame(kinds.get(line["id"], fallback), "changed", f"{line['id']} differs from the calm run")
        self.audit_files(ledger, fallback)

    def audit_files(self, ledger: Ledger, kind: str) -> None:
        """Search everything that came out for secrets and tracebacks."""
        files = {path for top in (self.out, self.said_in) for path in top.rglob("*") if path.is_file()}
        for text in find_secrets(files, SECRETS):
            ledger.blame(kind, "secrets", text)
        for path in [*self.said_in.iterdir(), self.out / "run.log"]:
            said = path.read_text(errors="replace") if path.exists() else ""
            if (begin := said.find("Traceback (most recent call last)")) >= 0:
                ledger.blame(kind, "unfit", f"{path.name} has a traceback: {said[begin : begin + 4000]}")


def child_environment(**more: str) -> dict[str, str]:
    """The environment of commands: ours, the secrets, and the code that we are part of."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "FAULTS_KEY": API_KEY, "FAULTS_CREDENTIAL": CREDENTIAL, **more}


def end_of(child: subprocess.Popen[bytes], ledger: Ledger, kind: str, seconds: float) -> int | None:
    """The exit code of a command; None where it has hung, which is noted."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        ledger.blame(kind, "hung", f"no end within {seconds:g} s")
        child.kill()
        child.wait()
        return None
