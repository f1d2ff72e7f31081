"""Python functions as tools."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rollout.errors import ConfigError
from rollout.messages import Toolset
from rollout.tasks.task import Task
from rollout.worlds.tools.functions import FunctionWorld, import_function, spec_of
from rollout.worlds.world import Invocation


def test_signature_becomes_the_schema_and_docstring_the_description() -> None:
    def find(city: str, days: int = 3) -> str:
        """Find the weather."""
        return city

    spec = spec_of(find)
    assert (spec.name, spec.description) == ("find", "Find the weather.")
    assert spec.parameters["properties"]["city"]["type"] == "string"
    assert spec.parameters["required"] == ["city"]


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
