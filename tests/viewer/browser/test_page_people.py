"""What people add on the page, by keyboard alone: marks, verdicts, corrections, branches, conversations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Browser, Page, Route, expect

import rollout
from tests.api.shop import busy_shop, seller
from tests.viewer.browser.driving import WATCH, show

pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a shop, whose tasks one model solves in three steps."""
    folder = tmp_path_factory.mktemp("runs")
    rollout.run(busy_shop, model=seller, run_dir=folder / "shop", progress=False)
    return folder


async def open_attempt(page: Page, name: str) -> None:
    await page.evaluate("localStorage.setItem('rollout-author', 'Ada')")
    await show(page, f"#/run/shop/t/busy/{name}")
    await expect(page.locator("h1")).to_contain_text(name)


async def go_to_step(page: Page, step: int) -> None:
    """With `j`, as a person does."""
    for _ in range(12):
        if await page.locator(f'.step.is-current[aria-label="Step {step}"]').count():
            return
        before = await page.evaluate("location.hash")
        await page.keyboard.press("j")
        await expect(page).not_to_have_url(re.compile(re.escape(before) + "$"))
    raise AssertionError(f"step {step} was not reached")


async def write_mark(page: Page, key: str, text: str, end: str) -> None:
    await page.keyboard.press(key)
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.type(text)
    await page.keyboard.press(end)
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def post(page: Page, path: str, body: dict[str, Any]) -> Any:
    """Ask the server of the page for a change of the run."""
    return await page.evaluate(
        """async ([path, body]) => (await fetch(`api/runs/shop/${path}`, {
            method: "POST",
            body: JSON.stringify(body),
            headers: {"Content-Type": "application/json", "X-Rollout": "1"},
        })).json()""",
        [path, body],
    )


async def test_marks_are_set_and_shown_by_keyboard_alone(page: Page, runs: Path) -> None:
    await open_attempt(page, "t0")
    await page.keyboard.press("g")
    await expect(page.locator(".trajectory-judged .is-mark-good")).to_be_visible()
    await write_mark(page, "m", "Asks too little.", "Control+Enter")
    await expect(page.locator(".trajectory-judged .is-mark-note")).to_contain_text("Asks too little.")
    await go_to_step(page, 2)
    await write_mark(page, "l", "slow", "Enter")
    await expect(page.locator(".step.is-current .is-mark-label")).to_contain_text("slow")
    await write_mark(page, "v", "0.5", "Enter")
    await expect(page.locator(".trajectory-judged .is-mark-verdict")).to_be_visible()
    kinds = sorted(mark.kind for mark in rollout.load_run(runs / "shop").marks.of("t0"))
    assert kinds == ["good", "label", "note", "verdict"]


async def test_a_mark_appears_at_once_for_another_person(page: Page, browser: Browser, address: str) -> None:
    context = await browser.new_context()
    await context.add_init_script(WATCH)
    other = await context.new_page()
    await other.goto(address)
    await expect(other.locator("h1")).to_contain_text("run")
    await open_attempt(other, "t1")
    await open_attempt(page, "t1")
    await page.keyboard.press("b")
    await expect(other.locator(".trajectory-judged .is-mark-bad")).to_be_visible()
    await context.close()


async def test_a_step_is_corrected_and_grown_on_by_keyboard_alone(page: Page, runs: Path) -> None:
    await open_attempt(page, "t2")
    await go_to_step(page, 1)
    await page.keyboard.press("c")
    await expect(page.get_by_role("dialog", name="Correct step 1")).to_be_visible()
    await page.keyboard.type("I start with the mug.")
    await page.get_by_role("button", name="Save the correction").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_contain_text("t2~+1")
    await expect(page.locator(".step.is-current")).to_contain_text("I start with the mug.")
    await page.keyboard.press("o")
    await expect(page.get_by_role("dialog", name="Grow on after step 1")).to_be_visible()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("2")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    for name in ("t2~+2", "t2~+3"):
        await expect(page.locator(".siblings").get_by_title(name)).to_be_visible()
    grown = rollout.load_run(runs / "shop").people.trajectories
    assert sorted((one.id, one.reward) for one in grown) == [("t2~+1", None), ("t2~+2", 1.0), ("t2~+3", 1.0)]
    assert {one.author for one in grown} == {"Ada"}


async def test_the_correction_editor_opens_in_its_text_field_and_is_saved_from_there(page: Page) -> None:
    await open_attempt(page, "t1")
    await go_to_step(page, 2)
    await page.keyboard.press("c")
    await expect(page.get_by_role("dialog").get_by_label("Text", exact=True)).to_be_focused()
    await page.keyboard.type("a b c: the mug first")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("h1")).to_contain_text("t1~+1")
    step = page.locator(".step.is-current")
    await expect(step).to_contain_text("a b c: the mug first")
    await expect(step.locator(".remarks")).to_have_text("by Ada")
    await expect(step.locator(".is-fault")).to_have_count(0)


