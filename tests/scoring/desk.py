"""A small domain folder in AgentSkiller's layout, written by hand: a library desk, a room booker, and both together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout.config.schema import Config, Dataset
from rollout.core.calls import CallReader
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.core.world import Invocation, World
from rollout.engine.plan import with_offered_names
from rollout.environments.find import find_environment
from rollout.models.registry import Registry
from rollout.pipelines.wiring.panel import make_panel
from rollout.scoring.panel import Panel, Verdict
from rollout.tasks.jsonl import parse_task
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
from tests.environments.opening import opened
from tests.trajectories.lines import trajectory

LIBRARY = """
import copy, json, os, random, uuid

class SessionContext:
    def __init__(self, session_id, databases):
        self.session_id, self.databases = session_id, databases

class LibraryDeskServer:
    def __init__(self, domain_name):
        root = os.path.join(os.path.dirname(__file__), "..", "database", "outputs")
        self.tables, self.sessions = {}, {}
        for part, names in (("entities", ["Member"]), ("relationships", ["Loan", "Reservation"])):
            for name in names:
                folder = os.path.join(root, part, domain_name)
                if part == "entities" and not os.path.isdir(folder):
                    folder = os.path.join(root, part)
                with open(os.path.join(folder, name + ".json")) as file:
                    self.tables[name] = json.load(file)

    def _get_session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = SessionContext(session_id, copy.deepcopy(self.tables))
        return self.sessions[session_id]

    def invoke(self, session_id, tool_name, **arguments):
        tool = getattr(self, "tool_" + tool_name, None)
        if tool is None:
            return {"error": "Unknown tool " + tool_name}
        return tool(self._get_session(session_id).databases, **arguments)

    def tool_list_loans(self, db, **_):
        return {"loans": db["Loan"]}

    def tool_renew_loan(self, db, loan_id, confirm=False, **_):
        for loan in db["Loan"]:
            if loan["loan_id"] == loan_id:
                if not confirm:
                    return {"needs_confirmation": True}
                loan["status"], loan["due"] = "renewed", "2025-03-01"
                return {"success": True, "due": loan["due"]}
        return {"error": "no such loan"}

    def tool_return_loan(self, db, loan_id, **_):
        before = len(db["Loan"])
        db["Loan"] = [loan for loan in db["Loan"] if loan["loan_id"] != loan_id]
        return {"success": True} if len(db["Loan"]) < before else {"error": "no such loan"}

    def tool_borrow(self, db, title, **_):
        loan = {"loan_id": str(uuid.uuid4()), "member_id": "m1", "title": title, "status": "pending", "due": "2025-02"}
        db["Loan"].append(loan)
        return loan

    def tool_reserve(self, db, title, loan_id=None, **_):
        number = 1 + max([row["reservation_id"] for row in db["Reservation"]], default=100)
        row = {"reservation_id": number, "title": title, "loan_id": loan_id, "code": random.randint(10**6, 10**7),
               "note": "hold %s for %s" % (uuid.uuid4(), title)}
        db["Reservation"].append(row)
        return row

    def tool_set_phone(self, db, phone, **_):
        db["Member"][0]["phone"] = phone
        return {"success": True}
"""
ROOMS = """
import copy, json, os, uuid

class SessionContext:
    def __init__(self, session_id, databases):
        self.session_id, self.databases = session_id, databases

class RoomBookerServer:
    def __init__(self, domain_name):
        root = os.path.join(os.path.dirname(__file__), "..", "database", "outputs")
        fused = os.path.join(root, "entities", domain_name)
        folder = fused if os.path.isdir(fused) else os.path.join(root, "entities")
        with open(os.path.join(folder, "Member.json")) as file:
            member = json.load(file)
        with open(os.path.join(root, "relationships", domain_name, "Booking.json")) as file:
            self.tables = {"Member": member, "Booking": json.load(file)}
        self.sessions = {}

    def _get_session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = SessionContext(session_id, copy.deepcopy(self.tables))
        return self.sessions[session_id]

    def invoke(self, session_id, tool_name, **arguments):
        db = self._get_session(session_id).databases
        if tool_name == "book_room":
            row = {"booking_id": str(uuid.uuid4()), "room": arguments["room"], "day": arguments["day"]}
            db["Booking"].append(row)
            return row
        if tool_name == "set_email":
            db["Member"][0]["email"] = arguments["email"]
            return {"success": True}
        return {"error": "Unknown tool " + tool_name}
