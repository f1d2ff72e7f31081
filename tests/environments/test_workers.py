"""Mock servers in a worker process: what they cannot reach, and that what they do costs nobody but themselves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rollout.core.errors import WorldError
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.domains import worker_process
from rollout.environments.domains.domain import load_domain
from rollout.environments.domains.mock import MockWorld, ServersInProcess
from rollout.environments.domains.workers import WorkerPool
from tests.environments.desks import SECRET, SERVER, MakeWorld, call, opened

# ---- what a server cannot reach -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("open(ROOT.parents[2] / 'ours.txt').read()", "may read only its own files"),
        ("open('/etc/passwd').read()", "may read only its own files"),
        ("os.listdir('/root')", "may read only its own files"),
        ("open(ROOT / 'entities' / 'Member.json', 'w')", "may not write files"),
        ("os.remove(ROOT / 'entities' / 'Member.json')", "may not do this: os.remove"),
        ("__import__('socket').create_connection(('127.0.0.1', 9))", "may not do this: socket."),
        ("__import__('subprocess').run(['true'])", "may not do this: subprocess.Popen"),
        ("os.system('true')", "may not do this: os.system"),
        ("os.fork()", "may not do this: os.fork"),
        ("os.kill(os.getppid(), 9)", "may not do this: os.kill"),
        ("__import__('ctypes').CDLL(None)", "may not do this: ctypes.dlopen"),
        ("__import__('sqlite3').connect('x.db')", "no database but :memory:"),
    ],
)
async def test_a_server_is_kept_from_what_is_ours(make_world: MakeWorld, code: str, told: str) -> None:
    result = await call(await opened(make_world), "run", code=code)
    assert result.error_kind == "crash"
    assert told in result.content
    assert SECRET not in result.content


async def test_a_server_has_no_environment_of_ours(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    world = await opened(make_world)
    assert SECRET not in (await call(world, "run", code="str(dict(os.environ))")).content
    parents = await call(world, "run", code="open(f'/proc/{os.getppid()}/environ', 'rb').read().hex()")
    assert parents.is_error


async def test_what_a_server_prints_goes_nowhere(make_world: MakeWorld, capfd: pytest.CaptureFixture[str]) -> None:
    world = await opened(make_world)
    assert not (await call(world, "run", code="print('hello') or os.write(1, b'hello')")).is_error
    assert capfd.readouterr() == ("", "")


SILENT = """

class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no")


def fail():
    raise Silent
