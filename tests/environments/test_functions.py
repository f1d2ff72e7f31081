"""Python functions as tools."""

from __future__ import annotations

import asyncio
import collections
import enum
import functools
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core import async_tools
from rollout.core.errors import ConfigError, ToolError
from rollout.core.messages import ToolResult, Toolset
from rollout.core.results import MAX_RESULT_CHARS, to_result
from rollout.core.task import Task
from rollout.core.tools import spec_of
from rollout.core.world import Invocation
from rollout.environments.functions import FunctionWorld, OpenFunctions, import_function


def _waits_for(lock: threading.Lock) -> None:
    """Its argument cannot come from JSON."""


def _names_nothing(place: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
    """Its argument's type does not exist."""


def test_signature_becomes_the_schema_and_docstring_the_description() -> None:
    def find(city: str, days: int = 3) -> str:
        """Find the weather."""
        return city

    spec = spec_of(find)
    assert (spec.name, spec.description) == ("find", "Find the weather.")
    assert spec.parameters["properties"]["city"]["type"] == "string"
    assert spec.parameters["required"] == ["city"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (math.sqrt, "tools: tool f: .*leave out the /"),
        (lambda *words: None, r"tools: tool f: \*args"),
        (dict, "tools: tool f: no signature"),
        (_waits_for, "tools: tool f: its parameters have no JSON schema: .*lock"),
        (_names_nothing, "tools: tool f: name 'Nowhere' is not defined"),
        (functools.partial(_waits_for, None), "tools: tool f: "),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_a_configuration_error(function: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OpenFunctions({"f": function}, 60.0)


async def test_calls_of_one_message_run_together() -> None:
    arrived = asyncio.Barrier(4)

    async def meet(name: str) -> str:
        """Waits until all four are here: only if they run together does anybody come back."""
        await arrived.wait()
        return name

    world = FunctionWorld({"meet": meet}, Toolset((spec_of(meet),)), timeout=10)
    await world.open(Task(id="t"), 1)
    calls = [Invocation(f"c{n}", "meet", {"name": str(n)}) for n in range(4)]
    results = await world.call(calls)
    assert [(result.call_id, result.content) for result in results] == [(f"c{n}", str(n)) for n in range(4)]


async def test_synchronous_tools_do_not_hold_up_the_loop() -> None:
    release = threading.Event()

    def wait(name: str) -> str:
        """Blocks until the loop, which must be alive for it, lets it go."""
        assert release.wait(10)
        return name

    world = FunctionWorld({"wait": wait}, Toolset((spec_of(wait),)), timeout=10)
    running = asyncio.get_running_loop().create_task(world.call([Invocation("c", "wait", {"name": "x"})]))
    await asyncio.sleep(0)
    release.set()
    (result,) = await running
    assert result.content == "x"


@pytest.mark.parametrize("reference", ["no_such_module:f", "json:no_such_function", "json:__name__"])
def test_function_that_is_not_there_is_named(reference: str) -> None:
    with pytest.raises(ConfigError, match=reference):
        import_function(reference)


async def ask(function: Callable[..., Any], count: int = 1, timeout: float = 30.0) -> list[ToolResult]:
    """The results of so many calls of one message."""
    name = getattr(function, "__name__", "tool")
    world = FunctionWorld({name: function}, Toolset((spec_of(function, name),)), timeout=timeout)
    return await world.call([Invocation(f"c{number}", name, {}) for number in range(count)])


RAISED = [
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    StopAsyncIteration,
    TimeoutError,
    OSError,
]


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "together"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("kind", RAISED)
async def test_whatever_a_tool_raises_is_its_own_error(kind: type[BaseException], is_async: bool, count: int) -> None:
    async def raises_async() -> str:
        raise kind("mine")

    def raises() -> str:
        raise kind("mine")

    for result in await ask(raises_async if is_async else raises, count):
        assert result.error_kind == "crash"
        assert f"raised {kind.__name__}: mine" in result.content


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_tool_error_is_the_tools_own_refusal(is_async: bool) -> None:
    async def refuses_async() -> str:
        raise ToolError("no seats left")

    def refuses() -> str:
        raise ToolError("no seats left")

    (result,) = await ask(refuses_async if is_async else refuses)
    assert (result.error_kind, result.content) == ("tool", '{"error":"no seats left"}')


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "together"])
async def test_a_tool_that_cancels_its_own_task_costs_its_own_call(count: int) -> None:
    async def cancels() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async def cancels_and_waits() -> str:
        await cancels()
        await asyncio.sleep(0)
        return "done"

    for tool in (cancels, cancels_and_waits):
        for result in await ask(tool, count):
            assert result.error_kind == "crash"
            assert "CancelledError" in result.content


async def test_a_cancelled_conversation_is_cancelled_whatever_its_tool_does() -> None:
    inside, cleaned = asyncio.Event(), asyncio.Event()

    async def waits() -> str:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return ""

    running = asyncio.create_task(ask(waits))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned.is_set(), "the tool had the chance to let go of what it held"


async def test_a_late_tool_that_ignores_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_tools, "GIVE_UP_SECONDS", 0.01)
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    (result,) = await ask(stubborn, timeout=0.01)
    assert result.error_kind == "timeout"
    release.set()


