"""The pages of `patterns`, each solved by its reference in every mode that can show what the task needs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import rollout.examples.web as shipped
from rollout.core.task import Task
from rollout.environments.web.sites import Sites, load_sites
from rollout.tasks.elements import is_locator
from rollout.tasks.jsonl import TaskFile
from tests.conftest import read_lines, roll_out
from tests.environments.web.conftest import Browsing, Driver

TASKS = TaskFile(Path(shipped.__file__).parent / "tasks" / "patterns.jsonl")
SITES = ["patterns", "widget"]
BY_SIGHT = {"patterns-canvas", "patterns-shadow-closed"}
"""Tasks on what only a picture shows."""
REPEAT = int(os.environ.get("ROLLOUT_REPEAT", "1"))
"""`make test-patterns` sets it."""
pytestmark = [pytest.mark.timeout(600 * REPEAT), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def sites() -> AsyncIterator[Sites]:
    served = load_sites(SITES)
    yield served
    await served.close()


@pytest.mark.parametrize("mode", ["set_of_marks", "text", "accessibility_tree"])
async def test_the_reference_solves_every_page_whose_elements_are_listed(mode: str) -> None:
    dataset = {
        "path": list(TASKS.paths),
        "output_path": Path("out.jsonl"),
        "agent": {"model": "builtin/oracle"},
        "web": {"sites": SITES, "mode": mode, "image_format": "jpeg"},
        "max_steps_per_turn": 40,
        "samples": REPEAT,
    }
    await roll_out({"enable_monitor": False, "seed": 1, "max_workers": 4, "datasets": {"patterns": dataset}})
    lines = [line for line in read_lines(Path("out.jsonl")) if line["task_id"] not in BY_SIGHT]
    assert {line["id"]: line["metadata"]["scores"] for line in lines if not line["success"]} == {}
    assert len(lines) == REPEAT * (len(TASKS) - len(BY_SIGHT))


@pytest.mark.parametrize("task_id", TASKS.ids)
@pytest.mark.parametrize("time", range(REPEAT))
async def test_every_page_is_solved_by_points(browsing: Browsing, sites: Sites, task_id: str, time: int) -> None:
    task = TASKS.read(TASKS.ids.index(task_id))
    driver = browsing.driver(mode="coordinates", sites=sites)
    driver.opening = await driver.world.open(task, 1)
    await Pointer(driver).solve(task)
    for check in task.info.get("checks", ()):
        assert await driver.page.locator(check["selector"]).inner_text() == check["text"]
    answer = task.info.get("answer")
    assert answer is None or answer["equals"] in driver.text, "the agent was shown what it should answer"


class Pointer:
    """Plays reference actions by points: it looks up where an element is, as somebody would who sees it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def solve(self, task: Task) -> None:
        if task.id in BY_SIGHT:
            await self._do("click", **await self._by_sight(task.id))
            return
        for action in task.actions or ():
            if action.name != "answer":
                await self._act(action.name, action.arguments)

    async def _by_sight(self, task_id: str) -> dict[str, float]:
        if task_id == "patterns-canvas":
            box = await self._driver.page.locator("canvas").bounding_box()
            return {"x": box["x"] + 1 + 430, "y": box["y"] + 1 + 150}
        box = await self._driver.page.locator("door-control").bounding_box()
        return {"x": box["x"] + 100, "y": box["y"] + 30}

    async def _act(self, name: str, arguments: dict[str, Any]) -> None:
        given = {key: value for key, value in arguments.items() if not is_locator(value)}
        if is_locator(arguments.get("element")):
            given |= await self._find(arguments["element"]["$element"])
        if is_locator(arguments.get("to_element")):
            target = await self._find(arguments["to_element"]["$element"])
            given |= {"to_x": target["x"], "to_y": target["y"]}
        elif name == "drag":
            given |= {"to_x": given["x"] + given.pop("right", 0), "to_y": given["y"] + given.pop("down", 0)}
        await self._do(name, **given)

    async def _do(self, name: str, **arguments: Any) -> None:
        result = await self._driver.do(name, **arguments)
        assert not result.is_error, result.content

    async def _find(self, locator: str) -> dict[str, float]:
        """The middle of an element, scrolled to where it can be seen."""
        role, _, name = locator.partition(" ")
        height = self._driver.world._settings.height
        for _ in range(30):
            for frame in self._driver.page.frames:
                found = frame.get_by_role(role, name=name.strip('"'), exact=True)
                if await found.count():
                    box = await found.first.bounding_box()
                    y = box["y"] + box["height"] / 2
                    if 0 < y < height:
                        return {"x": box["x"] + box["width"] / 2, "y": y}
            await self._do("scroll", direction="down")
        raise AssertionError(f"no {locator} in sight")
