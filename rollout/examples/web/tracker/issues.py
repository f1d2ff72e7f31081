"""Data of the tracker: people, issues and milestones, and what one visitor changed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rollout.examples.web.serving import TODAY

STATUSES = ("Backlog", "To do", "In progress", "In review", "Done")
PRIORITIES = ("Urgent", "High", "Medium", "Low")
LABELS = ("bug", "feature", "design", "docs", "security", "performance")
MILESTONES = {"2.4 Ferry": "2025-03-28", "2.5 Gull": "2025-05-16", "3.0 Heron": "2025-09-01"}
MAX_COMMENTS = 100
MAX_NEW = 100
_SHIPPED = (Path(__file__).parent / "issues.json").read_bytes()


@dataclass(frozen=True)
class Person:
    key: str
    name: str
    email: str
    password: str
    role: str


PEOPLE = {
    person.key: person
    for person in (
        Person("maya", "Maya Lindqvist", "maya@lumen.test", "harbor-42", "Product lead"),
        Person("tomas", "Tomas Okoro", "tomas@lumen.test", "copper-17", "Backend developer"),
        Person("ines", "Ines Valdez", "ines@lumen.test", "violet-88", "Designer"),
        Person("ravi", "Ravi Nair", "ravi@lumen.test", "monsoon-5", "Frontend developer"),
        Person("greta", "Greta Holm", "greta@lumen.test", "birch-301", "Quality engineer"),
    )
}


@dataclass
class Comment:
    author: str
    date: str
    text: str


@dataclass
class Issue:
    number: int
    title: str
    status: str
    priority: str
    assignee: str
    labels: list[str]
    milestone: str
    reporter: str
    created: str
    text: str
    comments: list[Comment] = field(default_factory=list)
    file: str = ""


FILES = {
    "session-policy.txt": "Session policy, version 3\n\nA session ends after 12 hours without use.\nA session ends "
    "after 14 days in any case.\nA password change ends all sessions.",
    "contrast-report.txt": "Contrast report\nPrimary button: 3.9 to 1\nDanger button: 4.1 to 1\nQuiet button: 5.2 to 1",
}


def begin_issues() -> dict[int, Issue]:
    """The issues as every visitor finds them, in a copy of its own."""
    return {issue.number: issue for issue in msgspec.json.decode(_SHIPPED, type=list[Issue])}


@dataclass
class Settings:
    name: str = ""
    digest: str = "weekly"
    on_mention: bool = True
    on_assign: bool = True
    on_comment: bool = False
    timezone: str = "UTC"


@dataclass
class TrackerState:
    """What one visitor sees. Nobody is signed in at first."""

    person: Person | None = None
    issues: dict[int, Issue] = field(default_factory=begin_issues)
    settings: dict[str, Settings] = field(
        default_factory=lambda: {person.key: Settings(person.name) for person in PEOPLE.values()}
    )
    failures: int = 0
    notices: list[tuple[str, str]] = field(default_factory=list)

    def create(self, form: dict[str, str], labels: list[str]) -> Issue | None:
        """A new issue by who is signed in; None where there are too many."""
        assert self.person is not None
        number = max(self.issues) + 1
        if number > 140 + MAX_NEW:
            return None
        issue = Issue(
            number,
            form["title"],
            "Backlog",
            form["priority"],
            form.get("assignee", "") if form.get("assignee") in PEOPLE else "",
            labels,
            form.get("milestone", "") if form.get("milestone") in MILESTONES else "",
            self.person.key,
            TODAY.isoformat(),
            form["text"],
        )
        self.issues[number] = issue
        return issue

    def comment(self, issue: Issue, text: str) -> None:
        if self.person and text and len(issue.comments) < MAX_COMMENTS:
            issue.comments.append(Comment(self.person.key, TODAY.isoformat(), text))


def matching(issues: Iterable[Issue], wanted: dict[str, str]) -> list[Issue]:
    """The issues that fit the filters, in the order asked for."""
    words = wanted.get("q", "").lower().split()
    found = [
        issue
        for issue in issues
        if (wanted.get("status") in ("", None, issue.status))
        and not (wanted.get("status") == "" and wanted.get("open") and issue.status == "Done")
        and wanted.get("priority") in ("", None, issue.priority)
        and wanted.get("label") in ("", None, *issue.labels)
        and wanted.get("milestone") in ("", None, issue.milestone)
        and wanted.get("assignee") in ("", None, issue.assignee or "nobody")
        and all(word in f"{issue.number} {issue.title} {issue.text}".lower() for word in words)
    ]
    orders: dict[str, Callable[[Issue], tuple[int, int]]] = {
        "oldest": lambda issue: (0, issue.number),
        "priority": lambda issue: (PRIORITIES.index(issue.priority), issue.number),
        "comments": lambda issue: (-len(issue.comments), issue.number),
    }
    found.sort(key=orders.get(wanted.get("sort", ""), lambda issue: (0, -issue.number)))
    return found


def name_of(key: str) -> str:
    return PEOPLE[key].name if key in PEOPLE else "Nobody"
