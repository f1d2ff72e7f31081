"""What the kernel keeps from a worker process, also where Python is not asked."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rollout.environments.domains import worker_process
from rollout.environments.domains.domain import load_domain
from rollout.environments.domains.reach import reach_of
from rollout.environments.domains.sandbox import MAX_THREADS
from tests.environments.desks import SECRET, MakeWorld, call, lay_out, opened, ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own means are Linux's")

CLOSED = [
    *("fork_exec", "fork", "vfork", "execve", "posix_spawn", "setsid"),
    *("chmod", "fchmodat", "fchmodat2", "chown", "lchown", "setxattr", "removexattr", "setxattrat", "utime"),
    *("truncate", "unlink", "link", "mkdir", "openat2"),
    *("unix socket", "socketpair", "tcp", "udp", "pipe", "shmget", "msgget", "semget", "memfd_create"),
    *("ptrace", "kill", "tgkill", "pidfd_open", "prlimit", "mount", "unshare", "setns", "chroot", "setuid"),
    *("setpriority", "io_uring"),
]
UNREADABLE = ["queries", "another server", "another database", "our file", "passwd", "the shipped queries"]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of everything that `hostile` tries, beside a server that listens and files that are not its own."""
    folder = tmp_path_factory.mktemp("hostile")
    base = lay_out(folder / "data", "Desk", "Room")
    foreign = folder / "foreign.txt"
    foreign.write_text(SECRET)
    domain = load_domain(base, "Desk", [])
    shipped = Path(worker_process.__file__).parents[2] / "examples" / "datasets" / "single_domain"
    read = {
        "own": base / "mcp_servers" / "Desk.py",
        "own database": base / "database" / "outputs" / "relationships" / "Desk" / "Loan.json",
        "common tables": base / "database" / "outputs" / "entities" / "Member.json",
        "queries": base / "queries" / "Desk.jsonl",
        "another server": base / "mcp_servers" / "Room.py",
        "another database": base / "database" / "outputs" / "relationships" / "Room" / "Loan.json",
        "our file": foreign,
        "passwd": Path("/etc/passwd"),
        "the shipped queries": shipped / "queries" / "HotelReservations.jsonl",
    }
    assert all(path.exists() for path in read.values())

    async def run() -> bytes:
        unix = await asyncio.start_unix_server(lambda reader, writer: writer.close(), str(folder / "s"))
        tcp = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with unix, tcp:
            settings = {
                "reach": msgspec.to_builtins(reach_of(domain)),
                "foreign": str(foreign),
                "socket": str(folder / "s"),
                "port": tcp.sockets[0].getsockname()[1],
                "own": str(read["own"]),
                "read": {name: str(path) for name, path in read.items()},
            }
            arguments = [sys.executable, str(Path(__file__).with_name("hostile.py")), json.dumps(settings)]
            child = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
            return (await child.communicate())[0]

    found: dict[str, Any] = json.loads(asyncio.run(run()))
    if missing := [piece for piece, is_so in found["in_force"].items() if not is_so]:
        pytest.skip(f"this kernel does not offer {', '.join(missing)}")
    assert foreign.read_text() == SECRET
    return found


@pytest.mark.parametrize("name", CLOSED)
def test_a_process_without_the_audit_hook_is_refused(tried: dict[str, Any], name: str) -> None:
    assert tried["came_of_it"][name] == "EPERM"


def test_no_system_call_but_an_interpreters_gets_through(tried: dict[str, Any]) -> None:
    """Made by their numbers, as machine code would."""
    assert len(tried["raw"]) > 80
    assert {name: error for name, error in tried["raw"].items() if error != "EPERM"} == {}


