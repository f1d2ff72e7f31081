"""The page in a real browser against the real server: what people do there, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Browser, Page, Request, Route, expect

from tests.viewer.browser.attacks import EVIL, FORBIDDEN
from tests.viewer.browser.driving import (
    LAPTOP,
    PHONE,
    ROOT,
    UNFOLD,
    WATCH,
    first_trajectory,
    is_settled,
    open_trajectory,
    run_rollout,
    show,
)

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
TREE = "of-mcts"
pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same tasks, and one of a tree."""
    folder = tmp_path_factory.mktemp("runs")
    config = yaml.safe_load((ROOT / "configs" / "default.yml").read_text())
    name = "AirlineReservations_HotelReservations"
    config["datasets"] = {name: config["datasets"][name]}
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    run_rollout("run", "config.yml", "--limit", "8", "--output", "runs/first", folder=folder)
    run_rollout("run", "config.yml", "--limit", "8", "--output", "runs/second", "--set", "seed=5", folder=folder)
    compare = str(ROOT / "configs" / "compare.yml")
    run_rollout("compare", compare, "--strategies", "mcts", "--limit", "1", "-d", name, "-o", "runs/of", folder=folder)
    return folder / "runs"


async def test_the_token_is_not_left_in_the_address(page: Page) -> None:
    assert "token" not in page.url


async def test_a_list_leads_to_a_run_a_search_to_a_trajectory_and_a_step_has_a_link(page: Page) -> None:
    await page.get_by_role("link", name="first", exact=True).click()
    await expect(page.get_by_text("16 trajectories")).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("flight")
    await expect(page.locator(".table mark").first).to_have_text(re.compile("flight", re.IGNORECASE))
    assert "q=flight" in page.url
    await page.locator(".row-link").first.click()
    await expect(page.locator(".step.is-current")).to_be_visible()
    step = page.locator(".turn-steps .step[data-message]").nth(1)
    await step.locator(".gutter a").click()
    await expect(step).to_have_attribute("aria-current", "step")
    link = page.url
    await page.reload()
    await expect(page.locator(".step.is-current")).to_have_count(1)
    assert page.url == link


async def test_a_search_that_finds_a_result_leads_to_the_step_that_asked_for_it(page: Page) -> None:
    await show(page, "#/run/first?q=traveller_id")
    await expect(page.locator(".table mark").first).to_be_visible()
    await page.locator(".row-link").first.click()
    await expect(page.locator(".turn-steps .step.is-current")).to_contain_text("traveller_id")


async def test_a_letter_that_is_typed_while_a_search_begins_stays(page: Page) -> None:
    await show(page, "#/run/first")
    field = page.get_by_role("searchbox", name="Search in all messages")
    await expect(field).to_be_visible()
    await page.evaluate(
        """() => {
            const type = (field, text) => {
                field.value = text;
                field.dispatchEvent(new InputEvent("input", { bubbles: true }));
            };
            const field = document.querySelector("input.search");
            // The page has the new address and has not drawn it yet.
            window.addEventListener("hashchange", () => queueMicrotask(() => type(field, "flig")), { once: true });
            type(field, "fli");
        }"""
    )
    await expect(page).to_have_url(re.compile("q=flig$"))
    await expect(field).to_have_value("flig")


async def test_a_filter_that_is_chosen_while_a_search_waits_stays(page: Page) -> None:
    await show(page, "#/run/first")
    await expect(page.get_by_role("button", name=re.compile("^not solved"))).to_be_visible()
    await page.evaluate(
        """() => {
            const field = document.querySelector("input.search");
            field.value = "flight";
            field.dispatchEvent(new InputEvent("input", { bubbles: true }));
            const chips = [...document.querySelectorAll("button")];
            chips.find((chip) => chip.textContent.startsWith("not solved")).click();
        }"""
    )
    await expect(page).to_have_url(re.compile("q=flight"))
    assert "success=0" in page.url


async def test_filters_and_sorts_are_in_the_address(page: Page) -> None:
    await show(page, "#/run/first")
    await page.get_by_role("button", name=re.compile("^not solved")).click()
    await page.get_by_role("columnheader", name="Steps").get_by_role("link").click()
    await expect(page.get_by_role("columnheader", name="Steps")).to_have_attribute("aria-sort", "descending")
    assert "success=0" in page.url
    assert "sort=steps" in page.url
    await expect(page.locator(".table-space .outcome.is-solved")).to_have_count(0)
    await page.go_back()
    await page.go_back()
    await expect(page.locator(".table-space .outcome.is-solved").first).to_be_visible()


