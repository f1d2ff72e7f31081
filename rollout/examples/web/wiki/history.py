"""The articles and what became of them: revisions, the oldest first. A visitor's edits are its own."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

from rollout.examples.web.serving import TODAY
from rollout.examples.web.wiki.markup import plain

PROTECTED = frozenset({"Tidewater Isles"})
MAX_REVISIONS = 50
MAX_ARTICLES = 200
VISITOR = "Visitor"

# Changes since the articles were written: title, date, author, summary, what was put in, what was there before.
_PAST = (
    ("Port Ansel", "2021-08-14", "Harbourmaster", "New population from the census", "3,870 (2021)", "3,702 (2011)"),
    ("Port Ansel", "2024-05-20", "Tidewatcher", "New mayor after the election", "Tilda Roe", "Olof Brandt"),
    ("Kelp Festival", "2023-07-03", "KelpFan", "Guests of 2023", "3,650 (2023)", "3,100 (2022)"),
    ("Kelp Festival", "2024-07-02", "KelpFan", "Guests of 2024", "4,200 (2024)", "3,650 (2023)"),
    ("Storm tern", "2023-11-12", "Birdwarden", "Count of 2023", "2,900 (2023)", "3,400 (2018)"),
    ("Cape Wrack Light", "2022-02-28", "Tidewatcher", "Correct the number of steps", "194 steps", "149 steps"),
    ("Tidewater Ferries", "2025-01-15", "Harbourmaster", "Passengers of 2024", "318,000 (2024)", "301,000 (2023)"),
    ("Brand Mine", "2020-04-04", "Copperhead", "Depth from the last survey", "540 m", "510 m"),
    ("Great Gale of 1911", "2019-10-17", "Copperhead", "Add the number of dead", "103", "not known"),
    ("Isle puffin", "2025-03-01", "KelpFan", "New article", "", ""),
)
_YOUNG = frozenset({"Isle puffin"})


@dataclass(frozen=True)
class Revision:
    date: str
    author: str
    summary: str
    text: str
    is_minor: bool = False


@functools.cache
def shipped() -> dict[str, tuple[Revision, ...]]:
    """The articles as every visitor finds them."""
    articles = {}
    for part in (Path(__file__).parent / "articles.txt").read_text().split("@@ ")[1:]:
        title, _, text = part.partition("\n")
        text = text.strip()
        revisions = []
        for _, date, author, summary, now, then in sorted((e for e in _PAST if e[0] == title), reverse=True):
            revisions.append(Revision(date, author, summary, text))
            text = text.replace(now, then)
        if title not in _YOUNG:
            revisions.append(Revision("2018-02-03", "Tidewatcher", "New article", text))
        articles[title] = tuple(reversed(revisions))
    return articles


@dataclass
class WikiState:
    """What one visitor sees: the shipped articles and its own edits."""

    edits: dict[str, list[Revision]] = field(default_factory=dict)
    watched: list[str] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)

    @property
    def titles(self) -> list[str]:
        return sorted(shipped().keys() | self.edits.keys())

    def find(self, title: str) -> str | None:
        """The title as it is written here, whatever the case it was asked for in."""
        wanted = " ".join(title.replace("_", " ").split()).lower()
        return next((known for known in self.titles if known.lower() == wanted), None)

    def revisions(self, title: str) -> list[Revision]:
        return [*shipped().get(title, ()), *self.edits.get(title, ())]

    def text(self, title: str) -> str:
        return self.revisions(title)[-1].text

    def save(self, title: str, text: str, summary: str, is_minor: bool) -> None:
        revisions = self.edits.setdefault(title, [])
        revisions.append(Revision(TODAY.isoformat(), VISITOR, summary, text, is_minor))
        del revisions[:-MAX_REVISIONS]

    def recent(self) -> list[tuple[str, Revision]]:
        """All changes, the newest first."""
        changes = [(title, revision) for title in self.titles for revision in self.revisions(title)]
        return sorted(changes, key=lambda change: change[1].date, reverse=True)

    def search(self, words: str) -> list[str]:
        """Titles of articles that have all the words, those with all of them in the title first."""
        parts = words.lower().split()
        in_title = [title for title in self.titles if all(part in title.lower() for part in parts)]
        in_text = [
            title
            for title in self.titles
            if title not in in_title and all(part in f"{title} {plain(self.text(title))}".lower() for part in parts)
        ]
        return in_title + in_text if parts else []
