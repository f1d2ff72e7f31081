"""The channel between engine and worker process: what a server writes there by itself is nobody's answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rollout.errors import WorldError
from rollout.worlds.tools.frames import MAX_FRAME, FrameError, FrameReader, read_answer, read_value, write_frame
from tests.worlds.desks import MakeWorld, call, opened, ran

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


async def test_a_server_that_patches_its_host_falsifies_no_other_domain(make_world: MakeWorld) -> None:
    bad, good = await opened(make_world, "Desk"), await opened(make_world, "Room")
    patch = "setattr(__import__('rollout.worlds.tools.host').worlds.tools.host.Sessions, 'call', lambda *a: 'false')"
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
