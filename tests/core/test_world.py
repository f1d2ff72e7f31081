"""Worlds of plain attributes: their tools, their state, their life."""

from __future__ import annotations

import datetime
import socket
import threading
from typing import Any, Literal

import pydantic
import pytest

from rollout.core.calls import CallReader, answer_calls
from rollout.core.errors import ToolError, WorldError
from rollout.core.messages import ToolCall, ToolResult
from rollout.core.task import Task
from rollout.core.tools import tool
from rollout.core.world import World, tools_of

TASK = Task("t", "Hello", info={"stock": {"mug": 3}})


class Size(pydantic.BaseModel):
    width: int
    height: int = 1


class Shop(World):
    def __init__(self, task: Task, seed: int) -> None:
        self.stock = dict(task.info["stock"])
        self.seed = seed
        self.log: list[str] = []

    @tool(is_write=True)
    async def take(self, item: str, count: int = 1) -> str:
        """Take something."""
        if self.stock.get(item, 0) < count:
            raise ToolError(f"there are not {count} of {item}")
        self.stock[item] -= count
        self.log.append(item)
        return f"{self.stock[item]} left"

    @tool
    def draw(self) -> int:
        """Draw a number."""
        return self.random.randrange(1000)

    @tool
    def cut(self, size: Size, how: Literal["rough", "fine"] = "fine") -> dict[str, Any]:
        """Cut a piece."""
        return {"area": size.width * size.height, "how": how}

    @tool(name="close")
    def leave(self) -> str:
        """Leave the shop."""
        self.finish()
        return "Bye."

    @tool
    def write(self, name: str, text: str) -> str:
        """Write a file."""
        (self.workdir / name).write_text(text)
        return "written"

    @tool
    def read(self, name: str) -> str:
        """Read a file."""
        return (self.workdir / name).read_text()


async def opened(kind: type[World] = Shop, seed: int = 7) -> World:
    world = kind.__new__(kind)
    await world.open(TASK, seed)
    return world


async def do(world: World, name: str, arguments: str = "{}") -> ToolResult:
    (result,) = await answer_calls([ToolCall("c", name, arguments)], CallReader(tools_of(type(world))), world)
    return result


def test_tools_have_schemas_from_signatures_and_descriptions_from_docstrings() -> None:
    tools = tools_of(Shop).by_name
    assert list(tools) == ["take", "draw", "cut", "close", "write", "read"]
    assert (tools["take"].description, tools["take"].is_write) == ("Take something.", True)
    assert tools["take"].parameters["required"] == ["item"]
    assert tools["cut"].parameters["properties"]["how"]["enum"] == ["rough", "fine"]
    assert tools["cut"].parameters["$defs"]["Size"]["required"] == ["width"]


async def test_arguments_arrive_as_the_types_that_a_tool_asks_for() -> None:
    world = await opened()
    assert (await do(world, "cut", '{"size": {"width": 4, "height": 2}}')).content == '{"area":8,"how":"fine"}'
    assert (await do(world, "cut", '{"size": {"width": "wide"}}')).error_kind == "bad_arguments"


class Calendar(World):
    @tool
    def free(self, day: datetime.date, hours: tuple[int, int] = (9, 17)) -> str:
        """Keep a day free."""
        return f"{day} {hours}"


async def test_an_argument_that_does_not_fit_its_type_is_named_without_the_validators_own_words() -> None:
    world = await opened(Calendar)
    refused = await do(world, "free", '{"day": "tomorrow"}')
    assert refused.error_kind == "bad_arguments"
    assert "free: day: Input should be a valid date" in refused.content
    assert "ValidationError" not in refused.content
    assert "pydantic" not in refused.content


async def test_what_a_tool_raises_is_an_error_result() -> None:
    world = await opened()
    refused = await do(world, "take", '{"item": "mug", "count": 9}')
    assert (refused.is_error, refused.error_kind) == (True, "tool")
    assert "there are not 9 of mug" in refused.content
    assert (await do(world, "read", '{"name": "nothing"}')).error_kind == "crash"


async def test_a_snapshot_is_by_value_and_brings_attributes_files_and_draws_back() -> None:
    world = await opened()
    await do(world, "take", '{"item": "mug"}')
    await do(world, "write", '{"name": "a.txt", "text": "first"}')
    snapshot, key = await world.snapshot(), await world.state_key()
    assert snapshot is not None
    drawn = (await do(world, "draw")).content
    await do(world, "take", '{"item": "mug"}')
    await do(world, "write", '{"name": "a.txt", "text": "second"}')
    await do(world, "write", '{"name": "b.txt", "text": "more"}')
    assert await world.state_key() != key
    other = await opened(seed=8)
    for again in (world, other):
        await again.restore(snapshot)
        assert await again.state_key() == key == snapshot.state_key
        assert (await do(again, "read", '{"name": "a.txt"}')).content == "first"
        assert (await do(again, "read", '{"name": "b.txt"}')).error_kind == "crash"
        assert (await do(again, "draw")).content == drawn
    await world.close()
    await other.close()


class Diary(World):
    """Keeps where its file is: as a path, as a text, and in the dict of another attribute."""

    def setup(self) -> None:
        self.path = self.workdir / "diary.txt"
        self.places = {str(self.path): str(self.workdir)}
        self.path.touch()

    @tool
    def note(self, text: str) -> str:
        """Write a line."""
        with self.path.open("a") as file:
            file.write(text)
        return self.path.read_text()