async def test_an_async_tool_that_blocks_the_loop_is_named_while_it_does() -> None:
    named = threading.Event()
    warnings: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())
            named.set()

    async def sleeps_in_one_go() -> str:
        """Blocks the loop until somebody complains of it."""
        return "named" if named.wait(60) else "never"

    listening = Listening()
    logging.getLogger(async_tools.__name__).addHandler(listening)
    try:
        results = [*await ask(sleeps_in_one_go, timeout=120), *await ask(sleeps_in_one_go, timeout=120)]
    finally:
        logging.getLogger(async_tools.__name__).removeHandler(listening)
    assert [result.content for result in results] == ["named", "named"]
    assert len(warnings) == 1, "once for each tool"
    assert "tool sleeps_in_one_go blocks the event loop" in warnings[0]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_result_of_fifty_megabytes_is_cut_and_says_so(is_async: bool) -> None:
    size = 50_000_000

    async def pours_async() -> str:
        return "x" * size

    def pours() -> list[str]:
        return ["x" * size]

    (result,) = await ask(pours_async if is_async else pours)
    assert len(result.content) < MAX_RESULT_CHARS + 100
    assert f"[cut here: these are the first {MAX_RESULT_CHARS:,} of " in result.content


async def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str:
        return "later"

    (result,) = await ask(lambda: later())
    assert result.content == "later"


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class SilentRefusal(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Shy(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no")


class Nameless(Exception, metaclass=Shy):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize(
    ("kind", "told"), [(Silent, "crash"), (Nameless, "crash"), (SilentRefusal, "tool")], ids=lambda value: str(value)
)
async def test_an_exception_that_cannot_be_put_into_words_is_an_error_like_any_other(
    kind: type[Exception], told: str, is_async: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    async def raises_async() -> None:
        raise kind("x")

    def raises() -> None:
        raise kind("x")

    (result,) = await ask(raises_async if is_async else raises, timeout=60)
    assert result.error_kind == told
    assert "its __str__ raises" in result.content
    assert capfd.readouterr() == ("", "")


class Odd:
    def __iter__(self) -> Any:
        raise RuntimeError("no")


class OddText(str):
    def encode(self, *args: Any) -> bytes:
        raise RuntimeError("no")


class OddDict(dict[str, Any]):
    def get(self, key: object, default: Any = None) -> Any:
        raise RuntimeError("no")

    def items(self) -> Any:
        raise RuntimeError("no")


class Color(enum.Enum):
    RED = object()


ODD = [
    Odd(),
    OddText("x"),
    OddDict(a=1),
    {"a": {1: Odd()}},
    2**200,
    {"x": 2**70},
    float("nan"),
    {("a", 1): 2},
    Color.RED,
    "\ud800",
]
ODD += [OddText("x"), collections.OrderedDict(error="x"), b"\xff", {"\udc00": 1}, object, {1, 2}, range(3), 1j]
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@given(
    st.recursive(st.sampled_from(ODD), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)
)
def test_any_value_becomes_a_result(value: Any) -> None:
    to_result("c", value, 1_000).content.encode()


def test_a_bottomless_value_becomes_a_result() -> None:
    assert to_result("c", DEEP).content
