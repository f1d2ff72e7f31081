"""The shipped sites as a client without a browser sees them, and what their task files hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout.examples.web as shipped
from rollout.core.task import Task
from rollout.environments.web.scoring.answer import wanted_answer
from rollout.environments.web.scoring.checks import read_checks
from rollout.environments.web.sites import Sites, load_sites
from rollout.examples.web.hypertext import el
from rollout.examples.web.serving import Visitors, cookie_for
from rollout.examples.web.wiki.markup import parse, plain
from rollout.tasks.elements import has_locator
from rollout.tasks.jsonl import TaskFile

SITES = ("shop", "wiki", "booking", "tracker")
WITH_TASKS = (*SITES, "patterns")
FOLDER = Path(shipped.__file__).parent / "tasks"
SIGN_IN = {"email": "maya@lumen.test", "password": "harbor-42"}


@pytest.fixture
async def sites() -> AsyncIterator[Sites]:
    served = load_sites(SITES)
    yield served
    await served.close()


async def visit(sites: Sites, name: str) -> tuple[aiohttp.ClientSession, str]:
    """A visitor of its own, signed in where that is needed."""
    host, port = (await sites.routes())[f"{name}.test"]
    session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
    url = f"http://{host}:{port}"
    if name == "tracker":
        async with session.post(f"{url}/login", data=SIGN_IN) as reply:
            assert "Welcome back" in await reply.text()
    return session, url


class Markup(HTMLParser):
    """What a page refers to, and its forms."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.forms: list[tuple[str, list[str]]] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        if tag == "a":
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link":
            self.loaded.append(given["href"])
        elif tag == "form":
            self.forms.append((given["action"], []) if given.get("method") == "post" else ("", []))
        elif tag in ("input", "select", "textarea") and self.forms:
            self.forms[-1][1].append(given["name"])

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", SITES)
async def test_every_link_leads_somewhere_and_nothing_comes_from_outside(sites: Sites, name: str) -> None:
    session, url = await visit(sites, name)
    pages: dict[str, Markup] = {}
    async with session:
        left = ["/"]
        while left and len(pages) < 150:
            path = left.pop()
            async with session.get(url + path) as reply:
                expected = {200, 403} if path.startswith("/edit/") else {200}
                assert reply.status in expected, f"{name}: {path}"
                pages[path] = Markup(await reply.text())
            assert len(pages[path].ids) == len(set(pages[path].ids)), f"{name}: {path}: an id is there twice"
            for found in pages[path].links:
                target = urljoin(path, found).partition("#")[0]
                assert urlsplit(target).netloc == "", f"{name}: {path} leads out to {found}"
                if target not in pages and target not in left:
                    left.append(target)
    assert len(pages) >= 20
    assert {place for page in pages.values() for place in page.loaded} == {"/style.css", "/site.js", "data:,"}