async def test_attributes_that_name_the_folder_name_that_of_their_own_world() -> None:
    one, two = await opened(Diary), await opened(Diary)
    assert await one.state_key() == await two.state_key()
    snapshot = await one.snapshot()
    assert snapshot is not None
    await do(one, "note", '{"text": "one"}')
    (added,) = (await one.changes())["workdir"].added
    assert added["file"] == "diary.txt"
    await two.restore(snapshot)
    await one.close()
    assert (await do(two, "note", '{"text": "two"}')).content == "two"
    assert vars(two)["places"] == {str(two.workdir / "diary.txt"): str(two.workdir)}
    await two.close()


async def test_worlds_of_one_seed_are_alike_and_share_nothing() -> None:
    one, two = await opened(), await opened()
    assert await one.state_key() == await two.state_key()
    await do(one, "take", '{"item": "mug"}')
    await do(one, "write", '{"name": "a.txt", "text": "mine"}')
    assert await one.state_key() != await two.state_key()
    assert two.workdir != one.workdir
    assert (await do(one, "draw")).content == (await do(two, "draw")).content
    folder = one.workdir
    await one.close()
    await one.close()
    assert not folder.exists()
    await two.close()


class Notes(World):
    lines: list[str] = []  # noqa: RUF012
    KINDS: dict[str, int] = {}  # noqa: RUF012

    @tool
    def note(self, text: str) -> str:
        """Write a line."""
        self.lines.append(text)
        return str(len(self.lines))


async def test_worlds_share_no_list_of_their_class_but_its_constants() -> None:
    one, two = await opened(Notes), await opened(Notes)
    snapshot = await one.snapshot()
    assert snapshot is not None
    assert [(await do(world, "note", '{"text": "a"}')).content for world in (one, one, two)] == ["1", "2", "1"]
    assert (Notes.lines, vars(one)["lines"]) == ([], ["a", "a"])
    assert "KINDS" not in vars(one)
    await one.restore(snapshot)
    assert (await do(one, "note", '{"text": "a"}')).content == "1"


async def test_changes_are_rows_by_attribute() -> None:
    world = await opened()
    assert await world.changes() == {}
    await do(world, "take", '{"item": "mug"}')
    changes = await world.changes()
    assert set(changes) == {"stock", "log"}
    assert changes["stock"].added == ({"key": "mug", "value": 2},)
    assert changes["stock"].removed == ({"key": "mug", "value": 3},)


async def test_changes_show_every_kind_of_entry_in_the_folder() -> None:
    world = await opened()
    (world.workdir / "empty").mkdir()
    (world.workdir / "run.sh").write_text("true")
    (world.workdir / "run.sh").chmod(0o755)
    (world.workdir / "link").symlink_to("run.sh")
    assert {row["file"] for row in (await world.changes())["workdir"].added} == {"empty", "run.sh", "link"}
    await world.close()


async def test_a_tool_that_finishes_is_the_last() -> None:
    world = await opened()
    result = await do(world, "close")
    assert (result.content, result.end) == ("Bye.", "world_done")
    late = await do(world, "draw")
    assert late.is_error


def test_a_tool_that_would_hide_the_life_cycle_is_refused_where_it_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Bad\.open: a tool may not hide World\.open.*name=\"open\""):

        class Bad(World):
            @tool
            def open(self) -> str:  # type: ignore[override]
                return ""


class Wired(World):
    """Holds a handle, so that it cannot be copied."""

    def setup(self) -> str:
        self.socket = socket.socket()
        return "The line is open."

    async def teardown(self) -> None:
        self.socket.close()

    @tool
    def ping(self) -> str:
        """Ping."""
        return "pong"


async def test_a_world_that_cannot_be_copied_is_replayed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = Wired()
    opening = await world.open(TASK, 1)
    assert opening.observation is not None
    assert opening.observation.content == "The line is open."
    before = await world.state_key()
    assert await world.snapshot() is None
    assert "Wired: self.socket is a socket.socket" in caplog.text
    await do(world, "ping")
    assert await world.state_key() != before, "what was called is all that is known of its state"
    with pytest.raises(WorldError, match="cannot be copied"):
        await world.changes()
    held = world.socket
    await world.close()
    assert held.fileno() == -1


async def test_synchronous_tools_run_in_threads_one_after_the_other() -> None:
    class Threads(World):
        def __init__(self) -> None:
            self.seen: list[str] = []

        @tool
        def where(self) -> str:
            """Say."""
            self.seen.append(str(threading.current_thread() is threading.main_thread()))
            return str(len(self.seen))

    world = await opened(Threads)
    calls = [ToolCall(str(number), "where") for number in range(4)]
    results = await answer_calls(calls, CallReader(tools_of(Threads)), world)
    assert [result.content for result in results] == ["1", "2", "3", "4"]
    assert world.seen == ["False"] * 4  # type: ignore[attr-defined]


async def test_a_constructor_or_setup_that_fails_is_a_world_error() -> None:
    class Broken(World):
        def __init__(self, task: Task) -> None:
            self.wanted = task.info["nothing"]

    with pytest.raises(WorldError, match="Broken cannot be set up: KeyError"):
        await opened(Broken)


async def test_a_snapshot_from_before_the_first_file_brings_no_later_files_back() -> None:
    world = await opened()
    snapshot, key = await world.snapshot(), await world.state_key()
    assert snapshot is not None
    await do(world, "write", '{"name": "a.txt", "text": "later"}')
    await world.restore(snapshot)
    assert (await do(world, "read", '{"name": "a.txt"}')).error_kind == "crash"
    assert await world.state_key() == key
    await world.close()


async def test_a_teardown_that_fails_is_told_and_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Sticky(World):
        def teardown(self) -> None:
            raise OSError("still in use")

    world = await opened(Sticky)
    folder = world.workdir
    await world.close()
    assert "Sticky.teardown failed: OSError: still in use" in caplog.text
    assert not folder.exists()
