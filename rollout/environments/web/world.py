"""A browser context as a world: the agent's calls are actions on its pages, and their results show the page.

The task's `info["start_url"]` (or `website`, as in task files of earlier tools) is the page it begins at; `hosts` and
`private_hosts` there extend the hosts that the settings let pages reach.

A step that goes wrong costs its own episode only, and each has an end. Where the browser or the page's renderer dies
or does not answer in `step_timeout`, the context is replaced. Then `navigate` and `wait`, which need nothing of the
lost page, are repeated. After any other action the last page is loaded again and the result is an error observation
that says so, because what was typed, and the site's cookies, are gone. The fourth loss ends the episode.

Calls of one message run in order; only the last is observed, so that the numbers of elements that the model saw hold
for all of them. An observation carries its data (`ToolResult.data`) beside the text: see
`rollout.environments.web.observe`. Such a world has no snapshots: it is restored by replaying its calls.

A world of one known site extends this class by `before_pages`, `after_visit` and `after_step`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urljoin

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError, NavigationError, WorldError
from rollout.core.messages import Message, ToolResult, Toolset
from rollout.core.results import error_text, failed_result
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.web.actions import ActionFault, act, checked_url, goto, pause, toolset_of
from rollout.environments.web.browsers import BrowserPool, Lease
from rollout.environments.web.egress import Egress, egress_of
from rollout.environments.web.inspection import Finding, Probe, look_into
from rollout.environments.web.observe import Observation, Seen, shown_page
from rollout.environments.web.page import PageLost
from rollout.environments.web.session import BrowserSession
from rollout.environments.web.sites import Sites

MAX_LOSSES = 3
REPEATABLE = frozenset({"navigate", "wait"})


class BrowserWorld(World):
    """One episode's context of a pool."""

    def __init__(
        self, pool: BrowserPool, settings: WebSettings, sites: Sites | None = None, toolset: Toolset | None = None
    ) -> None:
        """`sites`: those that are served for this world's pages. `toolset`: what is offered, where it is not all that
        there is in the mode."""
        self.answer: str | None = None
        """What the agent answered; None as long as it has not."""
        self.is_done = False
        """Whether the world is over by itself, as a game that was won: `after_step` said so."""
        self._pool = pool
        self._settings = settings
        self._sites = sites
        self._toolset = toolset or toolset_of(settings)
        self._egress = Egress()
        self._lease: Lease | None = None
        self._session: BrowserSession | None = None
        self._start = self._url = "about:blank"
        self._losses = 0

    async def open(self, task: Task, seed: int) -> Opening:
        """Show the task's start page.

        Raises ConfigError where it has none, NavigationError where it cannot be shown, WorldError where the browser is
        lost again and again.
        """
        url = self._start = start_url(task)
        try:
            self._egress = egress_of(
                url,
                (*self._settings.hosts, *task.info.get("hosts", ())),
                (*self._settings.private_hosts, *task.info.get("private_hosts", ())),
                await self._sites.routes() if self._sites is not None else {},
            )
        except ConfigError as error:
            raise ConfigError(f"task {task.id}: {error}") from None
        self._lease = await self._pool.lease(self._settings)
        tries = 0
        while True:
            lease = self._lease
            try:
                async with self._turn(self._settings.open_timeout):
                    observation = await self._visit(url)
                break
            except ActionFault as fault:
                text = f"task {task.id}: the start page cannot be shown: {fault}"
                raise NavigationError(text, transient=True) from None
            except _losses() as error:
                await self._replace()
                # A browser that was lost says nothing of the page; those are counted by themselves.
                tries += not lease.lost.is_set()
                if tries == 2:
                    text = f"task {task.id}: the start page {url} cannot be shown: {error or 'no answer in time'}"
                    raise NavigationError(text, transient=True) from error
        page = shown_page(observation, self._settings)
        images = tuple(image.name for image in observation.images)
        message = Message(role="user", content=page.describe(), images=images)
        return Opening(self._toolset, message, observation.images, page.to_data())

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        results = []
        for place, call in enumerate(calls):
            if self.is_done:
                results.append(failed_result(call.call_id, "tool", "the work is over; this was not done any more"))
            elif call.name == "answer":
                results.append(self._take_answer(call))
            elif self.answer is not None:
                results.append(failed_result(call.call_id, "tool", "the answer was given; the work is over"))
            else:
                is_last = not any(later.name != "answer" for later in calls[place + 1 :])
                results.append(await self._step(call, is_last))
        return results

    async def snapshot(self) -> Snapshot | None:
        return None

    async def restore(self, snapshot: Snapshot) -> None:
        raise WorldError("a world of browsers has no snapshots to restore")

    async def state_key(self) -> str:
        """A hash of address and document: texts, roles, links, values of fields; and of the answer."""
        session = self._opened()
        try:
            async with self._turn(self._settings.step_timeout):
                seen = await session.settle()
                digest = await session.active.digest()
        except _losses() as error:
            raise WorldError(f"the state of {self._url} cannot be told: {error}", transient=True) from error
        told = f"{seen.url}\n{digest}\n{self.answer!r}"
        return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest()

    async def inspect(self, probes: Sequence[Probe], url: str | None = None) -> list[Finding]:
        """Find out about the page that the agent left, or about the one at `url`, an address or a path of the site.

        That one is opened in the same context in a tab of its own, which the agent never sees. Raises WorldError where
        the page cannot be shown or says that it is broken (a status of 500 and above, or 429).
        """
        session = self._opened()
        target = self._url if url is None else urljoin(self._start, url)
        try:
            async with self._turn(self._settings.step_timeout):
                if url is None:
                    tab = await session.settle_active()
                    return [await look_into(tab, probe) for probe in probes]
                async with session.open_apart(target) as (tab, response):
                    if response is not None and (response.status >= 500 or response.status == 429):
                        raise WorldError(f"{target} cannot be inspected: its status is {response.status}")
                    return [await look_into(tab, probe) for probe in probes]
        except _losses() as error:
            is_late = type(error) is TimeoutError
            why = f"no answer within {self._settings.step_timeout:g} s" if is_late else str(error).partition("\n")[0]
            raise WorldError(f"{target} cannot be inspected: {session.fault_of(target) or why}") from error

    async def close(self) -> None:
        session, self._session = self._session, None
        lease, self._lease = self._lease, None
        try:
            if session is not None:
                await session.close()
        finally:
            if lease is not None:
                await lease.release()

    # ---- what a world of one known site may do besides ----------------------------------------------------------

    async def before_pages(self, session: BrowserSession) -> None:
        """In each new context, before its first page is opened."""

    async def after_visit(self, session: BrowserSession) -> None:
        """When the start page has begun to load, or after a loss the last page again; before it is observed."""

    async def after_step(self, session: BrowserSession) -> str | None:
        """After an action, when the page has been observed. Returns the note that says why the world is over; None
        where it goes on."""
        return None

    # ---- a step -------------------------------------------------------------------------------------------------

    def _take_answer(self, call: Invocation) -> ToolResult:
        if self.answer is not None:
            return failed_result(call.call_id, "tool", "an answer was given already; the first one counts")
        self.answer = call.arguments["text"]
        return ToolResult(call.call_id, "The answer was taken down. The work is over.", end="answered")

    @contextlib.asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncIterator[None]:
        """A turn of the pool, and a bound for what is done in it. Waiting for the turn is not in the bound."""
        async with self._pool.turn(), asyncio.timeout(seconds):
            yield

    async def _step(self, call: Invocation, is_last: bool) -> ToolResult:
        session = self._opened()
        session.begin_step()
        if call.name == "wait":
            await pause(session, call.arguments)  # without a turn: the page does nothing for us meanwhile
        try:
            async with self._turn(self._settings.step_timeout):
                return await self._act(call, is_last)
        except _losses() as error:
            is_late = type(error) is TimeoutError
            why = (
                f"the page did not respond within {self._settings.step_timeout:g} s" if is_late else "the page was lost"
            )
            return await self._step_again(call, is_last, why)

    async def _act(self, call: Invocation, is_last: bool) -> ToolResult:
        session = self._opened()
        fault: ActionFault | None = None
        try:
            await act(session, call)
        except ActionFault as error:
            fault = error
            if not fault.has_moved:
                return failed_result(call.call_id, fault.kind, f"{call.name}: {fault}.")
        if fault is None and not is_last:
            seen = await session.settle()
            session.note_faults()
            self._keep_url(seen)
            over = await self.after_step(session)
            done = f"Done. URL: {seen.url}"
            result = ToolResult(call.call_id, done if over is None else f"{over}\n{done}")
        else:
            observation = await self._observe(session)
            over = await self.after_step(session)
            if over is not None:
                observation = msgspec.structs.replace(observation, notes=(over, *observation.notes))
            if fault is None:
                result = self._show(call, observation)
            else:
                result = self._show(call, observation, f"{call.name}: {fault}", fault.kind)
        if over is None:
            return result
        self.is_done = True
        return msgspec.structs.replace(result, end="world_done")

    async def _step_again(self, call: Invocation, is_last: bool, why: str) -> ToolResult:
        """After a loss: on a new context, the step again, or the last page and an error observation."""
        await self._replace()
        if call.name in REPEATABLE:
            try:
                async with self._turn(self._settings.step_timeout):
                    await (self._begin() if call.name == "navigate" else self._visit(self._url))
                    return await self._act(call, is_last)
            except ActionFault:
                pass  # the page is not there any more: told below
            except _losses():
                await self._replace()
        text = f"{call.name}: {why}, and the browser was replaced. "
        for url in dict.fromkeys((self._url, "about:blank")):
            try:
                async with self._turn(self._settings.step_timeout):
                    observation = await self._visit(url)
            except ActionFault as fault:
                text += f"The page could not be loaded again: {fault} "
            except _losses():
                text += f"{url} could not be loaded again. "
                await self._replace()
            else:
                is_empty = url == "about:blank"
                text += (
                    "This is an empty page: navigate to go on."
                    if is_empty
                    else "The page was loaded again; what was typed and the site's cookies are gone."
                )
                return self._show(call, observation, text, "crash")
        raise WorldError(f"{call.name}: {why}, and no page can be shown any more", transient=True)

    def _show(
        self, call: Invocation, observation: Observation, error: str | None = None, kind: str | None = None
    ) -> ToolResult:
        """The page as a result; with an error, what went wrong and below it where the agent is now."""
        if error is None or kind is None:
            page = shown_page(observation, self._settings)
            return ToolResult(call.call_id, page.describe(), images=observation.images, data=page.to_data())
        page = shown_page(observation, self._settings, error_text(error))
        failed = failed_result(call.call_id, kind, error)
        content = f"{failed.content}\n{page.describe()}"
        return msgspec.structs.replace(failed, content=content, images=observation.images, data=page.to_data())

    async def _visit(self, url: str) -> Observation:
        session = self._session or await self._begin()
        session.begin_step()
        if url != "about:blank":
            await goto(session, url)
            await self.after_visit(session)
        return await self._observe(session)

    async def _begin(self) -> BrowserSession:
        """A session on the lease as it is now."""
        assert self._lease is not None
        self._lease.proxy.egress = self._egress
        session = BrowserSession(self._lease, self._settings)
        await session.open()
        await self.before_pages(session)
        self._session = session
        return session

    async def _observe(self, session: BrowserSession) -> Observation:
        observation = await session.observe()
        self._keep_url(observation.seen)
        return observation

    def _keep_url(self, seen: Seen) -> None:
        if seen.url.startswith(("http://", "https://")):
            self._url = seen.url

    async def _replace(self) -> None:
        """Another context instead of the lost one. Raises WorldError after too many losses."""
        self._losses += 1
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        lease, self._lease = self._lease, None
        assert lease is not None
        if self._losses > MAX_LOSSES:
            await lease.release()
            raise WorldError(f"{self._url}: the browser was lost {self._losses} times", transient=True)
        self._lease = await self._pool.replace(lease)

    def _opened(self) -> BrowserSession:
        if self._session is None:
            raise WorldError("the world is not open")
        return self._session


def start_url(task: Task) -> str:
    """The page a task begins at."""
    for key in ("start_url", "website"):
        given = task.info.get(key)
        if given is None:
            continue
        try:
            return checked_url(str(given))
        except ActionFault:
            raise ConfigError(f"task {task.id}: {key} {given!r} is not an address; expected https://…") from None
    raise ConfigError(f"task {task.id}: it has no start page; expected start_url in its task_info")


def _losses() -> tuple[type[Exception], ...]:
    """What tells that a page, or all of its browser, is gone or hangs."""
    from playwright.async_api import Error

    return (PageLost, Error, TimeoutError)