def test_a_process_has_few_threads_also_as_root(tried: dict[str, Any]) -> None:
    """Their stacks in the kernel are outside its memory limit."""
    assert 32 < tried["threads"] < MAX_THREADS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_few_threads_too() -> None:
    code = (
        "import json, tests.environments.hostile as hostile\n"
        "in_force = hostile.give_up_rights(hostile.Reach(('/',)), 1 << 30)\n"
        "print(json.dumps([in_force['threads'], hostile.start_threads()]), flush=True)\n"
        "hostile.os._exit(0)"
    )
    # Imported before it is somebody else, who may not read our files.
    become = "import os, tests.environments.hostile\nos.setgroups([])\n"
    become += "os.setresgid(*[54321] * 3)\nos.setresuid(*[54321] * 3)\n"
    done = subprocess.run([sys.executable, "-c", become + code], capture_output=True, text=True, timeout=120)
    is_in_force, count = json.loads(done.stdout)
    if not is_in_force:
        pytest.skip("this kernel counts threads by user only")
    assert 32 < count < MAX_THREADS


async def test_a_call_that_starts_thousands_of_threads_is_an_error_and_costs_nobody_else(make_world: MakeWorld) -> None:
    bad, good = await opened(make_world), await opened(make_world, "Room")
    many = (
        "(lambda t, w: [w.stack_size(32768), [t.start_new_thread(time.sleep, (600,)) for _ in range(12_000)]])"
        "(__import__('_thread'), __import__('threading'))"
    )
    result = await call(bad, "run", code=many)
    assert "can't start new thread" in result.content
    pid = await ran(bad, "os.getpid()")
    assert psutil.Process(pid).num_threads() <= MAX_THREADS
    assert await ran(good, "(t := __import__('threading').Thread(target=int)).start() or t.join() or 1") == 1


def test_every_attempt_is_looked_at(tried: dict[str, Any]) -> None:
    others = {"clone3", "write", *(f"read {name}" for name in UNREADABLE)}
    others |= {"read own", "read own database", "read common tables"}
    assert set(tried["came_of_it"]) == {*CLOSED, *others}


@pytest.mark.parametrize("name", UNREADABLE)
def test_the_kernel_keeps_what_is_not_the_domains_own(tried: dict[str, Any], name: str) -> None:
    assert tried["came_of_it"][f"read {name}"] == "EACCES"


def test_a_process_can_read_its_own_files_and_have_threads_but_write_nothing(tried: dict[str, Any]) -> None:
    came_of_it = tried["came_of_it"]
    assert {came_of_it[f"read {name}"] for name in ("own", "own database", "common tables")} == {"done"}
    assert tried["thread"] == "ran"
    assert came_of_it["clone3"] == "ENOSYS", "libc goes on with clone, whose flags can be looked at"
    assert came_of_it["write"] == "EACCES"


async def test_a_worker_has_no_capabilities_and_a_user_namespace_of_its_own(make_world: MakeWorld) -> None:
    pid = await ran(await opened(make_world), "os.getpid()")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert {status[key] for key in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    if os.geteuid() == 0:
        for name in ("user", "net", "ipc"):
            assert os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")


FORK_EXEC = (
    "__import__('_posixsubprocess').fork_exec([b'sleep', b'600'], [b'/bin/sleep'], True, (9,), None, None, "
    "*[-1] * 7, 9, False, False, -1, None, None, None, -1, None, *more)"
)


@pytest.mark.parametrize("more", ["[True]", "[]"])
async def test_a_server_leaves_no_descendants(make_world: MakeWorld, more: str) -> None:
    """`fork_exec` raises no audit event: only the kernel refuses it. Its signature differs between Pythons."""
    world = await opened(make_world)
    pid = await ran(world, "os.getpid()")
    result = await call(world, "run", code=FORK_EXEC.replace("*more", f"*{more}"))
    assert result.is_error
    assert "PermissionError" in result.content or "TypeError" in result.content
    assert psutil.Process(pid).children(recursive=True) == []
    assert await ran(world, "os.getpid()") == pid


async def test_a_piece_that_the_kernel_lacks_is_named_once(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker_process.warn_once.cache_clear()
    read_value = worker_process.read_value
    monkeypatch.setattr(
        worker_process,
        "read_value",
        lambda what, answer: {"seccomp": False, "network": True} if what == "confine" else read_value(what, answer),
    )
    await opened(make_world, "Desk")
    await opened(make_world, "Room")
    (told,) = [record.message for record in caplog.records if "mock servers" in record.message]
    assert "seccomp" in told
    assert "closed network" not in told
