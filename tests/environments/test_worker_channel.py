"""The channel between engine and worker process: what a server writes there by itself is nobody's answer."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rollout.core.changes import TableChange
from rollout.core.errors import ConfigError, WorldError
from rollout.environments.domains.frames import (
    MAX_ERROR_TEXT,
    MAX_FRAME,
    MAX_RESULT,
    FrameError,
    FrameReader,
    RequestFrame,
    max_frame,
    read_answer,
    read_value,
    write_answer,
    write_frame,
)
from tests.environments.desks import MakeWorld, call, opened, ran

HELPER = """

def write_everywhere(data):
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, data)
        except OSError:
            pass


def caller(name):
    import sys
    frame = sys._getframe()
    while frame.f_code.co_name != name:
        frame = frame.f_back
    return frame.f_locals


def answer_raw(what, how, value):
    # Have the worker answer requests of one kind with these bytes, under the right id.
    kind = type(caller('_answer')['worker'])
    honest = kind.answer

    def answer(self, asked, args):
        if asked != what:
            return honest(self, asked, args)
        data = b'\\x93\\xc4\\x10' + caller('_answer')['request'].id + bytes([0xa0 + len(how)]) + how + value()
        import stat
        for descriptor in range(3, 256):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    rest = memoryview(len(data).to_bytes(4, 'little') + data)
                    while rest:
                        rest = rest[os.write(descriptor, rest):]
            except OSError:
                pass
        while True:
            time.sleep(60)

    kind.answer = answer
