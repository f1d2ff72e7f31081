"""The pages and forms of the tracker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from rollout.examples.web.serving import Visitors, make_application, number_of, read_form, redirect
from rollout.examples.web.tracker import views
from rollout.examples.web.tracker.issues import (
    FILES,
    LABELS,
    MILESTONES,
    PEOPLE,
    PRIORITIES,
    STATUSES,
    TrackerState,
    matching,
)

_FILTERS = ("q", "status", "priority", "label", "milestone", "assignee", "sort")
_Signed = Callable[[web.Request, TrackerState], Awaitable[web.Response]]


def make_app() -> web.Application:
    """The tracker, with no one signed in."""
    tracker = Tracker()
    pages: list[tuple[str, str, _Signed]] = [
        ("GET", "/", tracker.board),
        ("GET", "/issues", tracker.issues),
        ("GET", "/issues/new", tracker.new_issue),
        ("POST", "/issues/new", tracker.create),
        ("GET", r"/issues/{number:\d+}", tracker.issue),
        ("POST", r"/issues/{number:\d+}", tracker.change),
        ("POST", r"/issues/{number:\d+}/close", tracker.close),
        ("POST", r"/issues/{number:\d+}/comments", tracker.comment),
        ("POST", r"/issues/{number:\d+}/comments/{place:\d+}/delete", tracker.delete_comment),
        ("GET", "/milestones", tracker.milestones),
        ("GET", "/people", tracker.people),
        ("GET", "/settings", tracker.settings),
        ("POST", "/settings/profile", tracker.save_profile),
        ("POST", "/settings/notifications", tracker.save_notifications),
        ("GET", "/files/{name}", tracker.file),
        ("POST", "/logout", tracker.logout),
    ]
    routes = [(method, path, tracker.signed_in(handler)) for method, path, handler in pages]
    return make_application(
        [("GET", "/login", tracker.login), ("POST", "/login", tracker.sign_in), *routes], "tracker", tracker.missing
    )


class Tracker:
    """Handlers, and the visitors they serve."""

    def __init__(self) -> None:
        self._visitors = Visitors(TrackerState)

    def signed_in(self, handler: _Signed) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The handler for who is signed in; anybody else is asked to sign in."""

        async def checked(request: web.Request) -> web.Response:
            state = self._visitors.of(request)
            return redirect("/login") if state.person is None else await handler(request, state)

        return checked

    async def login(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        return redirect("/") if state.person else views.login(state, "", {})

    async def sign_in(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        form = await read_form(request)
        email = form.get("email", "").lower()
        person = next((person for person in PEOPLE.values() if person.email == email), None)
        if person is None or person.password != form.get("password"):
            return views.login(state, email, {"password": "Email or password is wrong."})
        state.person = person
        state.notices.append(("good", f"Welcome back, {state.settings[person.key].name}."))
        return redirect("/")

    async def logout(self, request: web.Request, state: TrackerState) -> web.Response:
        state.person = None
        state.notices.append(("good", "You are signed out."))
        return redirect("/login")

    # ---- issues -------------------------------------------------------------------------------------------------

    async def board(self, request: web.Request, state: TrackerState) -> web.Response:
        milestone = request.query.get("milestone", next(iter(MILESTONES)))
        issues = [issue for issue in state.issues.values() if milestone in ("all", issue.milestone)]
        return views.board(state, issues, milestone)

    async def issues(self, request: web.Request, state: TrackerState) -> web.Response:
        wanted = {name: request.query.get(name, "").strip() for name in _FILTERS}
        number = number_of(request.query.get("page", ""), 1, 1, 999)
        return views.issue_list(state, matching(state.issues.values(), wanted), wanted, number)

    async def issue(self, request: web.Request, state: TrackerState) -> web.Response:
        issue = state.issues.get(int(request.match_info["number"]))
        return views.issue_page(state, issue) if issue else await self.missing(request)

    async def change(self, request: web.Request, state: TrackerState) -> web.Response:
        issue = state.issues.get(int(request.match_info["number"]))
        if issue is None:
            return await self.missing(request)
        form = await request.post()
        status, priority = str(form.get("status", "")), str(form.get("priority", ""))
        assignee, milestone = str(form.get("assignee", "")), str(form.get("milestone", ""))
        if status == "Done" and assignee not in PEOPLE:
            state.notices.append(("bad", "An issue without an assignee cannot be done. Choose one first."))
            return redirect(f"/issues/{issue.number}")
        if status in STATUSES and priority in PRIORITIES:
            issue.status, issue.priority = status, priority
            issue.assignee = assignee if assignee in PEOPLE else ""
            issue.milestone = milestone if milestone in MILESTONES else ""
            issue.labels = [label for label in LABELS if label in form.getall("label", [])]
            state.notices.append(("good", f"LUM-{issue.number} was changed."))
        return redirect(f"/issues/{issue.number}")

    async def close(self, request: web.Request, state: TrackerState) -> web.Response:
        issue = state.issues.get(int(request.match_info["number"]))
        if issue is None:
            return await self.missing(request)
        if issue.assignee:
            issue.status = "Done"
            state.notices.append(("good", f"LUM-{issue.number} was closed."))
        else:
            state.notices.append(("bad", "An issue without an assignee cannot be done. Choose one first."))
        return redirect(f"/issues/{issue.number}")

    async def comment(self, request: web.Request, state: TrackerState) -> web.Response:
        issue = state.issues.get(int(request.match_info["number"]))
        if issue is None:
            return await self.missing(request)
        text = (await read_form(request)).get("text", "")
        if text:
            state.comment(issue, text)
            state.notices.append(("good", "Your comment was added."))
        else:
            state.notices.append(("bad", "A comment cannot be empty."))
        return redirect(f"/issues/{issue.number}")

    async def delete_comment(self, request: web.Request, state: TrackerState) -> web.Response:
        issue = state.issues.get(int(request.match_info["number"]))
        place = int(request.match_info["place"])
        if issue is None or place >= len(issue.comments) or state.person is None:
            return await self.missing(request)
        if issue.comments[place].author == state.person.key:
            del issue.comments[place]
            state.notices.append(("good", "The comment was deleted."))
        return redirect(f"/issues/{issue.number}")

    async def new_issue(self, request: web.Request, state: TrackerState) -> web.Response:
        return views.new_issue(state, {}, [], {})

    async def create(self, request: web.Request, state: TrackerState) -> web.Response:
        form = await read_form(request)
        labels = [label for label in LABELS if label in (await request.post()).getall("label", [])]
        errors = {}
        if not 10 <= len(form.get("title", "")) <= 80:
            errors["title"] = "The title must have 10 to 80 characters."
        if not form.get("text"):
            errors["text"] = "Please describe the issue."
        if form.get("priority") not in PRIORITIES:
            errors["priority"] = "Please choose a priority."
        if not labels:
            errors["label"] = "Please choose at least one label."
        if errors:
            return views.new_issue(state, form, labels, errors)
        issue = state.create(form, labels)
        if issue is None:
            return redirect("/issues")
        state.notices.append(("good", f"LUM-{issue.number} was created."))
        return redirect(f"/issues/{issue.number}")

    # ---- the rest -----------------------------------------------------------------------------------------------

    async def milestones(self, request: web.Request, state: TrackerState) -> web.Response:
        return views.milestones(state)

    async def people(self, request: web.Request, state: TrackerState) -> web.Response:
        return views.people(state)

    async def settings(self, request: web.Request, state: TrackerState) -> web.Response:
        return views.settings(state, {}, {}, request.query.get("tab") == "notifications")

    async def save_profile(self, request: web.Request, state: TrackerState) -> web.Response:
        assert state.person is not None
        form = await read_form(request)
        if not 2 <= len(form.get("name", "")) <= 40:
            return views.settings(state, {"name": "The name must have 2 to 40 characters."}, form, False)
        mine = state.settings[state.person.key]
        mine.name, mine.timezone = form["name"], form.get("timezone", mine.timezone)
        state.notices.append(("good", "Your profile was saved."))
        return redirect("/settings")

    async def save_notifications(self, request: web.Request, state: TrackerState) -> web.Response:
        assert state.person is not None
        form = await read_form(request)
        mine = state.settings[state.person.key]
        mine.on_mention, mine.on_assign = bool(form.get("on_mention")), bool(form.get("on_assign"))
        mine.on_comment = bool(form.get("on_comment"))
        mine.digest = form.get("digest", "") if form.get("digest") in ("never", "daily", "weekly") else mine.digest
        state.notices.append(("good", "Your notifications were saved."))
        return redirect("/settings?tab=notifications")

    async def file(self, request: web.Request, state: TrackerState) -> web.Response:
        name = request.match_info["name"]
        return views.file(state, name) if name in FILES else await self.missing(request)

    async def missing(self, request: web.Request) -> web.Response:
        return views.missing(self._visitors.of(request))
