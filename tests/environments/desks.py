"""A domain to try worlds on, in AgentSkiller's layout: two servers whose tool `run` evaluates what it is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.core.world import Invocation, World

SERVER = """
import copy, json, os, time
from pathlib import Path

print("loaded")
ROOT = Path(__file__).parent.parent / "database" / "outputs"


class Session:
    def __init__(self, tables):
        self.databases = tables
        self.seen = 0


class %(name)sServer:
    def __init__(self, domain_name):
        with open(ROOT / "entities" / "Member.json") as file:
            self.tables = {"Member": json.load(file)}
        with open(ROOT / "relationships" / domain_name / "Loan.json") as file:
            self.tables["Loan"] = json.load(file)
        self.sessions = {}

    def _get_session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = Session(copy.deepcopy(self.tables))
        return self.sessions[session_id]

    def invoke(self, session_id, tool_name, **arguments):
        session = self._get_session(session_id)
        session.seen += 1
        return getattr(self, tool_name)(session, **arguments)

    def rename(self, session, name):
        for member in session.databases["Member"]:
            member["name"] = name
        return session.databases["Member"]

    def expel(self, session):
        session.databases["Member"] = [row for row in session.databases["Member"] if row["member_id"] != 1]
        return {"left": len(session.databases["Member"])}

    def members(self, session):
        return session.databases["Member"]

    def roll(self, session):
        import random, uuid
        return [random.random(), str(uuid.uuid4()), session.seen, [*{"a", "b", "c", "d"}]]

    def run(self, session, code):
        session.databases["Loan"].append({"ran": code})
        return {"value": eval(code)}
"""
TOOLS = {"rename": {"name": {"type": "string"}}, "expel": {}, "members": {}, "roll": {}, "run": {"code": {}}}
SECRET = "sk-this-is-ours"
MakeWorld = Callable[..., World]


def lay_out(base: Path, *names: str) -> Path:
    """Write servers that read the same members, each with loans of its own, and queries that nobody may read."""
    for folder in ("mcp_servers", "tool_lists", "queries", "policies", "database/outputs/entities"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    tools = [
        {"type": "function", "function": {"name": tool, "parameters": {"type": "object", "properties": properties}}}
        for tool, properties in TOOLS.items()
    ]
    for name in names:
        (base / "mcp_servers" / f"{name}.py").write_text(SERVER % {"name": name})
        (base / "tool_lists" / f"{name}.json").write_text(json.dumps(tools))
        (base / "queries" / f"{name}.jsonl").write_text(json.dumps({"id": "q", "answer": SECRET}))
        (base / "database" / "outputs" / "relationships" / name).mkdir(parents=True)
        (base / "database" / "outputs" / "relationships" / name / "Loan.json").write_text('[{"loan_id": 1}]')
    members = [{"member_id": 1, "name": "Ada"}, {"member_id": 2, "name": "Ben"}]
    (base / "database" / "outputs" / "entities" / "Member.json").write_text(json.dumps(members))
    return base


async def call(world: World, tool: str, /, **arguments: Any) -> ToolResult:
    (result,) = await world.call([Invocation("c", tool, arguments)])
    return result


async def opened(make: MakeWorld, *args: Any, seed: int = 1, **options: Any) -> World:
    world = make(*args, **options)
    await world.open(Task("t"), seed)
    return world


async def ran(world: World, code: str) -> Any:
    """What a server evaluates some code to."""
    result = await call(world, "run", code=code)
    assert not result.is_error, result.content
    return json.loads(result.content)["value"]