"""


@pytest.fixture
def hostile(base: Path) -> Path:
    """The servers know how to write to every descriptor, and how to look at the code that called them."""
    for name in ("Desk", "Room"):
        path = base / "mcp_servers" / f"{name}.py"
        path.write_text(path.read_text() + HELPER)
    return base


def frame(message: object) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize(
    "written",
    [
        frame((b"0" * 16, "ok", ("falsified", False, None))),
        frame(("ok", ("falsified", False, None))),
        frame(1),
        b"\x00\x00\x00\x00",
        b"\x05\x00\x00\x00\xc1\xc1\xc1\xc1\xc1",
        b"\xff\xff\xff\xff" + b"x" * 1000,
    ],
    ids=["unknown id", "no id", "no array", "empty", "no msgpack", "4 GB announced"],
)
async def test_a_frame_that_nobody_asked_for_ends_the_process_and_is_no_answer(
    hostile: Path, make_world: MakeWorld, written: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = await opened(make_world), await opened(make_world)
    await call(good, "rename", name="good")
    answers = await asyncio.gather(
        call(bad, "run", code=f"write_everywhere({written!r})"),
        *(call(good, "members") for _ in range(3)),
        return_exceptions=True,
    )
    assert isinstance(answers[0], WorldError), "the conversation fails; it is not scored"
    assert "writes to the engine's channel" in str(answers[0])
    for answer in answers[1:]:
        assert not isinstance(answer, BaseException)
        assert json.loads(answer.content)[0]["name"] == "good"
    assert "Desk: a mock server wrote to the engine's channel" in caplog.text


async def test_an_answer_under_the_right_id_but_in_the_wrong_shape_is_refused(
    hostile: Path, make_world: MakeWorld
) -> None:
    world = await opened(make_world)
    steal = (
        "(lambda data: write_everywhere(len(data).to_bytes(4, 'little') + data))"
        "(b'\\x93\\xc4\\x10' + caller('_answer')['request'].id + b'\\xa2ok\\x2a')"
    )
    with pytest.raises(WorldError, match="writes to the engine's channel"):
        await call(world, "run", code=steal)


def test_a_length_is_checked_before_anything_is_kept() -> None:
    with pytest.raises(FrameError, match="announced"):
        next(FrameReader().feed((MAX_FRAME + 1).to_bytes(4, "little")))
    with pytest.raises(FrameError, match="announced"):
        next(FrameReader(lambda: 10).feed((11).to_bytes(4, "little")))
    with pytest.raises(FrameError, match="too long"):
        write_frame(b"x" * (MAX_FRAME + 1))


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("call", ["text", False]),
        ("call", ["text", False, "timeout"]),
        ("call", [b"bytes", False, None]),
        ("open", 1),
        ("state_key", None),
        ("snapshot", ["text", "key"]),
        ("changes", {"Table": {"added": [1]}}),
        ("confine", {"seccomp": "yes"}),
    ],
)
def test_an_answer_has_the_shape_that_its_request_calls_for(what: str, value: object) -> None:
    with pytest.raises(FrameError, match=f"not an answer to '{what}'"):
        read_value(what, read_answer(msgspec.msgpack.encode((b"id", "ok", value))))


TEXT = "b'\\xdb' + ({0}).to_bytes(4, 'big') + b'B' * ({0})"


@pytest.mark.parametrize(
    ("what", "how", "value"),
    [
        ("changes", "ok", "b'\\x81\\xa1t\\x82\\xa5added\\xdd' + (12 << 20).to_bytes(4, 'big') + b'\\x80' * (12 << 20)"),
        ("changes", "ok", "(lambda text: b'\\xc6' + len(text).to_bytes(4, 'big') + text)(b'[' + b'{},' * (4 << 20))"),
        ("call", "ok", f"b'\\x93' + {TEXT.format('20 << 20')} + b'\\xc2\\xc0'"),
        ("call", "world", TEXT.format("5 << 20")),
        ("changes", "config", TEXT.format("5 << 20")),
        ("snapshot", "ok", f"b'\\x92\\xc4\\x00' + {TEXT.format('60 << 20')}"),
        ("state_key", "ok", TEXT.format("5 << 20")),
    ],
)
async def test_an_answer_that_is_larger_than_an_honest_one_ends_the_process(
    hostile: Path, make_world: MakeWorld, what: str, how: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = hostile / "mcp_servers" / "Desk.py"
    patch = f"        answer_raw({what!r}, {how.encode()!r}, lambda: {value})\n"
    path.write_text(path.read_text().replace("        session.seen += 1\n", patch))
    world, good = await opened(make_world), await opened(make_world, "Room")
    await call(world, "members")
    ask: dict[str, Callable[[], Awaitable[Any]]] = {
        "call": lambda: call(world, "members"),
        "changes": lambda: world.changes(),  # type: ignore[attr-defined]
        "snapshot": world.snapshot,
        "state_key": world.state_key,
    }
    with pytest.raises(WorldError, match="writes to the engine's channel"):
        await ask[what]()
    assert "Desk: a mock server wrote to the engine's channel" in caplog.text
    assert len(caplog.text) < 10_000
    assert len(json.loads((await call(good, "members")).content)) == 2


def test_changes_are_counted_before_they_become_objects() -> None:
    data = b'{"t":{"added":[' + b"{}," * (12 << 20) + b"{}]}}"
    answer = read_answer(msgspec.msgpack.encode((b"id", "ok", data)))
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match="too large"):
            read_value("changes", answer)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


def test_an_honest_answer_is_one_that_the_engine_takes() -> None:
    """Also where it is as large as it may be."""
    row = {"id": "R1", "name": "a row of a table", "amount": 12.5, "tags": ["a", "b"], "note": "x" * 40}
    rows = [{**row, "id": f"R{number}"} for number in range(60_000)]
    changes = {"t": TableChange(tuple(rows), tuple(rows))}
    for what, value in {"changes": changes, "call": ("\U0001f600" * MAX_RESULT, False, None)}.items():
        written = write_answer(RequestFrame(b"i" * 16, what, []), "ok", value)[4:]
        assert len(written) <= max_frame(what)
        read = read_value(what, read_answer(written))
        assert read == value
    error = write_answer(RequestFrame(b"i" * 16, "open", []), "world", "\U0001f600" * 5_000_000)[4:]
    assert read_value("open", read_answer(error)) == "\U0001f600" * MAX_ERROR_TEXT


async def test_a_large_table_may_change_in_every_row(base: Path, make_world: MakeWorld) -> None:
    rows = [{"member_id": number, "name": "Ada", "note": "n" * 60} for number in range(30_000)]
    path = base / "database" / "outputs" / "entities" / "Member.json"
    path.write_text(json.dumps(rows))
    assert path.stat().st_size > 3_000_000
    world = await opened(make_world)
    await call(world, "rename", name="Cy")
    change = (await world.changes())["Member"]  # type: ignore[attr-defined]
    assert (len(change.added), len(change.removed)) == (30_000, 30_000)
    assert await world.snapshot() is not None


LONG = """