"""


@pytest.mark.parametrize("is_trusted", [False, True])
async def test_an_exception_that_cannot_be_put_into_words_costs_only_its_call(
    base: Path, make_world: MakeWorld, is_trusted: bool
) -> None:
    path = base / "mcp_servers" / "Desk.py"
    path.write_text(path.read_text() + SILENT)
    world: World = MockWorld(ServersInProcess(load_domain(base, "Desk", []))) if is_trusted else make_world()
    await world.open(Task("t"), 1)
    result = await call(world, "run", code="fail()")
    assert result.error_kind == "crash"
    assert "run raised Silent: <no text: its __str__ raises>" in result.content
    assert not (await call(world, "members")).is_error


# ---- what a bad call costs ------------------------------------------------------------------------------------------


async def test_a_call_that_hangs_is_undone_and_costs_nobody_else(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SLOW", 0.2)
    hangs = "any(iter(int, 1))"
    for_ever, good = await opened(make_world, timeout=900), await opened(make_world)
    await call(good, "rename", name="good")
    hanging = asyncio.create_task(call(for_ever, "run", code=hangs))
    await asyncio.sleep(0)
    result = await call(good, "members")
    assert not hanging.done(), "the other world did not wait for the call that hangs"
    assert json.loads(result.content)[0]["name"] == "good", "it came with its state"
    hanging.cancel()
    bad = await opened(make_world, timeout=5.0)
    await call(bad, "rename", name="before")
    key = await bad.state_key()
    late = await call(bad, "run", code=hangs)
    assert (late.error_kind, "within 5 s" in late.content) == ("timeout", True)
    assert await bad.state_key() == key
    assert json.loads((await call(bad, "members")).content)[0]["name"] == "before"


async def test_a_slow_call_still_gets_its_answer(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SLOW", 0.1)
    slow, other = await opened(make_world), await opened(make_world)
    answer = asyncio.create_task(call(slow, "run", code="time.sleep(0.6) or os.getpid()"))
    await asyncio.sleep(0)
    moved = json.loads((await call(other, "run", code="os.getpid()")).content)["value"]
    assert json.loads((await answer).content)["value"] != moved
    assert json.loads((await call(slow, "run", code="1")).content) == {"value": 1}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("os._exit(0)", "ended the process"),
        ("__import__('signal').raise_signal(9)", "ended the process"),
        ("__import__('faulthandler')._sigsegv()", "ended the process"),
        ("bytearray(1 << 30)", "used up the memory"),
        ("[bytearray(1 << 20) for _ in iter(int, 1)]", "used up the memory"),
    ],
)
async def test_a_call_that_takes_the_process_down_is_undone(make_world: MakeWorld, code: str, told: str) -> None:
    bad, good = await opened(make_world), await opened(make_world)
    await call(good, "rename", name="good")
    key = await bad.state_key()
    result = await call(bad, "run", code=code)
    assert result.error_kind == "crash"
    assert told in result.content
    assert await bad.state_key() == key
    assert json.loads((await call(good, "members")).content)[0]["name"] == "good"


async def test_a_process_that_is_killed_between_calls_is_replaced(make_world: MakeWorld) -> None:
    world = await opened(make_world)
    before = (await call(world, "roll")).content
    pid = json.loads((await call(world, "run", code="os.getpid()")).content)["value"]
    # A pid that the record holds would differ when the call is made again: that is found, not passed over.
    psutil.Process(pid).kill()
    with pytest.raises(WorldError, match="run answered otherwise when its call was made again"):
        await call(world, "members")
    fresh = await opened(make_world)
    assert (await call(fresh, "roll")).content == before


async def test_killing_the_process_loses_no_state(make_world: MakeWorld) -> None:
    world, other = await opened(make_world), await opened(make_world)
    for number in range(5):
        await call(world, "rename", name=f"name {number}")
    rolled = (await call(world, "roll")).content
    key, changes = await world.state_key(), await world.changes()
    pid = json.loads((await call(other, "run", code="os.getpid()")).content)["value"]
    psutil.Process(pid).kill()
    assert await world.state_key() == key
    assert await world.changes() == changes
    assert (await call(world, "roll")).content != rolled, "the dice go on where they were"


async def test_eight_worlds_calling_alike_at_once_get_their_own_answers(make_world: MakeWorld) -> None:
    worlds = [await opened(make_world) for _ in range(8)]
    await asyncio.gather(*(call(world, "rename", name=f"n{place}") for place, world in enumerate(worlds)))
    answers = await asyncio.gather(*(call(world, "members") for world in worlds))
    assert [json.loads(answer.content)[0]["name"] for answer in answers] == [f"n{place}" for place in range(8)]


def test_the_process_ends_with_the_engine(base: Path) -> None:
    """Also after kill -9, also while a server hangs."""
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from rollout.core.task import Task\n"
        "from rollout.environments.domains.domain import load_domain\n"
        "from rollout.environments.domains.workers import WorkerPool, WorkerWorld\n"
        "from rollout.core.world import Invocation\n"
        "async def main():\n"
        "    pool = WorkerPool()\n"
        "    domain = load_domain(Path(sys.argv[1]), 'Desk', [])\n"
        "    world = WorkerWorld(pool, domain, pool.add(domain))\n"
        "    await world.open(Task('t'), 1)\n"
        "    print('open', flush=True)\n"
        "    await world.call([Invocation('c', 'run', {'code': '[None for _ in iter(int, 1)]'})])\n"
        "asyncio.run(main())\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(base)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    template, worker = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    child.wait()
    child.stdout.close()
    psutil.wait_procs([template, worker], timeout=600)
    assert not template.is_running()
    assert not worker.is_running()


# ---- the same world as in process -----------------------------------------------------------------------------------


async def test_a_worker_answers_as_this_process_does(base: Path, make_world: MakeWorld) -> None:
    here: World = MockWorld(ServersInProcess(load_domain(base, "Desk", [])))
    there = make_world()
    for world in (here, there):
        await world.open(Task("t"), 7)
    for name, arguments in (("members", {}), ("rename", {"name": "é"}), ("expel", {}), ("run", {"code": "1/0"})):
        assert await call(here, name, **arguments) == await call(there, name, **arguments)
    assert await here.state_key() == await there.state_key()
    assert await here.changes() == await there.changes()  # type: ignore[attr-defined]


async def test_randomness_is_seeded_also_where_it_is_imported_in_a_function(make_world: MakeWorld) -> None:
    one, two, other = [await opened(make_world, seed=seed) for seed in (1, 1, 2)]
    assert (await call(one, "roll")).content == (await call(two, "roll")).content
    assert json.loads((await call(other, "roll")).content)[:2] != json.loads((await call(one, "roll")).content)[:2]


async def test_a_snapshot_is_restored_in_another_process(make_world: MakeWorld) -> None:
    world = await opened(make_world)
    await call(world, "expel")
    snapshot = await world.snapshot()
    assert snapshot is not None
    await call(world, "rename", name="later")
    fork = await opened(make_world)
    await fork.restore(snapshot)
    assert await fork.state_key() == snapshot.state_key
    assert json.loads((await call(fork, "members")).content) == [{"member_id": 2, "name": "Ben"}]
    pid = json.loads((await call(world, "run", code="os.getpid()")).content)["value"]
    psutil.Process(pid).kill()
    assert json.loads((await call(fork, "members")).content) == [{"member_id": 2, "name": "Ben"}], "from the snapshot"


# ---- several servers ------------------------------------------------------------------------------------------------


async def test_servers_of_one_episode_share_the_tables_of_one_file(make_world: MakeWorld) -> None:
    world, other = await opened(make_world, "Desk_Room"), await opened(make_world, "Desk_Room")
    await call(world, "d_rename", name="Cy")
    assert {row["name"] for row in json.loads((await call(world, "r_members")).content)} == {"Cy"}
    await call(world, "r_expel")  # puts another list in the table's place
    assert len(json.loads((await call(world, "d_members")).content)) == 1
    await call(world, "d_rename", name="Di")
    assert [row["name"] for row in json.loads((await call(world, "r_members")).content)] == ["Di"]
    changes = await world.changes()  # type: ignore[attr-defined]
    assert [row["name"] for row in changes["Member"].removed] == ["Ada", "Ben"]
    assert [row["name"] for row in changes["Member"].added] == ["Di"]
    await call(world, "r_run", code="1")
    changes = await world.changes()  # type: ignore[attr-defined]
    assert [len(change.added) for name, change in changes.items() if "Loan" in name] == [1], "their loans are apart"
    assert len(json.loads((await call(other, "d_members")).content)) == 2
    snapshot = await world.snapshot()
    assert snapshot is not None
    await other.restore(snapshot)
    await call(other, "d_rename", name="Ed")
    assert [row["name"] for row in json.loads((await call(other, "r_members")).content)] == ["Ed"], "still one table"


READ = """        with open(ROOT / "entities" / "Member.json") as file:
            self.tables = {"Member": json.load(file)}
