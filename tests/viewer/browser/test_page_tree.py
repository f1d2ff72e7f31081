"""The tree of a task to which people added, the time bar and the data panel: what they say, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Page, Route, expect

import rollout
from tests.api.shop import busy_shop, seller
from tests.viewer.browser.driving import show

pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]
TREE = "#/run/shop/tree/busy/t2"
TRAJECTORY = "#/run/shop/t/busy/t2"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a shop, with a correction from which two attempts were grown."""
    folder = tmp_path_factory.mktemp("runs")
    run = rollout.run(busy_shop, model=seller, run_dir=folder / "shop", progress=False)
    corrected = run.correct(
        "t2", 1, "I start with the mug.", calls=[{"name": "add", "arguments": {"item": "mug"}}], author="Ada"
    )
    run.grow(corrected, n=2, author="Ada")
    return folder


async def change(page: Page, end: str, values: dict[str, Any]) -> None:
    """Change the server's answers to requests whose path ends so."""

    async def changed(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), **values})

    await page.route(f"**/{end}*", changed)


async def test_added_attempts_are_labelled_by_their_ids_and_a_correction_is_neutral(page: Page) -> None:
    await show(page, TREE)
    labels = page.locator(".tree-leaf")
    await expect(labels).to_have_text(["first · 1", "~+1", "~+2 · 1 · Ada", "~+3 · 1 · Ada"])
    correction = page.locator(".tree-node", has=page.get_by_text("~+1", exact=True))
    await expect(correction).to_have_class("tree-node is-shade-none")
    sign = await correction.locator(".tree-mark").bounding_box()
    label = await correction.locator(".tree-leaf").bounding_box()
    assert sign is not None
    assert label is not None
    assert label["y"] + label["height"] / 2 < sign["y"] + sign["height"] / 2, "above the branches that go on"


async def test_the_colours_of_a_tree_cover_the_rewards_that_are_there(page: Page) -> None:
    async def richer(route: Route) -> None:
        answer = await route.fetch()
        tree = await answer.json()
        leaves = [node for node in tree["nodes"] if node["leaf"]]
        leaves[0]["leaf"]["reward"], leaves[-1]["leaf"]["reward"] = 1.5, -0.5
        await route.fulfill(response=answer, json=tree)

    await page.route("**/tree?*", richer)
    await show(page, TREE)
    await expect(page.locator(".tree-legend")).to_have_text("reward -0.51.5")
    await expect(page.locator(".tree-node.is-shade-6 .tree-leaf")).to_have_text("first · 1.5")
    await expect(page.locator(".tree-node.is-shade-0 .tree-leaf")).to_have_text("~+3 · -0.5 · Ada")
    await page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize("by", [(9000, 0), (-9000, 0), (0, 9000), (0, -9000)])
async def test_a_tree_cannot_be_moved_out_of_sight(page: Page, by: tuple[int, int]) -> None:
    await show(page, TREE)
    await expect(page.locator(".tree-node").first).to_be_visible()
    frame = await page.locator(".tree-canvas").bounding_box()
    assert frame is not None
    await page.mouse.move(frame["x"] + 200, frame["y"] + 200)
    before = await page.locator(".tree-canvas svg > g").get_attribute("transform")
    await page.mouse.wheel(*by)
    await expect(page.locator(".tree-canvas svg > g")).not_to_have_attribute("transform", before or "")
    drawing = await page.locator(".tree-canvas svg > g").bounding_box()
    assert drawing is not None
    for start, size in (("x", "width"), ("y", "height")):
        assert drawing[start] < frame[start] + frame[size] - 10  # type: ignore[literal-required]
        assert drawing[start] + drawing[size] > frame[start] + 10  # type: ignore[literal-required]


async def test_the_time_bar_says_how_long_the_world_took_to_open(page: Page) -> None:
    spans = [
        {"message": 1, "kind": "opening", "start": 0, "seconds": 4.8, "label": ""},
        {"message": 1, "kind": "model", "start": 4.8, "seconds": 3.1, "label": "m"},
    ]
    await change(page, "trajectory?", {"spans": spans})
    await show(page, TRAJECTORY)
    await expect(page.locator(".span-label")).to_have_text("opening 4.8 s")
    widths = [await span.get_attribute("width") for span in await page.locator(".time rect.span").all()]
    assert float(widths[0] or 0) > float(widths[1] or 0) > 100
    await page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (3599.7, "1 h 0 min"),
        (7190, "2 h 0 min"),
    ],
)
async def test_no_duration_is_shown_with_sixty_of_a_unit(page: Page, seconds: float, said: str) -> None:
    await change(page, "trajectory?", {"timings": {"seconds": seconds}})
    await show(page, TRAJECTORY)
    await expect(page.locator(".trajectory-head").get_by_text(said, exact=True)).to_be_visible()
    await page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"before": {}, "after": {}, "changes": [], "note": None}, "The database did not change."),
        (
            {"before": {}, "after": {"Order": [{"id": 7}]}, "changes": [], "note": None},
            "Only rows that differ at the end. All others stayed as they were.",
        ),
        ({"before": None, "after": None, "changes": [], "note": "It has no tables."}, "It has no tables."),
    ],
)
async def test_the_data_panel_says_in_words_what_it_shows(page: Page, states: dict[str, Any], said: str) -> None:
    await page.route("**/states", lambda route: route.fulfill(json=states))
    await change(page, "trajectory?", {"has": {"states": True, "tokens": False, "nodes": True}})
    await show(page, f"{TRAJECTORY}?panel=data")
    await page.get_by_role("button", name="Replay the calls to see the data").click()
    await expect(page.get_by_text(said, exact=True)).to_be_visible()
    if states["after"]:
        await expect(page.get_by_text("None of these rows existed.")).to_be_visible()
    await page.unroute_all(behavior="ignoreErrors")