@pytest.mark.parametrize("name", SITES)
async def test_pages_are_the_same_for_every_visitor(sites: Sites, name: str) -> None:
    texts = []
    for _ in range(2):
        session, url = await visit(sites, name)
        async with session, session.get(url + "/") as reply:
            texts.append(await reply.text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", SITES)
async def test_what_is_not_there_is_told_as_such(sites: Sites, name: str) -> None:
    session, url = await visit(sites, name)
    async with session:
        async with session.get(f"{url}/no/such/page") as reply:
            assert reply.status == 404
            assert "found" in (await reply.text()).lower()
        async with session.post(f"{url}/", data={}) as reply:
            assert reply.status == 404


@pytest.mark.parametrize("name", SITES)
async def test_no_form_fails_on_what_is_sent_to_it_and_nothing_comes_back_unescaped(sites: Sites, name: str) -> None:
    evil = [
        "",
        "<script>alert(1)</script>",
        '" onload="x',
        "2025-02-30",
        "-1",
        "9" * 400,
        "\x00é\ud7ff😀",
        "'; --",
        "yes",
    ]
    session, url = await visit(sites, name)
    async with session:
        forms: dict[str, list[str]] = {}
        paths = {
            "shop": ["/p/TP-101", "/cart", "/checkout"],
            "wiki": ["/edit/Kelp_ale", "/wiki/Kelp_ale"],
            "booking": ["/bookings/SM-7300", "/book/dune-cabin?from=2025-04-11&to=2025-04-14&guests=2"],
            "tracker": ["/issues/104", "/issues/new", "/settings"],
        }[name]
        if name == "shop":
            await session.post(f"{url}/p/TP-101", data={"option-Colour": "Sage", "quantity": "1"})
        for path in paths:
            async with session.get(url + path) as reply:
                forms |= dict(Markup(await reply.text()).forms)
        forms.pop("", None)
        assert forms
        for action, fields in sorted(forms.items()):
            for value in evil:
                async with session.post(url + action, data=dict.fromkeys(fields, value)) as reply:
                    text = await reply.text()
                    assert reply.status < 500, f"{name}: {action} with {value!r}"
                    assert "<script>alert" not in text
                    assert 'onload="x' not in text
        for value in evil:
            async with session.get(f"{url}/search", params={"q": value, "from": value, "min": value}) as reply:
                assert reply.status < 500
                assert "<script>alert" not in await reply.text()


async def test_visitors_do_not_share_what_they_did(sites: Sites) -> None:
    first, url = await visit(sites, "shop")
    second, _ = await visit(sites, "shop")
    async with first, second:
        await first.post(f"{url}/p/MG-201", data={"option-Colour": "Navy", "quantity": "2"})
        async with first.get(f"{url}/cart") as mine, second.get(f"{url}/cart") as other:
            assert "Harbour Mug (Navy)" in await mine.text()
            assert "Your cart is empty" in await other.text()


async def test_visitors_at_once_do_not_mix(sites: Sites) -> None:
    async def buy(quantity: int) -> bool:
        session, url = await visit(sites, "shop")
        async with session:
            await session.post(f"{url}/p/TE-304", data={"quantity": str(quantity)})
            async with session.get(f"{url}/cart") as reply:
                return f"Cart ({quantity})" in await reply.text()

    assert all(await asyncio.gather(*(buy(1 + number % 9) for number in range(40))))


def test_the_number_of_visitors_is_bounded_and_the_oldest_is_forgotten() -> None:
    visitors: Visitors[list[str]] = Visitors(list, limit=3)

    def come(cookie: str = "") -> tuple[list[str], str]:
        request = make_mocked_request("GET", "/", headers={"Cookie": f"visitor={cookie}"} if cookie else {})
        state = visitors.of(request)
        return state, cookie_for(request) or cookie

    state, first = come()
    state.append("was here")
    for _ in range(2):
        come()
    assert come(first) == (["was here"], first)
    for _ in range(2):
        come()
    assert come(first)[0] == ["was here"], "who was seen lately is kept"
    for _ in range(3):
        come()
    again, cookie = come(first)
    assert again == []
    assert cookie != first
    assert len(visitors) == 3


# ---- markup ----------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@given(texts, texts)
def test_text_and_attributes_come_back_as_they_were(text: str, value: str) -> None:
    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            said.append(data)

    tags: list[tuple[str, Any]] = []
    said: list[str] = []
    reader = Reader()
    reader.feed(el("p", text, title=value))
    reader.close()
    assert tags == [("p", [("title", value)])]
    assert "".join(said) == text


@settings(max_examples=300)
@given(st.lists(st.one_of(texts, st.sampled_from(["{|", "|}", "{{Infobox", "}}", "* a", "| a | b", "! a", "== a =="]))))
def test_any_text_is_an_article_without_markup_of_its_own(lines: list[str]) -> None:
    text = "\n".join(lines)
    article = parse(text, lambda title: True)
    shown = el("div", article.body, [value for _, value in article.box])
    found = set(re.findall(r"<([a-z0-9]+)", shown))
    assert found <= {
        "div",
        "p",
        "ul",
        "li",
        "h2",
        "a",
        "strong",
        "em",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "button",
    }
    plain(text)


# ---- the tasks -------------------------------------------------------------------------------------------------------


def tasks_of(name: str) -> list[Task]:
    found = TaskFile(FOLDER / f"{name}.jsonl")
    assert found.problems == []
    return list(found)


def test_every_site_has_tasks_and_every_file_a_site() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(WITH_TASKS)
    tasks = [task for name in WITH_TASKS for task in tasks_of(name)]
    assert len(tasks) >= 60
    assert len({task.id for task in tasks}) == len(tasks)
    assert {task.info["difficulty"] for task in tasks} == set(range(1, 9))


def test_the_documentation_counts_the_tasks() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "web-sites.md").read_text()
    counts = {name: len(tasks_of(name)) for name in WITH_TASKS}
    rows = {row.split("`")[1]: int(row.split("|")[-2]) for row in page.splitlines() if row.startswith("| `")}
    assert rows == counts
    assert f"with {sum(counts.values())} tasks" in page


@pytest.mark.parametrize("name", SITES)
def test_tasks_say_what_to_do_and_when_it_is_done(name: str) -> None:
    for task in tasks_of(name):
        assert task.info["website"].startswith(f"http://{name}.test/"), task.id
        assert task.info["rubric"], task.id
        assert task.info.get("checks") or task.info.get("answer"), f"{task.id}: nothing tells whether it is solved"
        if "checks" in task.info:
            assert read_checks(task), task.id
        if "answer" in task.info:
            assert wanted_answer(task).texts
        assert task.actions is not None
        assert task.actions[-1].name == "answer", task.id
        assert any(has_locator(action.arguments) for action in task.actions), task.id


def test_rubrics_come_in_all_their_forms() -> None:
    kinds = set()
    for name in SITES:
        for line in (FOLDER / f"{name}.jsonl").read_bytes().splitlines():
            rubric = msgspec.json.decode(line)["evaluator_reference"]
            first = rubric[0] if isinstance(rubric, list) else None
            kinds.add(
                "text"
                if first is None
                else "facts"
                if isinstance(first, dict) and "facts" in first
                else type(first).__name__
            )
    assert kinds == {"text", "facts", "dict", "str"}