def fail(*args):
    raise RuntimeError('B' * %d)


"""


@pytest.mark.parametrize("size", [300_000, 30_000_000])
@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ROOT = ", "fail()\nROOT = "),
        ("        self.sessions = {}", "        fail()\n        self.sessions = {}"),
        ("        session.seen += 1", "        session.databases['Member'] = map(fail, [1])"),
    ],
    ids=["loading", "starting", "reading the state"],
)
async def test_a_long_error_of_a_server_is_cut_where_it_enters_the_engine(
    base: Path, make_world: MakeWorld, line: str, fault: str, size: int
) -> None:
    path = base / "mcp_servers" / "Desk.py"
    path.write_text(LONG % size + path.read_text().replace(line, fault))

    async def changes() -> None:
        world = await opened(make_world)
        await call(world, "run", code="1")
        await world.changes()  # type: ignore[attr-defined]

    with pytest.raises((ConfigError, WorldError), match="RuntimeError: BBB") as raised:
        await changes()
    assert len(str(raised.value)) < 5_000


async def test_a_server_that_patches_its_host_falsifies_no_other_domain(make_world: MakeWorld) -> None:
    bad, good = await opened(make_world, "Desk"), await opened(make_world, "Room")
    host = "__import__('rollout.environments.domains.host').environments.domains.host"
    patch = f"setattr({host}.Sessions, 'call', lambda *a: 'false')"
    await call(bad, "run", code=patch)
    assert (await call(bad, "members")).content == "false", "it can spoil what is its own"
    assert len(json.loads((await call(good, "members")).content)) == 2


# ---- calls that are given up ----------------------------------------------------------------------------------------


async def give_up(calling: Coroutine[Any, Any, Any]) -> None:
    """Make a call, and cancel it when it was sent."""
    task = asyncio.create_task(calling)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_call_that_is_given_up_counts_as_never_made(make_world: MakeWorld, is_lost: bool) -> None:
    """Whether its process did it or not, and whether it is still there: the state is the one without it."""
    world, other = await opened(make_world), await opened(make_world)
    await call(world, "rename", name="before")
    key, pid = await world.state_key(), await ran(other, "os.getpid()")
    await give_up(call(world, "rename", name="given up"))
    if is_lost:
        psutil.Process(pid).kill()
    assert await world.state_key() == key
    assert json.loads((await call(world, "members")).content)[0]["name"] == "before"


async def test_a_late_answer_goes_to_nobody(make_world: MakeWorld) -> None:
    """Calls given up one after the other leave their answers behind; each later call still gets its own."""
    world, other = await opened(make_world), await opened(make_world)
    for number in range(20):
        await give_up(call(world, "run", code=f"'given up {number}'"))
        assert await ran(other, f"'other {number}'") == f"other {number}"
        assert await ran(world, f"'own {number}'") == f"own {number}"


async def test_a_shared_server_that_keeps_sessions_forgets_a_call_that_is_given_up(
    base: Path, make_world: MakeWorld
) -> None:
    path = base / "mcp_servers" / "Desk.py"
    shared = "    isolates_sessions = True\n\n    def __init__(self, domain_name"
    path.write_text(path.read_text().replace("    def __init__(self, domain_name", shared))
    world = await opened(make_world)
    key = await world.state_key()
    await give_up(call(world, "rename", name="given up"))
    assert await world.state_key() == key
