"""Mock servers as worlds: isolation, determinism, snapshots, and what is wrong with a domain said in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.domains.domain import SHIPPED, load_domain
from rollout.environments.domains.mock import MockWorld, ServersInProcess

TASK = Task(id="t")
SERVER = """
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4


@dataclass
class SessionContext:
    session_id: str
    databases: dict = field(default_factory=lambda: {"Note": [{"note_id": "n0", "text": "first"}]})


class NotesServer:
    def __init__(self, domain_name):
        self.domain_name = domain_name
        self.sessions = {}

    def _get_session(self, session_id):
        return self.sessions.setdefault(session_id, SessionContext(session_id))

    def invoke(self, session_id, tool_name, **arguments):
        notes = self._get_session(session_id).databases["Note"]
        if tool_name == "write":
            row = {"note_id": str(uuid.uuid4()), "text": arguments["text"], "other": str(uuid4())}
            row |= {"at": datetime.now().isoformat(), "stamp": time.time(), "die": random.randint(1, 10**6)}
            notes.append(row)
            return row
        if tool_name == "hang":
            time.sleep(5)
        if tool_name == "fail":
            raise ValueError("cannot")
        if tool_name == "quit":
            raise SystemExit(3)
        if tool_name == "odd":
            return {"nan": float("nan"), "when": datetime.now(), "some": {1}, "raw": b"x", "self": self}
        return notes