"""
COPY = "copy.deepcopy(self.tables)"


@pytest.mark.parametrize(
    "read",
    [
        READ.replace("ROOT", "(Path(__file__).parent / '..' / 'database' / 'outputs')"),
        '        self.tables = {"Member": json.loads((ROOT / "entities" / "Member.json").read_text())}\n',
    ],
)
@pytest.mark.parametrize(
    "copied",
    [
        COPY,
        "{name: [dict(row) for row in rows] for name, rows in self.tables.items()}",
        "json.loads(json.dumps(self.tables))",
    ],
)
async def test_a_table_is_shared_however_a_server_has_read_and_copied_it(
    base: Path, make_world: MakeWorld, read: str, copied: str
) -> None:
    code = SERVER % {"name": "Room"}
    assert READ in code
    assert COPY in code
    (base / "mcp_servers" / "Room.py").write_text(code.replace(READ, read).replace(COPY, copied))
    world = await opened(make_world, "Desk_Room")
    for writer, reader in (("d", "r"), ("r", "d")):
        await call(world, f"{writer}_rename", name=f"by {writer}")
        seen = json.loads((await call(world, f"{reader}_members")).content)
        assert {row["name"] for row in seen} == {f"by {writer}"}
    await call(world, "r_expel")
    assert len(json.loads((await call(world, "d_members")).content)) == 1
    assert len((await world.changes())["Member"].removed) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "copied", ["{name: list(rows) for name, rows in self.tables.items()}", "copy.copy(self.tables)", COPY]
)
async def test_changes_are_seen_also_where_a_server_copies_badly(
    base: Path, make_world: MakeWorld, copied: str
) -> None:
    path = base / "mcp_servers" / "Desk.py"
    path.write_text(path.read_text().replace(COPY, copied))
    world, other = await opened(make_world), await opened(make_world)
    await call(world, "rename", name="Cy")
    assert [row["name"] for row in (await world.changes())["Member"].added] == ["Cy", "Cy"]  # type: ignore[attr-defined]
    assert await other.changes() == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "added", "removed"),
    [
        ("session.databases.pop('Member')", 0, 2),
        ("session.databases.clear()", 0, 2),
        ("session.databases.update(Member={1: {'name': 'Ada'}})", 1, 2),
        ("session.databases.update(Member=[])", 0, 2),
        ("session.databases.update(New=[{'id': 1}])", 1, 0),
    ],
)
async def test_tables_that_go_or_come_are_changes(make_world: MakeWorld, code: str, added: int, removed: int) -> None:
    world = await opened(make_world)
    key = await world.state_key()
    await call(world, "run", code=f"({code}, session.databases.pop('Loan', None)) and 1")
    changes = await world.changes()  # type: ignore[attr-defined]
    told = changes.get("New") or changes["Member"]
    assert (len(told.added), len(told.removed)) == (added, removed)
    assert len(changes["Loan"].removed) == 1
    assert await world.state_key() != key


@pytest.mark.parametrize("code", ["setattr(json, 'load', None)", "setattr(copy, 'deepcopy', lambda x: x)"])
async def test_a_server_cannot_patch_what_other_conversations_use(make_world: MakeWorld, code: str) -> None:
    result = await call(await opened(make_world), "run", code=code)
    assert "may not change a module that others use" in result.content
    assert len(json.loads((await call(await opened(make_world), "members")).content)) == 2


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("time.strftime('%Y-%m-%d')", "2025-01-23"),
        ("time.localtime().tm_hour", 15),
        ("time.time_ns() // 10**9 == int(time.time())", True),
        ("__import__('datetime').datetime.now().isoformat()", "2025-01-23T15:00:00"),
    ],
)
async def test_every_clock_says_the_same(make_world: MakeWorld, code: str, value: Any) -> None:
    assert json.loads((await call(await opened(make_world), "run", code=code)).content) == {"value": value}


@pytest.mark.parametrize("code", ["__import__('random').Random().random()", "__import__('secrets').token_hex(8)"])
async def test_every_die_is_seeded(make_world: MakeWorld, code: str) -> None:
    one, two, other = [
        (await call(await opened(make_world, seed=seed), "run", code=code)).content for seed in (1, 1, 2)
    ]
    assert one == two != other


async def test_a_server_that_cannot_be_loaded_is_told_before_the_run(base: Path, pool: WorkerPool) -> None:
    (base / "mcp_servers" / "Room.py").write_text("raise OSError('bad day')")
    desk, room = (pool.add(load_domain(base, name, [])) for name in ("Desk", "Room"))
    assert await pool.problem(desk) is None
    assert "Room.py: failed while loading: OSError: bad day" in (await pool.problem(room) or "")


async def test_a_server_whose_tables_are_missing_fails_its_own_worlds(base: Path, make_world: MakeWorld) -> None:
    (base / "database" / "outputs" / "relationships" / "Room" / "Loan.json").unlink()
    with pytest.raises(WorldError, match=r"Room: the server could not start: FileNotFoundError: .*Loan\.json"):
        await opened(make_world, "Room")
    assert not (await call(await opened(make_world, "Desk"), "members")).is_error
