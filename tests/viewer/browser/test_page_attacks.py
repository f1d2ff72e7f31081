"""Text of models, tools, pages, files and people is shown as text: none of it ever runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Browser, Page, expect

import rollout
from rollout.core.messages import Message
from rollout.trajectories.tree import NodeBody
from tests.viewer.browser.attacks import EVIL, FORBIDDEN
from tests.viewer.browser.driving import UNFOLD, WATCH, is_settled, show
from tests.viewer.writing import WrittenRun, answer, result

pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]
RUN = "<img src=x onerror=window.__pwned=90>"
DATASET = "<svg onload=window.__pwned=91>"
TASK = '"><script>window.__pwned=92<|script>'
FINAL = "</script><img src=x onerror=window.__pwned=93>"


def write_conversation(run: WrittenRun, number: int, evil: str) -> None:
    """An attempt with an attack in each of its texts."""
    page = {
        "url": evil,
        "title": evil,
        "elements": [{"number": 1, "role": evil, "name": evil, "box": [0, 0, 9, 9]}],
    }
    nodes = [
        answer(evil, (evil, {"element": 1, evil: evil}), reasoning=evil, model=evil),
        result(f"{evil} {FINAL}", data=page, error=None if number % 2 else evil),
        answer(None, ("look", {"text": evil})),
        result(f'{{"{evil.encode("unicode_escape").decode()}": 1}}'.replace('"', "\\u0022")),
        NodeBody("user", Message(role="user", content=evil), marks=(evil,)),
        answer(f"{evil}\n{FINAL}"),
    ]
    score = {"name": evil, "value": 0.0, "decides": True, "reason": evil, "evidence": {evil: [evil]}}
    run.add(
        f"{TASK}~{number}",
        nodes,
        dataset=DATASET,
        task=TASK,
        opening=evil,
        stop_reason=evil,
        scored=True,
        scores=[score],
        model=evil,
        user_model=evil,
        reward=0.0,
        error={"kind": evil, "text": evil} if number % 5 == 0 else None,
        status="failed" if number % 5 == 0 else "completed",
        tool_call_count=2,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose every text and name is an attack, and what people have marked with attacks."""
    folder = tmp_path_factory.mktemp("runs")
    for name in (RUN, "second"):
        written = WrittenRun(folder / name)
        for number, evil in enumerate(EVIL):
            write_conversation(written, number, evil)
        written.close()
        run = rollout.load_run(folder / name)
        for number, evil in enumerate(EVIL):
            attempt = f"{TASK}~{number}"
            said = "".join(char for char in evil if char.isprintable())
            run.marks.add(attempt, "note", text=said, author=said[:60], dataset=DATASET)
            run.marks.add(attempt, "label", text=said[:60], author="ada", dataset=DATASET)
            run.marks.add(attempt, "bad", text=said, message=1, author="ada", dataset=DATASET)
    return folder


async def is_harmless(page: Page, address: str) -> None:
    """Nothing has run, and nothing that was text has become an element or a link."""
    assert await page.evaluate("window.__pwned") is None, address
    found = await page.locator(FORBIDDEN).evaluate_all("(all) => all.map((each) => each.outerHTML.slice(0, 200))")
    assert found == [], address


async def test_no_stored_text_ever_runs_in_any_view(page: Page) -> None:
    listed = await page.evaluate("fetch('api/runs').then((each) => each.json())")
    name = next(each["name"] for each in listed if each["name"] != "second")
    rows = await page.evaluate(
        "(name) => fetch(`api/runs/${name}/trajectories?limit=100`).then((each) => each.json())", name
    )
    assert rows["total"] == len(EVIL)
    quoted = [await page.evaluate("encodeURIComponent", part) for part in (DATASET, TASK)]
    run, tree = f"#/run/{name}", f"#/run/{name}/tree/{quoted[0]}/{quoted[1]}"
    trajectories = [
        f"{run}/t/{quoted[0]}/{quoted[1]}~{number}{panel}"
        for number in range(len(EVIL))
        for panel in ("", "?at=1&sent=1", "?panel=setup", "?panel=pictures&at=1")
    ]
    tabs = [f"{run}{more}" for more in ("", "?q=window", "?tab=plots", "?tab=errors", "?tab=config", "/queue", "/play")]
    for address in ("#/", *tabs, tree, f"#/compare?run={name}&run=second", *trajectories):
        await show(page, address)
        await is_settled(page)
        await page.evaluate(UNFOLD)
        await is_harmless(page, address)


async def test_notes_and_names_of_people_are_shown_as_they_were_written(page: Page) -> None:
    name = await page.evaluate("fetch('api/runs').then((each) => each.json()).then((all) => all[0].name)")
    quoted = [await page.evaluate("encodeURIComponent", part) for part in (DATASET, TASK)]
    await show(page, f"#/run/{name}/t/{quoted[0]}/{quoted[1]}~0")
    await expect(page.locator(".mark.is-mark-note")).to_contain_text(EVIL[0])
    await expect(page.locator(".lane.is-user").last).to_contain_text(EVIL[0])
    await expect(page.locator("h1")).to_contain_text(TASK)


async def test_no_text_of_a_report_ever_runs(runs: Path, browser: Browser, tmp_path: Path) -> None:
    from rollout.pipelines.runs.find import TrajectoryWish
    from rollout.viewer.report_file import find_keys, report_of

    file = tmp_path / "report.html"
    file.write_bytes(report_of(runs / RUN, find_keys(runs / RUN, [], TrajectoryWish(most=100))[0]))
    context = await browser.new_context(offline=True)
    await context.add_init_script(WATCH)
    reader = await context.new_page()
    await reader.goto(file.as_uri())
    await expect(reader.locator(".row-link").first).to_be_visible()
    await is_harmless(reader, "the list")
    for number in range(0, len(EVIL), 4):
        place = [await reader.evaluate("encodeURIComponent", part) for part in (DATASET, f"{TASK}~{number}")]
        await show(reader, f"#/run/report/t/{place[0]}/{place[1]}")
        await expect(reader.locator("h1")).to_contain_text(f"~{number}")
        await reader.evaluate(UNFOLD)
        await is_harmless(reader, f"trajectory {number}")
    assert await reader.evaluate("window.__violations") == []
    await context.close()
