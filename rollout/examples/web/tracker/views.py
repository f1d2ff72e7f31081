"""The pages of the tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import web

from rollout.examples.web.hypertext import (
    Child,
    Errors,
    Html,
    button,
    choice,
    el,
    faults,
    pager,
    post,
    table,
    tabs,
    text_area,
    text_field,
    tick,
)
from rollout.examples.web.serving import TODAY, Frame, take_notices
from rollout.examples.web.tracker.issues import (
    FILES,
    LABELS,
    MILESTONES,
    PEOPLE,
    PRIORITIES,
    STATUSES,
    Issue,
    TrackerState,
    name_of,
)

PAGE_SIZE = 10
FRAME = Frame("Lumen")


def page(state: TrackerState, title: str, *body: Child, status: int = 200) -> web.Response:
    header: Child = el("div", el("a", "Lumen", href="/", class_="brand"), class_="bar")
    if state.person:
        menu = el(
            "details",
            el("summary", state.settings[state.person.key].name),
            el(
                "div",
                el("p", state.person.role, class_="quiet"),
                el("a", "Settings", href="/settings"),
                post("/logout", button("Sign out", kind="quiet small")),
            ),
            class_="menu",
        )
        header = el(
            "div",
            el("a", "Lumen", href="/", class_="brand"),
            el(
                "nav",
                el("a", "Board", href="/"),
                el("a", "Issues", href="/issues"),
                el("a", "Milestones", href="/milestones"),
                el("a", "People", href="/people"),
                el("a", "New issue", href="/issues/new", class_="button small", style="color:#fff"),
                menu,
            ),
            class_="bar",
        )
    footer = f"Lumen, the tracker of a small team. Today is {TODAY.isoformat()}."
    return FRAME.page(title, take_notices(state.notices), *body, header=header, footer=footer, status=status)


def login(state: TrackerState, email: str, errors: Errors) -> web.Response:
    form = post(
        "/login",
        el("h1", "Sign in"),
        faults(errors),
        text_field("email", "Email", email, errors, autocomplete="off"),
        text_field("password", "Password", "", errors, kind="password"),
        button("Sign in"),
        class_="card login",
    )
    return page(state, "Sign in", form, status=401 if errors else 200)


def _priority(issue: Issue) -> Html:
    return el("span", issue.priority, class_=f"tag p-{issue.priority}")


def _who(key: str) -> Html | None:
    if key not in PEOPLE:
        return None
    initials = "".join(part[0] for part in PEOPLE[key].name.split())
    return el("span", initials, class_="who", title=PEOPLE[key].name)


def _link(issue: Issue) -> Html:
    return el("a", f"LUM-{issue.number} {issue.title}", href=f"/issues/{issue.number}")


def board(state: TrackerState, issues: Sequence[Issue], milestone: str) -> web.Response:
    lanes = []
    for status in STATUSES:
        mine = sorted(
            (issue for issue in issues if issue.status == status),
            key=lambda issue: (PRIORITIES.index(issue.priority), issue.number),
        )
        cards = [
            el("div", _link(issue), el("div", _priority(issue), _who(issue.assignee), class_="spread"), class_="card")
            for issue in mine
        ]
        lanes.append(el("section", el("h2", f"{status} ({len(mine)})"), cards, class_="lane"))
    options = [*((name, name) for name in MILESTONES), ("all", "All milestones")]
    chooser = el("form", choice("milestone", "Milestone", options, milestone, submits=True), action="/")
    return page(
        state, "Board", el("div", el("h1", "Board"), chooser, class_="spread"), el("div", lanes, class_="board")
    )


def issue_list(state: TrackerState, found: Sequence[Issue], wanted: Mapping[str, str], number: int) -> web.Response:
    def pick(name: str, label: str, values: Sequence[str]) -> Html:
        return choice(name, label, [("", "Any"), *((value, value) for value in values)], wanted.get(name, ""))

    people = [("", "Anybody"), ("nobody", "Nobody"), *((person.key, person.name) for person in PEOPLE.values())]
    sorts = [("", "Newest"), ("oldest", "Oldest"), ("priority", "Priority"), ("comments", "Most comments")]
    filters = el(
        "form",
        text_field("q", "Search issues", wanted.get("q", ""), kind="search"),
        pick("status", "Status", STATUSES),
        pick("priority", "Priority", PRIORITIES),
        pick("label", "Label", LABELS),
        pick("milestone", "Milestone", tuple(MILESTONES)),
        choice("assignee", "Assignee", people, wanted.get("assignee", "")),
        choice("sort", "Sort by", sorts, wanted.get("sort", "")),
        button("Filter"),
        action="/issues",
        class_="card filters",
    )
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(number, pages)
    rows = [
        (
            _link(issue),
            el("span", issue.status, class_="tag good" if issue.status == "Done" else "tag"),
            _priority(issue),
            name_of(issue.assignee),
            issue.created,
            str(len(issue.comments)),
        )
        for issue in found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    ]
    heads = ["Issue", "Status", "Priority", "Assignee", "Created", "Comments"]
    body = [
        el("h1", "Issues"),
        filters,
        el("p", f"{len(found)} issue{'' if len(found) == 1 else 's'}", class_="quiet"),
        table(heads, rows) if rows else el("p", "No issue fits."),
        pager(number, pages, {"": "/issues", **wanted}),
    ]
    return page(state, "Issues", *body)


def issue_page(state: TrackerState, issue: Issue) -> web.Response:
    people = [("", "Nobody"), *((person.key, person.name) for person in PEOPLE.values())]
    milestones = [("", "None"), *((name, name) for name in MILESTONES)]
    fields = post(
        f"/issues/{issue.number}",
        choice("status", "Status", [(name, name) for name in STATUSES], issue.status),
        choice("priority", "Priority", [(name, name) for name in PRIORITIES], issue.priority),
        choice("assignee", "Assignee", people, issue.assignee),
        choice("milestone", "Milestone", milestones, issue.milestone),
        el(
            "div",
            el("strong", "Labels"),
            [tick("label", name, name in issue.labels, value=name) for name in LABELS],
            class_="field",
        ),
        button("Save changes"),
        class_="card",
    )
    comments = [
        el(
            "div",
            el("strong", name_of(comment.author)),
            el("span", f" on {comment.date}", class_="quiet"),
            el("p", comment.text),
            post(
                f"/issues/{issue.number}/comments/{place}/delete",
                button("Delete comment", kind="danger small"),
                confirm="Delete this comment?",
            )
            if state.person and comment.author == state.person.key
            else None,
            class_="comment",
        )
        for place, comment in enumerate(issue.comments)
    ]
    attached = None
    if issue.file:
        attached = el("p", "Attached: ", el("a", issue.file, href=f"/files/{issue.file}", target="_blank"))
    closing = None
    if issue.status != "Done":
        closing = post(
            f"/issues/{issue.number}/close",
            button("Close issue", kind="quiet"),
            confirm=f"Close LUM-{issue.number}? It will be moved to Done.",
        )
    return page(
        state,
        f"LUM-{issue.number} {issue.title}",
        el("div", el("a", "Issues", href="/issues"), f" / LUM-{issue.number}", class_="crumbs"),
        el("h1", issue.title),
        el(
            "div",
            el(
                "div",
                el(
                    "div",
                    el("p", issue.text),
                    attached,
                    el("p", f"Reported by {name_of(issue.reporter)} on {issue.created}", class_="quiet"),
                    class_="card",
                ),
                el("h2", f"Comments ({len(issue.comments)})"),
                comments,
                post(f"/issues/{issue.number}/comments", text_area("text", "Add a comment", rows=3), button("Comment")),
            ),
            el("aside", fields, closing),
            class_="split right",
        ),
    )


def new_issue(state: TrackerState, values: Mapping[str, str], labels: Sequence[str], errors: Errors) -> web.Response:
    people = [("", "Nobody"), *((person.key, person.name) for person in PEOPLE.values())]
    form = post(
        "/issues/new",
        faults(errors),
        text_field("title", "Title", values.get("title", ""), errors, hint="10 to 80 characters"),
        text_area("text", "Description", values.get("text", ""), errors, rows=4),
        el(
            "div",
            choice(
                "priority",
                "Priority",
                [("", "Choose…"), *((name, name) for name in PRIORITIES)],
                values.get("priority", ""),
                errors,
            ),
            choice("assignee", "Assignee", people, values.get("assignee", "")),
            choice(
                "milestone",
                "Milestone",
                [("", "None"), *((name, name) for name in MILESTONES)],
                values.get("milestone", ""),
            ),
            class_="row",
        ),
        el(
            "div",
            el("strong", "Labels"),
            el("div", [tick("label", name, name in labels, value=name) for name in LABELS], class_="row"),
            class_="field",
        ),
        el("p", errors["label"], class_="fault") if "label" in errors else None,
        el("div", button("Create issue"), el("a", "Cancel", href="/issues"), class_="actions"),
        class_="card",
    )
    return page(state, "New issue", el("h1", "New issue"), form)


def milestones(state: TrackerState) -> web.Response:
    cards = []
    for name, due in MILESTONES.items():
        mine = [issue for issue in state.issues.values() if issue.milestone == name]
        done = sum(issue.status == "Done" for issue in mine)
        urgent = sum(issue.priority == "Urgent" and issue.status != "Done" for issue in mine)
        cards.append(
            el(
                "div",
                el("h3", name),
                el("p", f"Due {due}. {done} of {len(mine)} issues done, {urgent} urgent open.", class_="quiet"),
                el("progress", value=done, max=max(1, len(mine)), aria_label=f"Progress of {name}"),
                el("p", el("a", f"Issues of {name}", href=f"/issues?milestone={name}")),
                class_="card",
            )
        )
    return page(state, "Milestones", el("h1", "Milestones"), cards)


def people(state: TrackerState) -> web.Response:
    rows = []
    for person in PEOPLE.values():
        mine = [issue for issue in state.issues.values() if issue.assignee == person.key and issue.status != "Done"]
        link = el("a", f"{len(mine)} open", href=f"/issues?assignee={person.key}")
        rows.append((person.name, person.role, el("span", person.email), link))
    return page(state, "People", el("h1", "People"), table(["Name", "Role", "Email", "Issues"], rows, sortable=True))


def settings(state: TrackerState, errors: Errors, values: Mapping[str, str], is_second: bool) -> web.Response:
    assert state.person is not None
    mine = state.settings[state.person.key]
    zones = [(name, name) for name in ("UTC", "Europe/Lisbon", "Europe/Stockholm", "America/Toronto", "Asia/Kolkata")]
    panels = {
        "Profile": post(
            "/settings/profile",
            faults(errors),
            text_field("name", "Display name", values.get("name", mine.name), errors),
            choice("timezone", "Time zone", zones, mine.timezone),
            button("Save profile"),
        ),
        "Notifications": post(
            "/settings/notifications",
            tick("on_mention", "When somebody mentions me", mine.on_mention),
            tick("on_assign", "When an issue is assigned to me", mine.on_assign),
            tick("on_comment", "On every comment to my issues", mine.on_comment),
            el("strong", "Summary by mail"),
            [
                tick("digest", name.capitalize(), mine.digest == name, value=name, kind="radio")
                for name in ("never", "daily", "weekly")
            ],
            button("Save notifications"),
        ),
        "Shortcuts": table(["Key", "What it does"], [("C", "New issue"), ("G then B", "Board"), ("/", "Search")]),
    }
    card = el("div", tabs(panels, "Notifications" if is_second else "Profile"), class_="card")
    return page(state, "Settings", el("h1", "Settings"), card)


def file(state: TrackerState, name: str) -> web.Response:
    lines = [el("p", line) for line in FILES[name].splitlines() if line]
    return page(state, name, el("h1", name), el("div", lines, class_="card"))


def missing(state: TrackerState) -> web.Response:
    return page(state, "Not found", el("h1", "Not found"), el("p", el("a", "To the board", href="/")), status=404)
