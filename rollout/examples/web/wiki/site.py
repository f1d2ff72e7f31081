"""The wiki's pages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from urllib.parse import quote

from aiohttp import web

from rollout.examples.web.hypertext import (
    Child,
    Errors,
    Html,
    button,
    el,
    faults,
    pager,
    post,
    table,
    text_area,
    text_field,
    tick,
)
from rollout.examples.web.serving import Frame, Visitors, make_application, number_of, read_form, redirect, take_notices
from rollout.examples.web.wiki.history import MAX_ARTICLES, PROTECTED, WikiState
from rollout.examples.web.wiki.markup import address, categories, contents, parse, plain

PAGE_SIZE = 8
FRAME = Frame("Isles Wiki")


def make_app() -> web.Application:
    """The wiki as it was shipped."""
    wiki = Wiki()
    return make_application(
        [
            ("GET", "/", wiki.home),
            ("GET", "/search", wiki.search),
            ("GET", "/suggest", wiki.suggest),
            ("GET", "/all", wiki.all),
            ("GET", "/recent", wiki.recent),
            ("GET", "/watched", wiki.watched),
            ("GET", "/category/{name}", wiki.category),
            ("GET", "/wiki/{title}", wiki.article),
            ("GET", "/history/{title}", wiki.history),
            ("GET", r"/history/{title}/{number:\d+}", wiki.revision),
            ("GET", "/links/{title}", wiki.links),
            ("GET", "/edit/{title}", wiki.edit),
            ("POST", "/edit/{title}", wiki.save),
            ("POST", "/watch/{title}", wiki.watch),
        ],
        "wiki",
        wiki.missing,
    )


class Wiki:
    """Handlers, and the visitors they serve."""

    def __init__(self) -> None:
        self._visitors = Visitors(WikiState)

    # ---- reading ------------------------------------------------------------------------------------------------

    async def home(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        body = [
            el("h1", "Welcome to the Isles Wiki"),
            el(
                "p",
                f"An encyclopedia of the Tidewater Isles that anyone can edit: {len(state.titles)} articles so far.",
            ),
            el("h2", "Start here"),
            el("ul", [el("li", _link(title)) for title in ("Tidewater Isles", "Tidewater Ferries", "Kelp Festival")]),
            el("h2", "Did you know?"),
            el(
                "ul",
                el("li", "That ", _link("Merrow Head Light"), " burned seal oil until 1880?"),
                el("li", "That the ", _link("Storm tern"), " breeds on one row of rocks and nowhere else?"),
                el("li", "That ", _link("Kelp ale"), " was invented because barley was short?"),
            ),
            el("h2", "Categories"),
            el("p", [[el("a", name, href=f"/category/{name}"), " "] for name in self._categories(state)]),
        ]
        return self._page(state, "", body)

    async def article(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"])
        if title is None:
            wanted = request.match_info["title"].replace("_", " ")
            body: Child = [
                el("h1", wanted),
                el("p", "The wiki has no article with this title."),
                el("a", f"Create the article “{wanted}”", href=_to("edit", wanted), class_="button"),
            ]
            return self._page(state, wanted, body, status=404)
        return self._page(state, title, self._read(state, title, state.text(title)), heads=title, current="Read")

    def _read(self, state: WikiState, title: str, text: str) -> list[Child]:
        article = parse(text, lambda target: state.find(target) is not None)
        rows = [el("tr", el("th", name, scope="row"), el("td", value)) for name, value in article.box]
        box = el("aside", el("strong", title), el("table", el("tbody", rows)), class_="box") if rows else None
        kinds = [el("a", name, href=f"/category/{quote(name)}") for name in categories(text)]
        return [
            el("h1", title),
            box,
            article.body[:1],
            contents(article),
            article.body[1:],
            el("div", "Categories: ", kinds, class_="kinds") if kinds else None,
        ]

    async def search(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        words = request.query.get("q", "").strip()[:100]
        exact = state.find(words)
        if exact and "full" not in request.query:
            return redirect(address(exact))
        found = state.search(words)
        number = number_of(request.query.get("page", ""), 1, 1, 999)
        results = [
            el("li", _link(title), el("p", plain(state.text(title))[:160] + "…", class_="quiet"))
            for title in found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        ]
        body = [
            el("h1", f"Search: {words}"),
            el("p", f"{len(found)} article{'' if len(found) == 1 else 's'} found", class_="quiet"),
            el("ol", results, start=(number - 1) * PAGE_SIZE + 1) if results else None,
            pager(number, -(-len(found) // PAGE_SIZE), {"": "/search", "q": words, "full": "1"}),
        ]
        return self._page(state, f"Search: {words}", body, words=words)

    async def suggest(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        start = request.query.get("q", "").strip().lower()
        found = [title for title in state.titles if title.lower().startswith(start)][:5] if start else []
        return web.json_response([{"title": title, "href": address(title)} for title in found])

    async def all(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        number = number_of(request.query.get("page", ""), 1, 1, 999)
        shown = state.titles[(number - 1) * 12 : number * 12]
        body = [
            el("h1", "All articles"),
            el("ul", [el("li", _link(title)) for title in shown]),
            pager(number, -(-len(state.titles) // 12), {"": "/all"}),
        ]
        return self._page(state, "All articles", body)

    async def category(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        name = request.match_info["name"]
        titles = self._categories(state).get(name, [])
        body = [
            el("h1", f"Category: {name}"),
            el("p", f"{len(titles)} article{'' if len(titles) == 1 else 's'} in this category.", class_="quiet"),
            el("ul", [el("li", _link(title)) for title in titles]),
        ]
        return self._page(state, f"Category: {name}", body)

    async def links(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"])
        if title is None:
            return await self.missing(request)
        titles = [other for other in state.titles if title in parse(state.text(other), lambda _: True).links]
        body = [
            el("h1", f"What links to {title}"),
            el("p", f"{len(titles)} article{'' if len(titles) == 1 else 's'} link here.", class_="quiet"),
            el("ul", [el("li", _link(other)) for other in titles]),
        ]
        return self._page(state, f"What links to {title}", body, heads=title, current="What links here")

    # ---- changes ------------------------------------------------------------------------------------------------

    async def recent(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        changes = [change for change in state.recent() if change[1].date > "2018-12-31"]
        number = number_of(request.query.get("page", ""), 1, 1, 999)
        rows = [
            (revision.date, _link(title), revision.author, revision.summary)
            for title, revision in changes[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        ]
        body = [
            el("h1", "Recent changes"),
            table(["Date", "Article", "Author", "Summary"], rows),
            pager(number, -(-len(changes) // PAGE_SIZE), {"": "/recent"}),
        ]
        return self._page(state, "Recent changes", body)

    async def history(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"])
        if title is None:
            return await self.missing(request)
        revisions = list(enumerate(state.revisions(title), 1))
        rows = [
            (
                el("a", f"Revision {number}", href=f"{_to('history', title)}/{number}"),
                revision.date,
                revision.author,
                [revision.summary, " ", el("span", "minor", class_="tag") if revision.is_minor else None],
            )
            for number, revision in reversed(revisions)
        ]
        body = [el("h1", f"History of {title}"), table(["Revision", "Date", "Author", "Summary"], rows)]
        return self._page(state, f"History of {title}", body, heads=title, current="History")

    async def revision(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"])
        number = int(request.match_info["number"])
        if title is None or not 1 <= number <= len(state.revisions(title)):
            return await self.missing(request)
        revision = state.revisions(title)[number - 1]
        before = state.revisions(title)[number - 2].text if number > 1 else ""
        changed = [
            el("ins" if line[0] == "+" else "del", line + "\n")
            for line in difflib.ndiff(before.splitlines(), revision.text.splitlines())
            if line[0] in "+-"
        ]
        note = (
            f"This is revision {number} of {title}, saved on {revision.date} by {revision.author}: {revision.summary}"
        )
        body = [
            el("div", note, class_="notice note"),
            el("details", el("summary", "Show changes"), el("div", el("pre", changed))),
            self._read(state, title, revision.text),
        ]
        return self._page(state, f"{title}, revision {number}", body, heads=title, current="History")

    # ---- writing ------------------------------------------------------------------------------------------------

    async def edit(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"]) or request.match_info["title"].replace("_", " ")[:80]
        if title in PROTECTED:
            body: Child = [
                el("h1", f"Editing {title}"),
                el("div", "This article is protected: only administrators may edit it.", class_="notice bad"),
            ]
            return self._page(state, f"Editing {title}", body, heads=title, current="Edit", status=403)
        text = state.text(title) if state.find(title) else ""
        return self._form(state, title, {"text": text}, {})

    def _form(self, state: WikiState, title: str, values: Mapping[str, str], errors: Errors) -> web.Response:
        help_text = "Links: [[Article]]. Headings: == Heading ==. Categories: [[Category:Name]]."
        form = post(
            _to("edit", title),
            faults(errors),
            text_area("text", "Text", values.get("text", ""), errors, rows=13),
            el("p", help_text, class_="quiet"),
            text_field("summary", "Summary of your change", values.get("summary", ""), errors),
            tick("minor", "This is a minor edit", bool(values.get("minor"))),
            el("div", button("Save page"), el("a", "Cancel", href=address(title)), class_="actions"),
        )
        body = [el("h1", f"Editing {title}"), form]
        return self._page(state, f"Editing {title}", body, heads=title, current="Edit")

    async def save(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"]) or request.match_info["title"].replace("_", " ")[:80].strip()
        if title in PROTECTED or not title or len(state.edits) >= MAX_ARTICLES:
            return redirect(_to("edit", title))
        form = await read_form(request)
        text = form.get("text", "").replace("\r\n", "\n")
        errors = {}
        if not text:
            errors["text"] = "An article cannot be empty."
        if not form.get("summary"):
            errors["summary"] = "Please say in a few words what you changed."
        elif state.find(title) and text == state.text(title):
            errors["text"] = "You have not changed anything."
        if errors:
            return self._form(state, title, {**form, "text": text}, errors)
        state.save(title, text, form["summary"][:200], bool(form.get("minor")))
        state.notices.append(("good", "Your change was saved."))
        return redirect(address(title))

    async def watch(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        title = state.find(request.match_info["title"])
        if title is None:
            return await self.missing(request)
        if title in state.watched:
            state.watched.remove(title)
        else:
            state.watched.append(title)
        return redirect(address(title))

    async def watched(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        items = [el("li", _link(title)) for title in state.watched]
        body = [el("h1", "Watched articles"), el("ul", items) if items else el("p", "You do not watch any article.")]
        return self._page(state, "Watched articles", body)

    async def missing(self, request: web.Request) -> web.Response:
        body = [el("h1", "Not found"), el("p", "There is no such page. ", el("a", "Main page", href="/"))]
        return self._page(self._visitors.of(request), "Not found", body, status=404)

    # ---- the frame ----------------------------------------------------------------------------------------------

    def _categories(self, state: WikiState) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for title in state.titles:
            for name in categories(state.text(title)):
                found.setdefault(name, []).append(title)
        return dict(sorted(found.items()))

    def _page(
        self,
        state: WikiState,
        title: str,
        body: Child,
        *,
        heads: str = "",
        current: str = "",
        words: str = "",
        status: int = 200,
    ) -> web.Response:
        header = el(
            "div",
            el("a", "Isles Wiki", href="/", class_="brand"),
            el(
                "form",
                el(
                    "input",
                    type="search",
                    name="q",
                    value=words,
                    placeholder="Search the wiki",
                    aria_label="Search",
                    autocomplete="off",
                    data_suggests="suggestions",
                ),
                button("Search"),
                el("div", id="suggestions", class_="suggestions", hidden=True),
                action="/search",
                class_="search",
                role="search",
            ),
            el("nav", el("a", f"Watched ({len(state.watched)})", href="/watched")),
            class_="bar",
        )
        side = el(
            "nav",
            el("h3", "Read"),
            el("a", "Main page", href="/"),
            el("a", "All articles", href="/all"),
            el("a", "Recent changes", href="/recent"),
            el("h3", "Categories"),
            [el("a", name, href=f"/category/{quote(name)}") for name in self._categories(state)],
            class_="side",
            aria_label="Side",
        )
        paper = el(
            "div", self._heads(state, heads, current), el("div", take_notices(state.notices), body, class_="paper")
        )
        footer = "Isles Wiki. Text may be used freely. The Tidewater Isles do not exist."
        return FRAME.page(title, el("div", side, paper, class_="layout"), header=header, footer=footer, status=status)

    def _heads(self, state: WikiState, title: str, current: str) -> Html | None:
        if not title:
            return None
        links = {
            "Read": address(title),
            "Edit": _to("edit", title),
            "History": _to("history", title),
            "What links here": _to("links", title),
        }
        watch = "Unwatch" if title in state.watched else "Watch"
        return el(
            "div",
            [el("a", text, href=to, aria_current="page" if text == current else None) for text, to in links.items()],
            post(f"/watch/{quote(title, safe='')}", button(watch, kind="quiet small")) if state.find(title) else None,
            class_="heads",
        )


def _link(title: str) -> Html:
    return el("a", title, href=address(title))


def _to(what: str, title: str) -> str:
    return address(title).replace("/wiki/", f"/{what}/", 1)
