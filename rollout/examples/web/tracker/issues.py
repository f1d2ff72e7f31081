"""What the team works on: people, issues and milestones, and what one visitor changed of them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rollout.examples.web.serving import TODAY

STATUSES = ("Backlog", "To do", "In progress", "In review", "Done")
PRIORITIES = ("Urgent", "High", "Medium", "Low")
LABELS = ("bug", "feature", "design", "docs", "security", "performance")
MILESTONES = {"2.4 Ferry": "2025-03-28", "2.5 Gull": "2025-05-16", "3.0 Heron": "2025-09-01"}
MAX_COMMENTS = 100
MAX_NEW = 100


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


# number, title, status, priority, assignee, labels, milestone, reporter, created
_ISSUES = (
    (101, "Sign-in page does not remember the email", "Done", "Low", "ravi", "bug", "2.4 Ferry", "greta", "2025-01-08"),
    (102, "Export invoices as CSV", "In progress", "High", "tomas", "feature", "2.4 Ferry", "maya", "2025-01-09"),
    (103, "Dark mode for the dashboard", "Backlog", "Low", "", "feature design", "3.0 Heron", "ines", "2025-01-10"),
    (104, "Dashboard takes 9 seconds to load", "In review", "Urgent", "tomas", "performance", "2.4 Ferry", "maya", "2025-01-13"),
    (105, "Wrong currency sign on Canadian invoices", "To do", "High", "tomas", "bug", "2.4 Ferry", "greta", "2025-01-14"),
    (106, "Redraw the empty state of the inbox", "In progress", "Medium", "ines", "design", "2.5 Gull", "ines", "2025-01-15"),
    (107, "Document the webhook retries", "To do", "Medium", "", "docs", "2.5 Gull", "ravi", "2025-01-15"),
    (108, "Session tokens never expire", "In progress", "Urgent", "tomas", "security bug", "2.4 Ferry", "greta", "2025-01-16"),
    (109, "Drag and drop does not work on tablets", "Backlog", "Medium", "ravi", "bug", "3.0 Heron", "greta", "2025-01-17"),
    (110, "Add a Portuguese translation", "Backlog", "Low", "", "feature", "3.0 Heron", "maya", "2025-01-20"),
    (111, "Crash when a report has no rows", "Done", "High", "tomas", "bug", "2.4 Ferry", "greta", "2025-01-20"),
    (112, "Button contrast is below 4.5 to 1", "To do", "Medium", "ines", "design bug", "2.4 Ferry", "greta", "2025-01-21"),
    (113, "Rate limit for the public API", "In review", "High", "tomas", "security feature", "2.5 Gull", "tomas", "2025-01-22"),
    (114, "Date picker shows the wrong month in March", "To do", "Urgent", "ravi", "bug", "2.4 Ferry", "greta", "2025-01-23"),
    (115, "Let admins merge two customers", "Backlog", "High", "", "feature", "3.0 Heron", "maya", "2025-01-24"),
    (116, "Search ignores accents", "To do", "Medium", "tomas", "bug", "2.5 Gull", "ines", "2025-01-27"),
    (117, "New icons for the sidebar", "In review", "Low", "ines", "design", "2.5 Gull", "ines", "2025-01-27"),
    (118, "Keyboard shortcuts overview", "Done", "Low", "ravi", "docs feature", "2.4 Ferry", "ravi", "2025-01-28"),
    (119, "Password reset mail goes to spam", "To do", "High", "", "bug", "2.4 Ferry", "greta", "2025-01-29"),
    (120, "Undo for deleted comments", "Backlog", "Medium", "ravi", "feature", "2.5 Gull", "greta", "2025-01-30"),
    (121, "Upgrade to the new payment library", "In progress", "High", "tomas", "security", "2.5 Gull", "tomas", "2025-01-31"),
    (122, "Chart tooltips are cut off on the right", "To do", "Low", "ravi", "bug design", "2.5 Gull", "ines", "2025-02-03"),
    (123, "Audit log for administrators", "Backlog", "High", "tomas", "security feature", "3.0 Heron", "maya", "2025-02-04"),
    (124, "Images in mails are blurred", "Done", "Medium", "ines", "bug design", "2.4 Ferry", "ines", "2025-02-05"),
    (125, "Weekly summary mail", "In progress", "Medium", "ravi", "feature", "2.5 Gull", "maya", "2025-02-06"),
    (126, "Sorting by total is wrong above 1,000", "In review", "High", "ravi", "bug", "2.4 Ferry", "greta", "2025-02-07"),
    (127, "Write the release notes for 2.4", "To do", "Medium", "maya", "docs", "2.4 Ferry", "maya", "2025-02-10"),
    (128, "Memory grows while the export runs", "In progress", "Urgent", "tomas", "performance bug", "2.4 Ferry", "greta", "2025-02-11"),
    (129, "Onboarding tour for new teams", "Backlog", "Medium", "ines", "feature design", "3.0 Heron", "maya", "2025-02-12"),
    (130, "Time zone of reminders is ignored", "To do", "High", "", "bug", "2.5 Gull", "ravi", "2025-02-13"),
    (131, "Print view of invoices", "Backlog", "Low", "ravi", "feature", "2.5 Gull", "maya", "2025-02-14"),
    (132, "Single sign-on with SAML", "Backlog", "High", "tomas", "security feature", "3.0 Heron", "maya", "2025-02-17"),
    (133, "Emoji in names break the PDF", "To do", "Low", "tomas", "bug", "2.5 Gull", "greta", "2025-02-18"),
    (134, "Load fonts from our own server", "Done", "Medium", "ravi", "security performance", "2.4 Ferry", "ravi", "2025-02-19"),
    (135, "Typing lag in the comment field", "In review", "Medium", "ravi", "performance bug", "2.5 Gull", "greta", "2025-02-20"),
    (136, "Explain the price tiers in the docs", "To do", "Low", "maya", "docs", "2.5 Gull", "maya", "2025-02-24"),
    (137, "Delete an account with all its data", "In progress", "High", "tomas", "security feature", "2.5 Gull", "maya", "2025-02-26"),
    (138, "Notifications arrive twice", "To do", "Urgent", "", "bug", "2.4 Ferry", "greta", "2025-03-03"),
    (139, "Colour-blind safe chart palette", "To do", "Medium", "ines", "design", "2.5 Gull", "ines", "2025-03-05"),
    (140, "Staging certificate ends on 21 March", "To do", "High", "tomas", "security", "2.4 Ferry", "greta", "2025-03-07"),
)  # fmt: skip
_TEXTS = {
    102: "Accounting wants the invoices of a month as one CSV file: number, date, customer, net, tax, total.",
    104: "On accounts with more than 200 projects the dashboard takes 9 seconds. The target is under 2 seconds.",
    108: "A token from 2023 still works. The specification says how long a session may live; see the attached file.",
    114: "In March the date picker opens on February. Steps: open a reminder, click the date.",
    126: "Sorting the table by total puts 1,200 before 300. Looks like the numbers are compared as text.",
    128: "Exporting 50,000 rows takes 3.1 GB. Reproduced on staging with the sample account.",
    138: "Since the deploy of 2 March every notification is delivered twice. Restarting the worker does not help.",
}
_COMMENTS = {
    102: [("tomas", "2025-02-20", "The columns are done, the tax column is still missing."), ("maya", "2025-02-21", "Please use a semicolon as the separator.")],
    104: [("tomas", "2025-02-25", "Down to 1.6 seconds on staging with the new index."), ("greta", "2025-02-27", "Measured 1.7 seconds. Fine with me."), ("maya", "2025-03-03", "Great! Who can review it this week?")],
    108: [("greta", "2025-01-17", "Same for tokens of deleted users."), ("tomas", "2025-03-04", "Expiry is in, revocation is still to do.")],
    126: [("ravi", "2025-03-06", "Fixed by comparing numbers. Ready for review.")],
    128: [("tomas", "2025-03-02", "The rows are kept twice. Streaming them should bring it below 200 MB.")],
    138: [("ravi", "2025-03-04", "The queue has two consumers since the deploy."), ("greta", "2025-03-05", "Customers have begun to complain: 14 tickets so far.")],
}  # fmt: skip
_FILES = {108: "session-policy.txt", 112: "contrast-report.txt"}
FILES = {
    "session-policy.txt": "Session policy, version 3\n\nA session ends after 12 hours without use.\nA session ends "
    "after 14 days in any case.\nA password change ends all sessions.",
    "contrast-report.txt": "Contrast report\n\nPrimary button: 3.9 to 1\nDanger button: 4.1 to 1\nQuiet button: 5.2 to 1",
}


@functools.cache
def _shipped() -> tuple[Issue, ...]:
    return tuple(
        Issue(
            number, title, status, priority, assignee, labels.split(), milestone, reporter, created,
            _TEXTS.get(number, f"{title}. Reported by {PEOPLE[reporter].name}."),
            [Comment(*comment) for comment in _COMMENTS.get(number, ())],
            _FILES.get(number, ""),
        )
        for number, title, status, priority, assignee, labels, milestone, reporter, created in _ISSUES
    )  # fmt: skip


def begin_issues() -> dict[int, Issue]:
    return {issue.number: copy.deepcopy(issue) for issue in _shipped()}


@dataclass
class Settings:
    name: str = ""
    digest: str = "weekly"
    on_mention: bool = True
    on_assign: bool = True
    on_comment: bool = False
    timezone: str = "UTC"


@dataclass
class State:
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
