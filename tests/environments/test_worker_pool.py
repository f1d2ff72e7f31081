"""Which processes serve which domains, when they start and when they end; and what each of them may read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from rollout.core.errors import ConfigError
from rollout.environments.domains import worker_template, workers
from rollout.environments.domains.domain import load_domain
from rollout.environments.domains.reach import reach_of
from rollout.environments.domains.workers import WorkerPool
from tests.conftest import Command, write_yaml
from tests.environments.desks import SECRET, MakeWorld, call, lay_out, opened, ran


def worker_processes() -> list[psutil.Process]:
    """The workers of this process: what its templates have forked."""
    templates = [
        child for child in psutil.Process().children() if any("worker_main" in part for part in child.cmdline())
    ]
    return [worker for template in templates for worker in template.children()]


async def test_a_process_serves_one_domain_and_all_its_conversations(make_world: MakeWorld) -> None:
    desk, same, room = (
        await opened(make_world, "Desk"),
        await opened(make_world, "Desk"),
        await opened(make_world, "Room"),
    )
    pids = [await ran(world, "os.getpid()") for world in (desk, same, room)]
    assert pids[0] == pids[1] != pids[2]
    both = await opened(make_world, "Desk_Room")
    result = await call(both, "d_run", code="os.getpid()")
    assert json.loads(result.content)["value"] not in pids, "a combination is a domain of its own"


async def test_no_process_is_started_before_it_is_used(base: Path, pool: WorkerPool) -> None:
    before = worker_processes()
    for _ in range(3):
        pool.add(load_domain(base, "Desk", []))
    assert worker_processes() == before


async def test_a_process_ends_when_it_is_idle(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.0)
    world, other = await opened(make_world), await opened(make_world)
    process = psutil.Process(await ran(world, "os.getpid()"))
    await world.close()
    assert await ran(other, "os.getpid()") == process.pid, "not while another conversation is there"
    await other.close()
    while process.is_running():
        await opened(make_world, "Room")
    assert await ran(await opened(make_world), "os.getpid()") != process.pid


async def test_a_folder_of_many_domains_leaves_few_idle_processes(tmp_path: Path, pool: WorkerPool) -> None:
    names = [f"Desk{number}" for number in range(workers.MAX_IDLE + 6)]
    base = lay_out(tmp_path / "many", *names)
    (base / "mcp_servers" / "Desk3.py").write_text("raise OSError('bad day')")
    numbers = {name: pool.add(load_domain(base, name, [])) for name in names}
    found = {name: await pool.problem(number) for name, number in numbers.items()}
    assert "bad day" in (found.pop("Desk3") or "")
    assert set(found.values()) == {None}
    alive = [process for group in pool._processes.values() for process in group if process.is_open]
    assert len(alive) <= workers.MAX_IDLE


async def test_conversations_survive_the_end_of_the_process_that_starts_workers(make_world: MakeWorld) -> None:
    world = await opened(make_world)
    await call(world, "rename", name="Cy")
    worker = psutil.Process(await ran(await opened(make_world), "os.getpid()"))
    psutil.Process(worker.ppid()).kill()
    assert json.loads((await call(world, "members")).content)[0]["name"] == "Cy"


# ---- what a domain may read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "queries/Desk.jsonl",
        "queries/Room.jsonl",
        "mcp_servers/Room.py",
        "tool_lists/Room.json",
        "database/outputs/relationships/Room/Loan.json",
        "database/outputs/relationships/Desk_Room/Loan.json",
        "database/outputs/entities/Room/Member.json",
        "database/deep/a/b/Room/Loan.json",
        "database/outputs/relationships/Room.json",
        "database/outputs/relationships/Desk_Room.json",
    ],
)
async def test_a_server_reads_no_answer_keys_and_nothing_of_other_domains(
    base: Path, make_world: MakeWorld, path: str
) -> None:
    (base / path).parent.mkdir(parents=True, exist_ok=True)
    if not (base / path).exists():
        (base / path).write_text(SECRET)
    result = await call(await opened(make_world), "run", code=f"open(ROOT.parents[1] / '{path}').read()")
    assert "a mock server may read only its own files" in result.content
    assert SECRET not in result.content


@pytest.mark.parametrize(
    "path",
    [
        "database/outputs/entities/Room.json",
        "database/outputs/relationships/Desk/Room.json",
        "database/outputs/relationships/Desk/Room/Loan.json",
        "database/deep/a/b/common.json",
        "database/helper/common.json",
    ],
)
async def test_a_server_reads_common_tables_and_whatever_is_in_its_own_folders(
    base: Path, make_world: MakeWorld, path: str
) -> None:
    (base / "database" / "deep" / "Room").mkdir(parents=True)
    (base / "mcp_servers" / "helper.py").write_text("")  # no server, so its name closes nothing
    (base / path).parent.mkdir(parents=True, exist_ok=True)
    (base / path).write_text("common")
    assert await ran(await opened(make_world), f"open(ROOT.parents[1] / '{path}').read()") == "common"


IMPORTS = [
    "import Room",
    "from Room import RoomServer",
    "from mcp_servers import Room",
    "import mcp_servers.Room",
    "__import__('Room')",
    "import other",
    "import helper",
    "import Other",
]


@pytest.mark.parametrize("statement", IMPORTS)
@pytest.mark.parametrize("has_tool_list", [True, False])
async def test_a_server_of_another_domain_cannot_be_imported_open(
    base: Path, make_world: MakeWorld, statement: str, has_tool_list: bool
) -> None:
    """Not even by an import that never runs, a link, or a module in between."""
    folder = base / "mcp_servers"
    (folder / "other.py").symlink_to("Room.py")
    (folder / "Room").mkdir()
    (folder / "Room" / "__init__.py").write_text(SECRET)
    (folder / "Other").symlink_to("Room")
    (folder / "helper.py").write_text("import Room\n")
    if not has_tool_list:
        (base / "tool_lists" / "Room.json").unlink()
    server = folder / "Desk.py"
    server.write_text(f"def never():\n    {statement}\n\n\n{server.read_text()}")
    world = await opened(make_world)
    for name in ("Room.py", "Room/__init__.py"):
        result = await call(world, "run", code=f"open(ROOT.parents[1] / 'mcp_servers' / '{name}').read()")
        assert "a mock server may read only its own files" in result.content
    assert await ran(world, "len(open(__file__).read()) > 0")


async def test_the_servers_of_a_combination_may_import_each_other(base: Path, make_world: MakeWorld) -> None:
    server = base / "mcp_servers" / "Desk.py"
    place = "import sys\nsys.path.insert(0, __file__.rpartition('/')[0])\nimport Room\n"
    server.write_text(place + server.read_text())
    world = await opened(make_world, "Desk_Room")
    assert json.loads((await call(world, "d_run", code="Room.__name__")).content) == {"value": "Room"}


@pytest.mark.parametrize(
    "link", ["mcp_servers/Desk", "mcp_servers/out", "database/out", "database/outputs/entities/Desk"]
)
@pytest.mark.parametrize("target", [".", "queries", "mcp_servers"])
def test_no_link_opens_a_folder_around_what_is_closed(base: Path, link: str, target: str) -> None:
    for folder in (base, base / "queries", base / "mcp_servers"):
        (folder / "__init__.py").write_text("")
    (base / link).symlink_to(base / target)
    server = base / "mcp_servers" / "Desk.py"
    server.write_text("import out\n" + server.read_text())
    reach = reach_of(load_domain(base, "Desk", []))
    for closed in ("queries/Desk.jsonl", "mcp_servers/Room.py", "database/outputs/relationships/Room/Loan.json"):
        assert not {str(path) for path in (base / closed, *(base / closed).parents)} & set(reach.readable)


def test_a_domain_may_be_linked_to_anothers_tables(base: Path) -> None:
    own = base / "database" / "outputs" / "relationships" / "Desk"
    (own / "Loan.json").unlink()
    own.rmdir()
    own.symlink_to("Room")
    assert str(own.resolve()) in reach_of(load_domain(base, "Desk", [])).readable


async def test_a_combination_reads_the_databases_of_its_servers(base: Path, make_world: MakeWorld) -> None:
    world = await opened(make_world, "Desk_Room")
    for name in ("Desk", "Room"):
        code = f"len(json.loads((ROOT / 'relationships' / '{name}' / 'Loan.json').read_text()))"
        assert json.loads((await call(world, "d_run", code=code)).content) == {"value": 1}


HELPERS = {
    "import helper": "helper.py",
    "from helper import VALUE": "helper.py",
    "from mcp_servers.helper import VALUE": "helper.py",
    "import mcp_servers.parts.helper as helper": "parts/helper.py",
    "from parts import helper": "parts/__init__.py",
    "import importlib; helper = importlib.import_module('helper')": "helper.py",
}


@pytest.mark.parametrize("statement", HELPERS)
async def test_a_server_reads_the_modules_that_it_imports_and_those_that_they_import(
    base: Path, make_world: MakeWorld, statement: str
) -> None:
    folder = base / "mcp_servers"
    (folder / HELPERS[statement]).parent.mkdir(exist_ok=True)
    (folder / HELPERS[statement]).write_text("from deeper import VALUE\n")
    if HELPERS[statement].endswith("__init__.py"):
        (folder / "parts" / "helper.py").write_text("from deeper import VALUE\n")
    (folder / "deeper.py").write_text("VALUE = 42\n")
    (folder / "unasked.py").write_text(f"VALUE = {SECRET!r}\n")
    place = "import sys\nsys.path[:0] = [__file__.rpartition('/')[0], __file__.rpartition('/mcp_servers')[0]]\n"
    server = folder / "Desk.py"
    server.write_text(place + statement + "\n" + server.read_text())
    world = await opened(make_world)
    assert await ran(world, "VALUE" if "VALUE" in statement else "helper.VALUE") == 42
    result = await call(world, "run", code="__import__(''.join(['un', 'asked'])).VALUE")
    assert "may read only its own files" in result.content


def test_no_link_and_no_import_leads_to_the_answer_keys(base: Path) -> None:
    (base / "mcp_servers" / "answers").symlink_to(base / "queries")
    (base / "database" / "answers").symlink_to(base / "queries")
    (base / "mcp_servers" / "out").symlink_to(base.parent)
    (base / "queries" / "__init__.py").write_text("")
    (base / "queries" / "keys.py").write_text("")
    server = base / "mcp_servers" / "Desk.py"
    server.write_text("import answers, queries, queries.keys, out\n" + server.read_text())
    reach = reach_of(load_domain(base, "Desk", []))
    for path in (*reach.readable, *reach.listable):
        assert not Path(path).is_relative_to(base / "queries")
        assert not (base / "queries").is_relative_to(path) or path in reach.listable
        assert path != str(base.parent)
    assert os.path.realpath(base / "database") not in reach.readable or not (base / "database" / "answers").exists()


async def test_a_server_that_ends_its_process_while_loading_is_named(base: Path, make_world: MakeWorld) -> None:
    (base / "mcp_servers" / "Desk.py").write_text("import os\nos._exit(0)\n")
    with pytest.raises(ConfigError, match=r"Desk: its servers took the process down while loading \(crash\)"):
        await opened(make_world)


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        ("tempfile", "TemporaryFile", FileNotFoundError("No usable temporary directory")),
        ("subprocess", "Popen", BlockingIOError("Resource temporarily unavailable")),
    ],
)
def test_a_process_that_cannot_be_started_is_a_problem_of_the_dataset(
    rollout: Command, monkeypatch: pytest.MonkeyPatch, module: str, name: str, error: OSError
) -> None:
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "user": "builtin/user"}
    config = write_yaml(Path("config.yml"), {"datasets": {"portal": dataset}})

    def fail(*args: object, **keys: object) -> None:
        raise error

    monkeypatch.setattr(getattr(worker_template, module), name, fail)
    done = rollout("check", str(config))
    assert done.code == 2
    told = "StudentAcademicPortal: the process for mock servers cannot be started"
    assert f"{told}: {type(error).__name__}: {error}" in done.out