async def test_everything_is_reached_by_keyboard(page: Page) -> None:
    await show(page, "#/run/first")
    await expect(page.locator(".row-link").first).to_be_visible()
    await page.locator(".table").focus()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    second = await page.locator(".row.is-current b").text_content()
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_contain_text(second or "?")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.locator(".step.is-current")).to_be_visible()
    await page.keyboard.press("f")
    await expect(page.locator("details.reasoning[open]").first).to_be_visible()
    place = page.locator(".neighbours .number")
    await expect(place).to_have_text("2 of 16")
    await page.keyboard.press("n")
    await expect(place).to_have_text("3 of 16")
    await page.keyboard.press("p")
    await expect(place).to_have_text("2 of 16")
    await expect(page.locator(".trajectory-id").first).to_have_text(second or "?")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Next trajectory")
    await page.keyboard.press("Escape")
    await page.keyboard.press("t")
    await expect(page.get_by_role("tree")).to_be_visible()
    await page.keyboard.press("u")
    await expect(page.locator(".table")).to_be_visible()


async def test_a_search_in_a_trajectory_finds_what_is_folded(page: Page) -> None:
    row = await first_trajectory(page)
    await open_trajectory(page)
    await page.keyboard.press("/")
    await page.keyboard.type("authorize")
    await expect(page.locator(".step-search small")).to_have_text(re.compile(r"1 of \d+"))
    assert row["steps"] > 0


async def test_calls_lie_beside_their_results(page: Page) -> None:
    await open_trajectory(page)
    asked = await page.locator(".call-asked").first.bounding_box()
    answered = await page.locator(".call-answered").first.bounding_box()
    assert asked is not None
    assert answered is not None
    assert abs(asked["y"] - answered["y"]) < 2
    assert answered["x"] >= asked["x"] + asked["width"]


async def test_a_phone_shows_one_column_without_scrolling_sideways(page: Page) -> None:
    await page.set_viewport_size(PHONE)
    row = await open_trajectory(page)
    asked = await page.locator(".call-asked").first.bounding_box()
    answered = await page.locator(".call-answered").first.bounding_box()
    assert asked is not None
    assert answered is not None
    assert answered["y"] >= asked["y"] + asked["height"] - 1
    search = await page.locator(".step-search .search").bounding_box()
    assert search is not None
    assert search["width"] > 150
    assert search["x"] + search["width"] <= PHONE["width"]
    place = f"{row['dataset']}/{row['id']}"
    for address in (
        "#/",
        "#/run/first",
        "#/run/first?tab=plots",
        f"#/run/first/t/{place}",
        f"#/run/first/t/{place}?panel=setup",
    ):
        await show(page, address)
        await is_settled(page)
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address


async def test_what_was_sent_is_shown_at_a_step(page: Page) -> None:
    await open_trajectory(page)
    await page.locator(".turn-steps .step[data-message]").first.locator(".gutter a").click()
    await expect(page.locator(".turn-steps .step.is-current")).to_be_visible()
    await page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator(".sent-messages li").first).to_contain_text("system")
    await dialog.get_by_role("button", name="cURL", exact=True).click()
    await expect(dialog.locator("pre.code")).to_contain_text("curl")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert "sent=" not in page.url


async def test_what_was_sent_at_the_last_step_ends_with_the_message_before_it(page: Page) -> None:
    row = await open_trajectory(page)
    last = page.locator(".turn-steps .step[data-message]").last
    await last.locator(".gutter a").click()
    await expect(last).to_have_attribute("aria-current", "step")
    await page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(f"Sent at step {row['steps']} ")
    said = await page.locator(".turn-said .step.is-turn .text").last.text_content()
    await expect(dialog.locator(".sent-messages .is-role-user").last).to_contain_text(said or "?")


async def test_a_task_that_a_third_run_lacks_is_not_shown_as_solved_equally_often(page: Page) -> None:
    await show(page, f"#/compare?run=first&run=second&run={TREE}")
    await expect(page.locator(".matrix")).to_contain_text("not attempted")
    await expect(page.locator(".matrix tbody td:last-child", has_text="same")).to_have_count(0)


async def test_a_task_without_a_verdict_in_a_third_run_is_not_shown_as_solved_equally_often(page: Page) -> None:
    async def unscored(route: Route) -> None:
        answer = await route.fetch()
        diff = await answer.json()
        await route.fulfill(response=answer, json={**diff, "only_first": [], "unscored": diff["only_first"]})

    await page.route(re.compile(rf"/diff\?.*second={TREE}"), unscored)
    await show(page, f"#/compare?run=first&run=second&run={TREE}")
    await expect(page.locator(".matrix")).to_contain_text("not scored")
    await expect(page.locator(".matrix tbody td:last-child", has_text="same")).to_have_count(0)
    await page.unroute_all(behavior="ignoreErrors")


