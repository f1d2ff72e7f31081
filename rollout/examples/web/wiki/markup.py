"""The wiki's markup, which people edit, as HTML.

A line is a heading (`== History ==`), an item (`* milk`), part of a table (`{|`, `! head | head`, `| cell | cell` and
`|}`), part of a box (`{{Infobox`, `Area = 3 km²`, `}}`), a category (`[[Category:Islands]]`) or a paragraph. In a line
`[[Target]]` and `[[Target|text]]` are links, `'''bold'''` and `''italic''` are what they say.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from rollout.examples.web.hypertext import Child, Html, el, table

_PIECE = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]+))?\]\]|'''(.+?)'''|''(.+?)''")
_CATEGORY = re.compile(r"\[\[Category:([^\[\]|]+)\]\]")
_HEADING = re.compile(r"==+\s*(.+?)\s*==+")


@dataclass
class Article:
    """What the text of an article says."""

    box: list[tuple[str, Child]] = field(default_factory=list)
    body: list[Child] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    links: set[str] = field(default_factory=set)


def address(title: str) -> str:
    """Where an article is."""
    return f"/wiki/{quote(title.replace(' ', '_'), safe='')}"


def categories(text: str) -> list[str]:
    """The categories that an article is in."""
    return [found.strip() for found in _CATEGORY.findall(text)]


@functools.lru_cache(maxsize=512)
def plain(text: str) -> str:
    """The words of an article without its markup, for searching."""
    text = _CATEGORY.sub("", text)
    text = _PIECE.sub(lambda found: found[2] or found[1] or found[3] or found[4], text)
    return " ".join(re.sub(r"\{\{Infobox|\}\}|\{\||\|\}|[|!*=]", " ", text).split())


def parse(text: str, is_there: Callable[[str], bool]) -> Article:
    """Read an article. A link to one that is not there is shown as such."""
    article = Article()
    lines = iter(text.splitlines())
    items: list[Child] = []

    def end_list() -> None:
        if items:
            article.body.append(el("ul", list(items)))
            items.clear()

    for raw in lines:
        line = raw.strip()
        if line.startswith("* "):
            items.append(el("li", _inline(line[2:], article, is_there)))
            continue
        end_list()
        heading = _HEADING.fullmatch(line)
        if not line or _CATEGORY.fullmatch(line):
            continue
        if line == "{{Infobox":
            for inner in lines:
                if inner.strip() == "}}":
                    break
                name, _, value = inner.partition("=")
                article.box.append((name.strip(), _inline(value.strip(), article, is_there)))
        elif line == "{|":
            article.body.append(_table(lines, article, is_there))
        elif heading:
            article.headings.append(heading[1])
            article.body.append(el("h2", heading[1], id=_anchor(heading[1])))
        else:
            article.body.append(el("p", _inline(line, article, is_there)))
    end_list()
    return article


def contents(article: Article) -> Html | None:
    """Links to the headings, where there are several."""
    if len(article.headings) < 2:
        return None
    items = [el("li", el("a", heading, href=f"#{_anchor(heading)}")) for heading in article.headings]
    return el("nav", el("strong", "Contents"), el("ol", items), class_="contents", aria_label="Contents")


def _table(lines: object, article: Article, is_there: Callable[[str], bool]) -> Html:
    head: list[Child] = []
    rows: list[list[Child]] = []
    for line in lines:  # type: ignore[attr-defined]
        if line.strip() == "|}":
            break
        # A bar inside a link does not part two cells.
        cells = [cell.strip() for cell in re.split(r"\|(?![^\[]*\]\])", line.strip()[1:])]
        if line.startswith("!"):
            head = list(cells)
        elif line.startswith("|"):
            rows.append([_inline(cell, article, is_there) for cell in cells])
    return table(head, rows, sortable=True)


def _inline(text: str, article: Article, is_there: Callable[[str], bool]) -> list[Child]:
    parts: list[Child] = []
    end = 0
    for found in _PIECE.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        target, shown, bold, italic = found.groups()
        if target:
            article.links.add(target)
            kind = None if is_there(target) else "new"
            parts.append(el("a", shown or target, href=address(target), class_=kind))
        else:
            parts.append(el("strong", bold) if bold else el("em", italic))
    parts.append(text[end:])
    return parts


def _anchor(heading: str) -> str:
    return heading.replace(" ", "_")