"""


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for folder in ("mcp_servers", "tool_lists", "policies"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mcp_servers" / "Notes.py").write_text(SERVER)
    tools = [
        tool("write", text={"type": "string"}),
        tool("read"),
        tool("hang"),
        tool("fail"),
        tool("quit"),
        tool("odd"),
    ]
    (tmp_path / "tool_lists" / "Notes.json").write_text(json.dumps(tools))
    (tmp_path / "policies" / "Notes.md").write_text("Be kind.")
    return tmp_path


async def opened(base: Path, seed: int = 1, timeout: float = 60.0) -> MockWorld:
    world = MockWorld(ServersInProcess(load_domain(base, "Notes", [])), timeout)
    await world.open(TASK, seed)
    return world


async def call(world: MockWorld, name: str, **arguments: Any) -> ToolResult:
    (result,) = await world.call([Invocation("c", name, arguments)])
    return result


async def test_same_seed_gives_the_same_uuids_times_and_dice(base: Path) -> None:
    one, two, other = await opened(base, 1), await opened(base, 1), await opened(base, 2)
    rows = [json.loads((await call(world, "write", text="x")).content) for world in (one, two, other)]
    assert rows[0] == rows[1]
    assert all(rows[0][key] != rows[2][key] for key in ("note_id", "other", "die"))
    assert rows[0]["at"] == "2025-01-23T15:00:00"
    assert await one.state_key() == await two.state_key() != await other.state_key()


async def test_randomness_of_one_world_is_not_disturbed_by_another(base: Path) -> None:
    alone = await opened(base, 5)
    expected = [(await call(alone, "write", text=str(n))).content for n in range(4)]
    one, two = await opened(base, 5), await opened(base, 9)
    mixed = []
    for number in range(4):
        mixed.append((await call(one, "write", text=str(number))).content)
        await call(two, "write", text="noise")
    assert mixed == expected


async def test_our_own_clock_and_uuids_stay_real(base: Path) -> None:
    import time
    import uuid

    await call(await opened(base), "write", text="x")
    assert uuid.uuid4() != uuid.uuid4()
    assert time.time() > 1.7e9


async def test_snapshot_brings_back_state_and_randomness(base: Path) -> None:
    world = await opened(base)
    await call(world, "write", text="one")
    snapshot = await world.snapshot()
    assert snapshot is not None
    expected = (await call(world, "write", text="two")).content
    after = await world.state_key()
    fork = await opened(base)
    await fork.restore(snapshot)
    assert await fork.state_key() == snapshot.state_key
    assert (await call(fork, "write", text="two")).content == expected
    assert await fork.state_key() == after
    await call(fork, "write", text="three")
    assert await world.state_key() == after, "a fork does not reach back"


async def test_hanging_and_failing_tools_are_error_results(base: Path) -> None:
    world = await opened(base, timeout=0.05)
    hung, failed = await call(world, "hang"), await call(world, "fail")
    assert (hung.error_kind, failed.error_kind) == ("timeout", "crash")
    assert "ValueError: cannot" in failed.content


async def test_server_that_exits_or_returns_odd_things_harms_nobody_else(base: Path) -> None:
    world = await opened(base)
    quit_result, odd = await call(world, "quit"), await call(world, "odd")
    assert (quit_result.error_kind, odd.error_kind) == ("crash", None)
    assert "2025-01-23" in odd.content


async def test_state_in_a_modules_globals_does_not_leak_between_episodes(base: Path) -> None:
    text = SERVER.replace("class NotesServer:", "CALLS = []\n\n\nclass NotesServer:")
    text = text.replace(
        "        notes = self",
        '        CALLS.append(1)\n        if tool_name == "read":\n            return len(CALLS)\n        notes = self',
    )
    (base / "mcp_servers" / "Notes.py").write_text(text)
    servers = ServersInProcess(load_domain(base, "Notes", []))
    answers = []
    for _ in range(3):
        world = MockWorld(servers)
        await world.open(TASK, 1)
        answers.append((await call(world, "read")).content)
    assert answers == ["1", "1", "1"]


async def test_datetime_in_a_server_is_still_a_datetime(base: Path) -> None:
    text = SERVER.replace(
        '        if tool_name == "hang":',
        '        if tool_name == "read":\n            return isinstance(datetime.now(), datetime)\n'
        '        if tool_name == "hang":',
    )
    (base / "mcp_servers" / "Notes.py").write_text(text)
    assert (await call(await opened(base), "read")).content == "true"


async def test_loading_a_server_writes_nothing_beside_it(base: Path) -> None:
    await opened(base)
    assert {path.name for path in (base / "mcp_servers").iterdir()} == {"Notes.py"}


async def test_text_with_broken_characters_can_be_written_down(base: Path) -> None:
    text = SERVER.replace('raise ValueError("cannot")', 'return {"text": "\\ud800"}')
    (base / "mcp_servers" / "Notes.py").write_text(text)
    result = await call(await opened(base), "fail")
    assert json.loads(result.content)["text"]
    result.content.encode()


async def test_closed_world_forgets_and_may_be_closed_again(base: Path) -> None:
    world = await opened(base)
    await call(world, "write", text="x")
    await world.close()
    await world.close()
    fresh = await opened(base)
    assert len(json.loads((await call(fresh, "read")).content)) == 1


async def test_shipped_sessions_share_one_server_and_no_state() -> None:
    servers = ServersInProcess(load_domain(SHIPPED / "single_domain", "StudentAcademicPortal", []))
    one, two = MockWorld(servers), MockWorld(servers)
    await one.open(TASK, 1)
    await two.open(TASK, 1)
    before = await two.state_key()
    students = SHIPPED / "single_domain" / "database" / "outputs" / "entities" / "Student.json"
    student = json.loads(students.read_text())[0]
    await call(one, "authorize_student", student_id=student["student_id"], portal_pin=student["portal_pin"])
    written = await call(one, "update_contact_details", phone="555-000-0000", confirm=True)
    assert not written.is_error, written.content
    assert await one.state_key() != before
    assert await two.state_key() == before
    assert (await one.changes())["Student"].removed == (student,)
    assert await two.changes() == {}


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda base: (base / "tool_lists" / "Notes.json").unlink(), r"Notes\.json: cannot read"),
        (lambda base: (base / "tool_lists" / "Notes.json").write_text("{"), "not a list of tools"),
        (lambda base: (base / "mcp_servers" / "Notes.py").write_text("x = 1"), "no class NotesServer"),
        (lambda base: (base / "mcp_servers" / "Notes.py").write_text("raise OSError('bad day')"), "bad day"),
        (lambda base: (base / "mcp_servers" / "Notes.py").write_text("class NotesServer: pass"), "no method invoke"),
        (lambda base: (base / "mcp_servers" / "Notes.py").unlink(), "no servers found"),
    ],
)
def test_damaged_domain_is_refused_with_the_files_name(base: Path, damage: Any, told: str) -> None:
    damage(base)
    with pytest.raises(ConfigError, match=told) as caught:
        ServersInProcess(load_domain(base, "Notes", []))
    assert str(base) in str(caught.value)


def test_unknown_domain_lists_what_there_is(base: Path) -> None:
    with pytest.raises(ConfigError, match="there are: Notes"):
        load_domain(base, "Weather", [])
    with pytest.raises(ConfigError, match="did you mean 'Notes'"):
        load_domain(base, "Noets", [])
    with pytest.raises(ConfigError, match="no server for tools entry 'noets_mcp'"):
        load_domain(base, "Notes", ["noets_mcp"])


def test_a_misspelt_domain_is_refused_although_its_tools_are_right(base: Path) -> None:
    with pytest.raises(ConfigError, match="mcp_domain 'Noets' names no known servers; did you mean 'Notes'"):
        load_domain(base, "Noets", ["notes_mcp"])
    with pytest.raises(ConfigError, match="did you mean 'Notes_Notes'"):
        load_domain(base, "Notes_Noets", ["notes_mcp"])
    (base / "queries").mkdir(exist_ok=True)
    (base / "queries" / "Noets.jsonl").touch()
    assert load_domain(base, "Noets", ["notes_mcp"]).servers == ("Notes",), "a query file has the name"
    with pytest.raises(ConfigError, match="names no known servers"):
        load_domain(base, "Noets", [])


def test_tools_of_another_domain_are_refused(base: Path) -> None:
    (base / "mcp_servers" / "Novels.py").write_text(SERVER.replace("NotesServer", "NovelsServer"))
    (base / "tool_lists" / "Novels.json").write_text(json.dumps([tool("write", text={"type": "string"})]))
    with pytest.raises(ConfigError, match="'novels_mcp' is not one of the servers of mcp_domain 'Notes': Notes"):
        load_domain(base, "Notes", ["novels_mcp"])
    assert load_domain(base, "Notes_Novels", ["novels_mcp"]).servers == ("Novels",)


async def test_servers_with_shared_tool_names_are_told_apart(base: Path) -> None:
    (base / "mcp_servers" / "Novels.py").write_text(SERVER.replace("NotesServer", "NovelsServer"))
    (base / "tool_lists" / "Novels.json").write_text(json.dumps([tool("write", text={"type": "string"})]))
    domain = load_domain(base, "Notes_Novels", [])
    assert domain.offered("Notes.write") != domain.offered("Novels.write")
    again = load_domain(base, "Novels_Notes", [])
    assert set(again.toolset.by_name) == set(domain.toolset.by_name), "names depend on the set, not the order"
    world = MockWorld(ServersInProcess(domain))
    await world.open(TASK, 1)
    await call(world, domain.offered("Novels.write") or "", text="a tale")
    (change,) = (await world.changes()).values()
    assert [row["text"] for row in change.added] == ["a tale"]