"""
STRING, BOOLEAN, NUMBER = {"type": "string"}, {"type": "boolean", "default": False}, {"type": "number"}
TOOLS: dict[str, dict[str, dict[str, Any]]] = {
    "LibraryDesk": {
        "list_loans": {},
        "renew_loan": {"loan_id": STRING, "confirm": BOOLEAN},
        "return_loan": {"loan_id": STRING},
        "borrow": {"title": STRING},
        "reserve": {"title": STRING, "loan_id": {"type": ["string", "null"]}},
        "set_phone": {"phone": STRING},
    },
    "RoomBooker": {"book_room": {"room": STRING, "day": STRING}, "set_email": {"email": STRING}},
}
TABLES: dict[str, list[dict[str, Any]]] = {
    "Member": [
        {"member_id": "m1", "phone": "555-0100", "email": "ada@mail.example"},
        {"member_id": "m2", "phone": "555-0199", "email": "bo@mail.example"},
    ],
    "Loan": [
        {"loan_id": "L1", "member_id": "m1", "title": "Atlas", "status": "pending", "due": "2025-02-01"},
        {"loan_id": "L2", "member_id": "m1", "title": "Bestiary", "status": "active", "due": "2025-02-03"},
        {"loan_id": "L3", "member_id": "m2", "title": "Cantos", "status": "active", "due": "2025-02-05"},
    ],
    "Reservation": [],
    "Booking": [],
}
Calls = list[tuple[str, dict[str, Any]]]


def write_library(base: Path, queries: list[dict[str, Any]] | None = None, name: str = "LibraryDesk") -> Path:
    """The folder, with both servers, their single tables and the fused ones. `queries` go to `queries/<name>.jsonl`."""
    for folder in ("queries", "policies", "tool_lists", "mcp_servers"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    for server, code in (("LibraryDesk", LIBRARY), ("RoomBooker", ROOMS)):
        (base / "mcp_servers" / f"{server}.py").write_text(code)
        (base / "policies" / f"{server}.md").write_text("Be kind.")
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool,
                    "description": tool,
                    "parameters": {
                        "type": "object",
                        "properties": properties,
                        "required": [each for each, about in properties.items() if about is STRING],
                    },
                },
            }
            for tool, properties in TOOLS[server].items()
        ]
        (base / "tool_lists" / f"{server}.json").write_text(json.dumps(tools))
    (base / "policies" / "RoomBooker_LibraryDesk.md").write_text("Be kind twice.")
    outputs = base / "database" / "outputs"
    places = {
        "entities": ["Member"],
        "entities/RoomBooker_LibraryDesk": ["Member"],
        "relationships/LibraryDesk": ["Loan", "Reservation"],
        "relationships/RoomBooker": ["Booking"],
        "relationships/RoomBooker_LibraryDesk": ["Loan", "Reservation", "Booking"],
    }
    for place, tables in places.items():
        (outputs / place).mkdir(parents=True, exist_ok=True)
        for table in tables:
            (outputs / place / f"{table}.json").write_text(json.dumps(TABLES[table]))
    if queries is not None:
        lines = [json.dumps(query) for query in queries]
        (base / "queries" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return base


def query(task_id: str, actions: Calls, **info: Any) -> dict[str, Any]:
    """A task with these reference actions."""
    return {
        "id": task_id,
        "messages": [{"role": "user", "content": "Hello"}],
        "task_info": {
            "actions": [{"name": name, "arguments": arguments} for name, arguments in actions],
            "replies": ["Done."],
            **info,
        },
    }


class Desk:
    """A dataset over the library, its panel, and conversations that were had over it."""

    def __init__(self, base: Path, domain: str = "LibraryDesk", **scoring: Any) -> None:
        self._tasks = 0
        config = Config()
        dataset = Dataset(mcp_domain=domain, base_path=base, scoring=scoring)
        self.environment = opened(find_environment("library", dataset))
        self.offered = self.environment.offered_name
        self.panel: Panel = make_panel("library", dataset, config, Registry({}), self.environment, lambda task: 7)

    def task(self, actions: Calls, **info: Any) -> Task:
        self._tasks += 1
        return with_offered_names(parse_task(query(f"t{self._tasks}", actions, **info)), self.environment)

    async def converse(self, world: World, task: Task, calls: Calls, said: str = "Done.") -> Trajectory:
        """Make these calls, one a message; arguments may be functions of the results so far."""
        opening = await world.open(task, 7)
        reader = CallReader(opening.tools)
        messages = list(task.messages)
        errors: dict[int, str] = {}
        results: list[Any] = []
        for number, (name, arguments) in enumerate(calls):
            filled = {key: value(results) if callable(value) else value for key, value in arguments.items()}
            call = ToolCall(f"c{number}", self.offered(name) or name, json.dumps(filled))
            read = reader.read(call)
            result = (await world.call([read]))[0] if isinstance(read, Invocation) else read
            messages += [Message(role="assistant", tool_calls=(call,)), result.to_message()]
            if result.error_kind is not None:
                errors[len(messages) - 1] = result.error_kind
            results.append(json.loads(result.content))
        messages.append(Message(role="assistant", content=said))
        return trajectory(*messages, errors=errors, seed=3)

    async def verdict(self, task: Task, calls: Calls, said: str = "Done.") -> Verdict:
        world = self.environment.make_world(task)
        try:
            trajectory = await self.converse(world, task, calls, said)
            return await self.panel.judge(task, trajectory, world)
        finally:
            await world.close()

    async def score(self, name: str, task: Task, calls: Calls, said: str = "Done.") -> Score:
        verdict = await self.verdict(task, calls, said)
        (score,) = (score for score in verdict.scores if score.name == name)
        return score