async def test_a_flip_leads_to_the_dataset_of_the_second_run(page: Page) -> None:
    async def renamed(route: Route) -> None:
        answer = await route.fetch()
        diff = await answer.json()
        flips = [{**flip, "dataset": "elsewhere", "second_dataset": flip["dataset"]} for flip in diff["flips"]]
        await route.fulfill(response=answer, json={**diff, "flips": flips})

    await page.route("**/diff?*", renamed)
    await show(page, "#/compare?run=first&run=second")
    await page.locator(".flip-sides a").nth(1).click()
    await expect(page.locator(".step.is-current")).to_be_visible()
    await page.unroute_all(behavior="ignoreErrors")


async def test_errors_of_a_tool_lead_to_the_attempts_that_had_them(page: Page) -> None:
    await show(page, "#/run/first?tab=errors")
    link = page.get_by_role("link", name=re.compile("errors? of ")).first
    name = (await link.get_attribute("aria-label") or "").split(" of ")[1]
    await link.click()
    await expect(page.locator(".chosen")).to_contain_text(f"error of the tool: {name}")
    await page.locator(".row-link").first.click()
    call = page.locator(".call.is-error").filter(has=page.locator(".call-name", has_text=name))
    await expect(call.first).to_be_visible()


async def test_attempts_that_had_errors_of_a_tool_are_exported(page: Page, tmp_path: Path) -> None:
    await show(page, "#/run/first?tab=errors")
    await page.get_by_role("link", name=re.compile("errors? of ")).first.click()
    found = page.locator(".table-tools [role=status]")
    await expect(found).to_contain_text("trajector")
    listed = int((await found.text_content() or "").split()[0])
    await page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("As").select_option("jsonl")
    async with page.expect_download() as waiting:
        await dialog.get_by_role("button", name="Export").click()
    file = tmp_path / "errors.jsonl"
    await (await waiting.value).save_as(file)
    assert len(file.read_text().splitlines()) == listed


async def test_failed_attempts_are_a_share_of_all_that_have_ended(page: Page) -> None:
    async def failed(route: Route) -> None:
        answer = await route.fetch()
        found = await answer.json()
        found["row"] |= {"planned": 20, "finished": 6, "failed": 4, "scored": 6, "solved": 1}
        await route.fulfill(response=answer, json=found)

    await page.route("**/api/events*", lambda route: route.abort())
    await page.route("**/api/runs/first", failed)
    await show(page, "#/run/first")
    await expect(page.locator(".counter.is-bad")).to_have_text("Failed4 40.0%")
    bar = page.locator(".counter .progress")
    widths = [float(await bar.locator(f".fill-{kind}").get_attribute("width") or 0) for kind in ("unsolved", "failed")]
    assert widths == [25, 20]
    await page.unroute_all(behavior="ignoreErrors")


async def test_fit_shows_the_whole_tree(page: Page) -> None:
    row = await first_trajectory(page, TREE)
    await page.set_viewport_size({"width": 1000, "height": 360})
    await show(page, f"#/run/{TREE}/tree/{row['dataset']}/{row['task_id']}")
    await page.get_by_role("button", name="Fit").click()
    frame = await page.locator(".tree-canvas").bounding_box()
    marks = [await each.bounding_box() for each in await page.locator(".tree-mark").all()]
    assert frame is not None
    assert len(marks) > 3
    for mark in marks:
        assert mark is not None
        assert frame["x"] <= mark["x"] <= frame["x"] + frame["width"]
        assert frame["y"] <= mark["y"] <= frame["y"] + frame["height"]