async def test_nothing_offers_to_grow_on_where_it_would_be_refused(page: Page) -> None:
    given: dict[str, Any] = {}

    async def limited(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), "can_grow": given})

    await page.route("**/trajectory?*", limited)
    given.update(ok=True, reason=None, last=2, why="it would make an irreversible call again")
    await open_attempt(page, "t0")
    await go_to_step(page, 1)
    await expect(page.get_by_role("button", name="Grow on")).to_have_count(2)
    await go_to_step(page, 2)
    await page.keyboard.press("o")
    await expect(page.locator(".said.is-error")).to_contain_text("it would make an irreversible call again")
    given.update(ok=False, reason="its steps were not kept", last=None)
    await open_attempt(page, "t1")
    await go_to_step(page, 1)
    await page.keyboard.press("o")
    await expect(page.locator(".said.is-error")).to_contain_text("its steps were not kept")
    await expect(page.get_by_role("button", name="Grow on")).to_have_count(0)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.unroute_all(behavior="ignoreErrors")


async def test_growths_are_asked_for_once_for_many_events(page: Page) -> None:
    await page.evaluate(
        """() => {
            window.EventSource = class extends EventTarget {
                constructor() { super(); window.source = this; }
                close() {}
            };
        }"""
    )
    await open_attempt(page, "t0")
    await page.clock.install()
    await page.clock.pause_at(await page.evaluate("Date.now() + 1000"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/growths") else None)
    event = """new MessageEvent("growth", {data: '{"run": "shop", "data": {"number": 1}}'})"""
    for _ in range(20):
        await page.evaluate(f"source.dispatchEvent({event}), undefined")
        await page.clock.run_for(100)
    async with page.expect_request("**/growths"):
        await page.evaluate(f"source.dispatchEvent({event}), undefined")
        await page.clock.run_for(1500)
    assert len(asked) <= 4


async def test_a_task_to_play_is_found_in_a_list_or_from_its_trajectory(page: Page) -> None:
    await show(page, "#/run/shop/play")
    tasks = page.locator(".task-list li")
    await expect(tasks).to_have_count(6)
    await page.get_by_role("searchbox", name="Task").fill("t3")
    await expect(tasks).to_have_count(1)
    await page.get_by_role("searchbox", name="Task").press("Enter")
    await expect(page.locator(".play-task")).to_contain_text("Task t3")
    await expect(page.get_by_role("button", name="Begin")).to_be_visible()
    await page.get_by_role("button", name="Choose another").click()
    await page.get_by_role("searchbox", name="Task").fill("not tried yet")
    await page.get_by_role("button", name="The task with the id “not tried yet”").click()
    await expect(page.locator(".play-task")).to_contain_text("Task not tried yet")
    await open_attempt(page, "t0")
    await page.get_by_role("link", name="Play this task").click()
    await expect(page.locator(".play-task")).to_contain_text("Task t0")


async def test_a_person_plays_the_agent_with_the_prompt_and_tools_at_hand(page: Page, runs: Path) -> None:
    await page.evaluate("localStorage.setItem('rollout-author', 'Ada')")
    await show(page, "#/run/shop/play?dataset=busy&task=t3")
    await page.get_by_role("button", name="Begin").press("Enter")
    tool = page.get_by_label("Or call a tool")
    await expect(tool).to_be_visible()
    await expect(page.get_by_text("1 tool", exact=True)).to_be_visible()
    for place, item in enumerate(("mug", "lamp"), 1):
        await tool.select_option("add")
        await page.get_by_label("item").fill(item)
        await page.get_by_role("button", name="Call add").press("Enter")
        await expect(page.locator(".call-answered")).to_have_count(place)
    await page.get_by_role("button", name="End the conversation").press("Enter")
    await page.get_by_role("link", name="Read the trajectory").press("Enter")
    await expect(page.locator("h1")).to_contain_text("t3~+1")
    played = rollout.load_run(runs / "shop").people.trajectories.where(task_id="t3")[0]
    assert (played.author, played.model, played.reward) == ("Ada", "person", 1.0)


async def test_an_interrupted_conversation_is_resumed_where_it_was(page: Page) -> None:
    await show(page, "#/run/shop/play?dataset=busy&task=t5")
    await page.get_by_role("button", name="Begin").click()
    tool = page.get_by_label("Or call a tool")
    await tool.select_option("add")
    await page.get_by_label("item").fill("mug")
    await page.get_by_role("button", name="Call add").click()
    await expect(page.locator(".call-answered")).to_have_count(1)
    number = page.url.rpartition("/")[2]
    await post(page, f"growths/{number}/stop", {})
    await page.reload()
    await expect(page.get_by_text("It was interrupted and can be resumed.")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    await expect(tool).to_be_visible()
    await expect(page.locator(".call-answered")).to_have_count(1)
    await page.get_by_role("button", name="End the conversation").click()
    await expect(page.get_by_role("link", name="Read the trajectory")).to_be_visible()


async def test_an_unfinished_conversation_is_found_again_on_the_page_of_its_run(page: Page) -> None:
    await show(page, "#/run/shop/play?dataset=busy&task=t1")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_label("Or call a tool")).to_be_visible()
    number = page.url.rpartition("/")[2]
    await post(page, f"growths/{number}/stop", {})
    await show(page, "#/run/shop")
    await page.get_by_role("link", name=re.compile(r"Growths \(\d+\)")).click()
    growth = page.get_by_role("region", name=f"Growth {number}", exact=True)
    await expect(growth).to_contain_text("stopped")
    await growth.get_by_role("link", name="A conversation with a person as the agent").click()
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_role("button", name="End the conversation").click()
    await page.get_by_role("link", name="Read the trajectory").click()
    await expect(page.locator("h1")).to_contain_text("t1~+")


async def test_a_conversation_that_could_not_begin_can_be_resumed(page: Page) -> None:
    await show(page, "#/run/shop")
    begun = await post(page, "plays", {"dataset": "busy", "task": "t1", "role": "user", "model": "nobody/none"})
    await show(page, f"#/run/shop/play/{begun['number']}")
    await expect(page.locator(".notice.is-problem")).to_contain_text("there is no provider 'nobody'")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await expect(page.get_by_role("link", name="Read the trajectory")).to_have_count(0)


async def test_arguments_typed_as_json_are_sent_as_they_are_shown(page: Page) -> None:
    called: list[Any] = []

    async def with_another_tool(route: Route) -> None:
        answer = await route.fetch()
        play = await answer.json()
        other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}
        await route.fulfill(response=answer, json={**play, "tools": [*play["tools"], other] if play["tools"] else []})

    async def acted(route: Route) -> None:
        called.append(json.loads(route.request.post_data or "")["calls"])
        await route.fulfill(status=400, json={"error": "Not sent on."})

    await page.route(re.compile(r"/plays/\d+$"), with_another_tool)
    await page.route("**/act", acted)
    await show(page, "#/run/shop/play?dataset=busy&task=t1")
    await page.get_by_role("button", name="Begin").click()
    tool = page.get_by_label("Or call a tool")
    await tool.select_option("add")
    await page.get_by_label("as JSON").check()
    field = page.locator(".act textarea.mono")
    await field.fill('{"item": "lamp"}')
    await tool.select_option("other")
    await page.get_by_role("button", name="Call other").click()
    await expect(page.locator(".said.is-error")).to_contain_text("Not sent on.")
    assert called == [[{"name": "other", "arguments": json.loads(await field.input_value())}]]
    await page.unroute_all(behavior="ignoreErrors")


async def test_arguments_that_are_no_json_object_are_refused(page: Page) -> None:
    await open_attempt(page, "t3")
    await go_to_step(page, 1)
    await page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name="Correct step 1")
    await dialog.get_by_label("as JSON").check()
    field = dialog.locator("textarea.mono")
    await field.fill('["mug"]')
    await dialog.get_by_role("button", name="Save the correction").click()
    await expect(dialog.locator("textarea.mono:invalid")).to_be_visible()
    await expect(dialog).to_contain_text("Expected a JSON object")
    await field.fill('{"item": "mug", "count": 2}')
    await dialog.get_by_role("button", name="Save the correction").click()
    await expect(page.locator("h1")).to_contain_text("t3~+")
    await expect(page.locator(".step.is-current")).to_contain_text("2")


async def test_from_any_step_a_person_may_go_on_playing(page: Page) -> None:
    await open_attempt(page, "t4")
    await go_to_step(page, 1)
    await page.keyboard.press("o")
    await page.get_by_role("link", name="play from here").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_label("Or call a tool")).to_be_visible()
    await expect(page.locator(".call-answered")).to_have_count(1)
    await page.get_by_role("button", name="End the conversation").click()
    await expect(page.get_by_role("link", name="Read the trajectory")).to_be_visible()


async def test_why_something_was_refused_is_read_above_the_dialog_that_asked_for_it(page: Page) -> None:
    await open_attempt(page, "t5")
    await go_to_step(page, 1)
    await page.keyboard.press("o")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Model", exact=True).fill("nobody/none")
    await page.route("**/growths", lambda route: route.fulfill(status=400, json={"error": "It is irreversible."}))
    await dialog.get_by_role("button", name="Grow 1 branch").click()
    said = page.locator(".said.is-error")
    await expect(said).to_contain_text("It is irreversible.")
    await expect(dialog).to_be_visible()
    assert await said.evaluate("(said) => said.parentElement.matches(':popover-open')"), "in the layer of dialogs"
    await page.unroute_all(behavior="ignoreErrors")