async def test_a_hidden_tab_holds_no_connection_and_asks_again_when_it_is_shown(page: Page) -> None:
    def is_stream(request: Request) -> bool:
        return "/api/events" in request.url

    show_or_hide = """(isHidden) => {
        Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    async with page.expect_request(is_stream):
        await open_trajectory(page)
    async with page.expect_event("requestfailed", is_stream):
        await page.evaluate(show_or_hide, True)
    async with page.expect_request(is_stream), page.expect_request(lambda request: "/trajectory?" in request.url):
        await page.evaluate(show_or_hide, False)


async def test_a_tree_that_is_read_again_stays_where_a_person_moved_it(page: Page) -> None:
    row = await first_trajectory(page, TREE)
    await show(page, f"#/run/{TREE}/tree/{row['dataset']}/{row['task_id']}")
    drawing = page.locator(".tree-canvas svg > g")
    await page.get_by_role("button", name="Zoom in").click()
    chosen = await drawing.get_attribute("transform")
    async with page.expect_response(lambda answer: "/tree?" in answer.url) as again:
        # A tab that is shown again asks for what it missed.
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await (await again.value).finished()
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert await drawing.get_attribute("transform") == chosen


async def test_a_tree_that_is_read_again_does_not_go_back_to_the_chosen_node(page: Page) -> None:
    row = await first_trajectory(page, TREE)
    await show(page, f"#/run/{TREE}/tree/{row['dataset']}/{row['task_id']}?leaf={row['id']}")
    drawing, chosen = page.locator(".tree-canvas svg > g"), page.locator(".tree-node.is-selected .tree-mark")
    await expect(chosen).to_be_visible()
    frame = await page.locator(".tree-canvas").bounding_box()
    before = await drawing.get_attribute("transform")
    assert frame is not None
    await page.mouse.move(frame["x"] + 200, frame["y"] + 200)
    await page.mouse.wheel(-9000, 0)
    await expect(drawing).not_to_have_attribute("transform", before or "")
    moved = await drawing.get_attribute("transform")
    mark = await chosen.bounding_box()
    assert mark is not None
    assert mark["x"] > frame["x"] + frame["width"]
    async with page.expect_response(lambda answer: "/tree?" in answer.url) as again:
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await (await again.value).finished()
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert await drawing.get_attribute("transform") == moved


async def test_the_data_panel_replays_once_and_only_when_asked(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if request.url.endswith("/states") else None)
    await open_trajectory(page, "?panel=data")
    button = page.get_by_role("button", name="Replay the calls to see the data")
    await expect(button).to_be_visible()
    assert asked == []
    await button.click()
    shown = page.locator(".changes, .panel .notice").first
    await expect(shown).to_be_visible()
    await page.get_by_role("link", name="Conversation").click()
    await page.get_by_role("link", name="Data", exact=True).click()
    await expect(shown).to_be_visible()
    assert asked == ["POST"]


async def test_the_last_time_of_a_plot_has_room_for_its_words(page: Page) -> None:
    await show(page, "#/run/first?tab=plots")
    frame = await page.locator(".u-wrap").first.bounding_box()
    lines = await page.locator(".u-over").first.bounding_box()
    assert frame is not None
    assert lines is not None
    assert frame["x"] + frame["width"] - lines["x"] - lines["width"] >= 30


async def test_a_tree_is_drawn_and_read(page: Page) -> None:
    row = await first_trajectory(page, TREE)
    await show(page, f"#/run/{TREE}/tree/{row['dataset']}/{row['task_id']}")
    await expect(page.locator(".tree-node").first).to_be_visible()
    leaves = page.locator(".tree-node:has(.tree-sign)")
    assert await leaves.count() > 2
    await leaves.first.click()
    await expect(page.locator(".tree-path-nodes li").last).to_be_visible()
    await page.locator("svg[role=tree]").focus()
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".tree-node.is-selected:has(.tree-sign)")).to_have_count(0)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Conversation")).to_be_visible()


async def test_a_tree_that_fits_is_shown_from_its_root_with_the_chosen_leaf(page: Page) -> None:
    row = await first_trajectory(page)
    await show(page, f"#/run/first/tree/{row['dataset']}/{row['task_id']}?leaf={row['id']}")
    await expect(page.locator(".tree-node.is-selected")).to_be_visible()
    frame = await page.locator(".tree-canvas").bounding_box()
    nodes = [await node.bounding_box() for node in await page.locator(".tree-node").all()]
    assert frame is not None
    assert all(node is not None and node["x"] + node["width"] / 2 > frame["x"] for node in nodes)


async def test_two_runs_are_compared_and_a_flip_leads_to_where_they_part(page: Page) -> None:
    for name in ("first", "second"):
        await page.get_by_role("checkbox", name=f"Choose {name} for a comparison").check()
    await page.get_by_role("button", name="Compare").click()
    await expect(page.get_by_text("Tasks in both")).to_be_visible()
    await page.locator(".flip-sides a").first.click()
    await expect(page.locator(".step.is-current")).to_be_visible()


async def test_the_review_queue_walks_through_its_trajectories(page: Page) -> None:
    await show(page, "#/run/first/queue?n=5")
    await expect(page.locator(".queue-head")).to_contain_text("1 of 5")
    await expect(page.locator(".trajectory-head")).to_be_visible()
    await page.keyboard.press("n")
    await expect(page.locator(".queue-head")).to_contain_text("2 of 5")


async def test_a_selection_becomes_a_report_that_opens_without_a_server(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    row = await first_trajectory(page)
    await show(page, "#/run/first?success=1")
    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as waiting:
        await page.get_by_role("dialog").get_by_role("button", name="Export").click()
    file = tmp_path / "report.html"
    await (await waiting.value).save_as(file)
    context = await browser.new_context(offline=True)
    await context.add_init_script(WATCH)
    reader = await context.new_page()
    asked: list[str] = []
    reader.on("request", lambda request: asked.append(request.url))
    await reader.goto(file.as_uri())
    await expect(reader.locator("[role=gridcell].cell-finished").first).to_contain_text(":")
    await reader.locator(".row-link").first.click()
    await expect(reader.locator(".step.is-given")).to_be_visible()
    await expect(reader.locator(".lane.is-said-by-agent").first).to_be_visible()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert await reader.evaluate("window.__violations") == []
    assert row["dataset"]
    await context.close()


def views(place: str) -> list[str]:
    """An address of each view; `place` is a trajectory of `first`."""
    run, trajectory = "#/run/first", f"#/run/first/t/{place}"
    return [
        "#/",
        *(f"{run}{more}" for more in ("", "?success=0&q=flight", "?tab=plots", "?tab=errors", "?tab=config")),
        *(f"{run}/{more}" for more in ("queue", "play")),
        *(f"{trajectory}?{more}" for more in ("at=2", "panel=setup", "panel=data", "at=2&sent=2")),
        f"#/run/first/tree/{place}",
        f"#/compare?run=first&run=second&run={TREE}",
    ]


def poisoned(value: Any, name: str = "") -> Any:
    """An answer of the server whose every text is an attack. What routes and lists depend on stays."""
    if isinstance(value, dict):
        return {key: poisoned(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, name) for each in value]
    if isinstance(value, str) and name not in (
        "speaker",
        "kind",
        "state",
        "parent",
        "change",
        "dataset",
        "name",
        "number",
    ):
        return value + "".join(EVIL)
    return value


async def test_no_text_of_an_answer_ever_runs(page: Page) -> None:
    row = await first_trajectory(page)

    async def poison(route: Route) -> None:
        answer = await route.fetch()
        if "json" not in answer.headers.get("content-type", ""):
            await route.fulfill(response=answer)
            return
        changed = poisoned(await answer.json())
        for message in changed.get("messages", []) if isinstance(changed, dict) else []:
            if isinstance(message, dict) and "calls" in message:
                message["url"], message["title"], message["marks"] = EVIL[3], EVIL[0], list(EVIL)
        await route.fulfill(response=answer, body=json.dumps(changed))

    place = f"{row['dataset']}/{row['id']}"
    await page.route(lambda url: "/api/" in url and "/events" not in url, poison)
    for address in (*views(place), "#/run/<img src=x onerror=window.__pwned=8>"):
        await show(page, address)
        await is_settled(page)
        await page.evaluate(UNFOLD)
        assert await page.evaluate("window.__pwned") is None, address
        assert await page.locator(FORBIDDEN).count() == 0, address
    await page.unroute_all(behavior="ignoreErrors")


async def test_links_lead_outside_without_handing_over_the_page(page: Page) -> None:
    row = await first_trajectory(page)

    async def with_link(route: Route) -> None:
        answer = await route.fetch()
        changed = await answer.json()
        changed["messages"][-1]["text"] = "See https://example.org/a?b=c. And javascript:alert(1)"
        await route.fulfill(response=answer, body=json.dumps(changed))

    await page.route(lambda url: "/trajectory?" in url, with_link)
    await show(page, f"#/run/first/t/{row['dataset']}/{row['id']}")
    link = page.get_by_role("link", name="https://example.org/a?b=c", exact=True)
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await expect(link).to_have_attribute("href", "https://example.org/a?b=c")
    await page.unroute_all(behavior="ignoreErrors")


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: npm ci in frontend/")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
async def test_axe_finds_no_serious_fault(page: Page, scheme: Any, size: Any) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size(size)
    row, tree = await first_trajectory(page), await first_trajectory(page, TREE)
    place = f"{row['dataset']}/{row['id']}"
    found: dict[str, list[str]] = {}
    # The policy allows no script from elsewhere; the test's own world may run one.
    source = AXE.read_text()
    for address in (*views(place), f"#/run/{TREE}/tree/{tree['dataset']}/{tree['task_id']}?leaf={tree['id']}"):
        await show(page, address)
        await is_settled(page)
        await page.evaluate(source)
        result = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [each for each in result["violations"] if each["impact"] in ("serious", "critical")]
        if serious:
            found[address] = [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in serious]
    assert found == {}
