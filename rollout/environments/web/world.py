"""A browser context as a world: the agent's calls are actions on its pages, and their results show the page.

The task's `info["start_url"]` (or `website`, as in task files of earlier tools) is the page it begins at; `hosts` and
`private_hosts` there extend the hosts that the settings let pages reach. `files` are what the agent may upload.

A step that goes wrong costs its own episode only, and each step has a bound. Where the browser, the page's renderer or
the process with the cookies dies, the context is lost. It is brought back like a resumed episode: the start page is
opened in a new context, the calls so far are made again, and every result is compared with the earlier one
(`rollout.environments.web.history`). Where a result differs, `ReplayMismatch` ends the attempt, and the engine starts
it again. The fourth loss ends the episode with a `WorldError`. No loss becomes an observation, let alone a score.

A page whose own script does not end is no loss: the script is stopped, and the agent reads that.
docs/design/browsers.md says why.

Calls of one message run in order; only the last is observed, so that the numbers of elements that the model saw hold
for all of them. An observation carries its data (`ToolResult.data`) beside the text: see
`rollout.environments.web.observe`. Such a world has no snapshots: it is restored by replaying its calls.

A world of one known site extends this class by `before_pages`, `after_visit` and `after_step`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError, NavigationError, WorldError
from rollout.core.messages import Message, ToolResult, Toolset
from rollout.core.results import error_text, failed_result, well_formed
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.web.actions import FULL_TEXT, act, toolset_of
from rollout.environments.web.browsers import BrowserPool, Lease
from rollout.environments.web.egress import Egress, egress_of
from rollout.environments.web.files import UploadFile, read_files
from rollout.environments.web.history import History, Past
from rollout.environments.web.inspection import Finding, Probe, look_into
from rollout.environments.web.interaction import ActionFault, checked_url, goto, pause
from rollout.environments.web.observe import Observation, Seen, ShownPage, shown_page
from rollout.environments.web.page import PageLost
from rollout.environments.web.session import BrowserSession
from rollout.environments.web.sites import Sites

if TYPE_CHECKING:
    from playwright.async_api import Page

log = logging.getLogger(__name__)
MAX_LOSSES = 3
ANSWER_TIMEOUT = 3.0
"""Seconds in which a page that is not busy answers a question."""
T = TypeVar("T")


class ContextLost(Exception):
    """The context is gone, or nothing can be asked of it any more. The text says what happened."""


class BrowserWorld(World):
    """One episode's context of a pool."""

    def __init__(
        self,
        pool: BrowserPool,
        settings: WebSettings,
        sites: Sites | None = None,
        toolset: Toolset | None = None,
        irreversible: Collection[str] = (),
    ) -> None:
        """`sites`: those that are served for this world's pages. `toolset`: what is offered, where it is not all that
        there is in the mode. `irreversible`: tools that are never called again to bring a lost context back."""
        self.answer: str | None = None
        """What the agent answered; None as long as it has not."""
        self.is_done = False
        """Whether the world is over by itself, as a game that was won: `after_step` said so."""
        self._pool = pool
        self._settings = settings
        self._sites = sites
        self._toolset = toolset or toolset_of(settings)
        self._egress = Egress()
        self._files: dict[str, UploadFile] = {}
        self._lease: Lease | None = None
        self._session: BrowserSession | None = None
        self._start = self._url = "about:blank"
        self._history = History(irreversible)
        self._losses = 0
        self._clock: asyncio.Timeout | None = None
        """That of the turn under way."""

    async def open(self, task: Task, seed: int) -> Opening:
        """Show the task's start page.

        Raises ConfigError where it has none, NavigationError where it cannot be shown, WorldError where the browser is
        lost too often.
        """
        url = self._start = start_url(task)
        try:
            self._egress = egress_of(
                url,
                (*self._settings.hosts, *_hosts(task, "hosts")),
                (*self._settings.private_hosts, *_hosts(task, "private_hosts")),
                await self._sites.routes() if self._sites is not None else {},
                any_assets=self._settings.assets == "public",
            )
            self._files = read_files(task.info.get("files"))
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
            except _faults() as error:
                await self._replace("while the start page was opened")
                # A browser that was lost says nothing of the page; those are counted by themselves.
                tries += not lease.is_gone
                if tries == 2:
                    text = f"task {task.id}: the start page {url} cannot be shown: {error or 'no answer in time'}"
                    raise NavigationError(text, transient=True) from error
        page = shown_page(observation, self._settings)
        message = _opening_message(page, observation)
        self._history.begin(message)
        return Opening(self._toolset, message, observation.images, page.to_data())

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        results: list[ToolResult] = []
        try:
            await self._do(calls, results)
        except ContextLost as loss:
            results = await self._recovered(loss, lambda: self._do_again(calls, results), calls)
        self._history.add(calls, results)
        return results

    async def _do(self, calls: Sequence[Invocation], results: list[ToolResult]) -> list[ToolResult]:
        """Add the result of each call as it comes."""
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

        async def read() -> tuple[str, str]:
            session = self._opened()
            try:
                async with self._turn(self._settings.step_timeout):
                    return (await session.settle()).url, await session.active.digest()
            except _faults() as error:
                if self._is_lost():
                    raise ContextLost("while its state was read") from error
                raise WorldError(f"the state of {self._url} cannot be read: {error}", transient=True) from error

        url, digest = await self._surely(read)
        told = f"{url}\n{digest}\n{self.answer!r}"
        return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest()

    async def inspect(self, probes: Sequence[Probe], url: str | None = None) -> list[Finding]:
        """Find out about the page that the agent left, or about the one at `url`, an address or a path of the site.

        That one is opened in the same context in a tab of its own, which the agent never sees. Raises WorldError where
        the page cannot be shown or says that it is broken (a status of 500 and above, or 429).
        """
        return await self._surely(lambda: self._inspect(probes, url))

    async def _inspect(self, probes: Sequence[Probe], url: str | None) -> list[Finding]:
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
        except _faults() as error:
            if self._is_lost():
                raise ContextLost(f"while {target} was inspected") from error
            is_late = type(error) is TimeoutError
            why = f"no answer within {self._settings.step_timeout:g} s" if is_late else _first_line(error)
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
        """When the start page has begun to load, before it is observed. Also after a loss."""

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
        async with self._pool.turn(), asyncio.timeout(seconds) as clock:
            self._clock = clock
            try:
                if self._is_lost():
                    raise PageLost("the browser was lost")
                yield
            finally:
                self._clock = None

    def _on_crash(self, page: Page) -> None:
        """A crashed page answers nothing any more: callers need not wait for the timeout."""
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time())

    async def _step(self, call: Invocation, is_last: bool) -> ToolResult:
        session = self._opened()
        session.begin_step()
        if call.name == "wait":
            await pause(session, call.arguments)  # without a turn: the page does nothing for us meanwhile
        try:
            async with self._turn(self._settings.step_timeout):
                result = await self._act(call, is_last)
        except TimeoutError as error:
            if self._is_lost():
                raise ContextLost(f"during {call.name}") from error
            return await self._stop_script(call)
        except _faults() as error:
            raise ContextLost(f"during {call.name}: {_first_line(error)}") from error
        if self._is_lost():
            # It may have got as far as an error that is none of the page's, or to a page without its cookies.
            raise ContextLost(f"during {call.name}")
        return result

    async def _act(self, call: Invocation, is_last: bool) -> ToolResult:
        session = self._opened()
        if call.name == FULL_TEXT:
            return await self._read(session, call)
        fault: ActionFault | None = None
        tab = session.active
        try:
            await act(session, call)
        except _faults() as error:
            if type(error) is TimeoutError or not tab.page.is_closed() or self._is_lost():
                raise
            # The page closed its own tab meanwhile, which is no loss.
        except ActionFault as error:
            fault = error
            if not fault.has_moved:
                await session.active.check_alive()
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

    async def _read(self, session: BrowserSession, call: Invocation) -> ToolResult:
        """One part of all the page's text. The numbers of the last observation stay valid."""
        tab = await session.settle_active()
        text, size = await tab.full_text(), self._settings.max_text
        count = max(1, -(-len(text) // size))
        part = call.arguments.get("part", 1)
        if part > count:
            return failed_result(
                call.call_id, "tool", f"{call.name}: the text has {count} parts; there is no part {part}."
            )
        shown = well_formed(text[(part - 1) * size : part * size])
        content = f"Text of {tab.page.url}, part {part} of {count}:\n{shown or '(none)'}"
        return ToolResult(
            call.call_id, content, data={"url": tab.page.url, "text": shown, "part": part, "parts": count}
        )

    async def _stop_script(self, call: Invocation) -> ToolResult:
        """After a step that did not end in time: stop the page's script where that is what keeps it busy.

        Raises ContextLost where the page still does not answer, or was not busy at all: then the machine was too slow.
        """
        tab = self._opened().active
        late = f"the page did not respond within {self._settings.step_timeout:g} s"
        if await tab.answers(ANSWER_TIMEOUT):
            raise ContextLost(f"during {call.name}: no result within {self._settings.step_timeout:g} s")
        await tab.stop_script(ANSWER_TIMEOUT)
        try:
            async with self._turn(self._settings.step_timeout):
                observation = await self._observe(self._opened())
        except _faults() as error:
            raise ContextLost(f"during {call.name}: {late}") from error
        return self._show(call, observation, f"{call.name}: {late}, and its script was stopped.", "timeout")

    # ---- losses -------------------------------------------------------------------------------------------------

    def _is_lost(self) -> bool:
        is_crashed = self._session is not None and self._session.active.is_crashed
        return self._lease is None or self._lease.is_gone or is_crashed

    async def _surely(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that only looks, again where the context is lost meanwhile."""
        try:
            return await work()
        except ContextLost as loss:
            return await self._recovered(loss, work)

    async def _recovered(
        self, loss: ContextLost, work: Callable[[], Awaitable[T]], calls: Sequence[Invocation] = ()
    ) -> T:
        """Bring a new context to where the lost one was, then do the work there. `calls`: those that the work makes.

        Raises ReplayMismatch where the new context answers otherwise, WorldError after too many losses and where a call
        on the way must not be made again.
        """
        while True:
            log.warning("%s: the browser was lost %s; %d calls are replayed", self._url, loss, len(self._history))
            self._history.check_reversible(calls)
            await self._replace(str(loss))
            self.answer, self.is_done, self._url = None, False, self._start
            try:
                await self._replay()
                return await work()
            except ContextLost as again:
                loss = again

    async def _replay(self) -> None:
        try:
            async with self._turn(self._settings.open_timeout):
                observation = await self._visit(self._start)
        except ActionFault as fault:
            text = f"after a lost browser the start page cannot be shown: {fault}"
            raise NavigationError(text, transient=True) from None
        except _faults() as error:
            raise ContextLost(f"while the start page was opened: {_first_line(error)}") from error
        self._history.check_opening(_opening_message(shown_page(observation, self._settings), observation))
        for past in self._history:
            past.check(await self._do(past.calls, []))

    async def _do_again(self, calls: Sequence[Invocation], before: Sequence[ToolResult]) -> list[ToolResult]:
        """Make the calls that a loss interrupted. `before`: the results that some of them had."""
        results = await self._do(calls, [])
        Past(calls[: len(before)], before).check(results[: len(before)])
        return results

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
            try:
                await goto(session, url)
            except ActionFault:
                await session.active.check_alive()
                if self._is_lost():
                    raise PageLost("the browser was lost") from None
                raise
            await self.after_visit(session)
        return await self._observe(session)

    async def _begin(self) -> BrowserSession:
        """A session on the lease as it is now."""
        assert self._lease is not None
        self._lease.proxy.egress = self._egress
        self._lease.page.on("crash", self._on_crash)
        session = BrowserSession(self._lease, self._settings, self._files)
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

    async def _replace(self, when: str) -> None:
        """Another context instead of the lost one. Raises WorldError after too many losses."""
        self._losses += 1
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        lease, self._lease = self._lease, None
        if lease is None:
            raise WorldError(f"{self._url}: the browser was lost and given back", transient=True)
        if self._losses > MAX_LOSSES:
            await lease.release()
            text = f"{self._url}: the browser was lost {self._losses} times, the last time {when}"
            raise WorldError(text, transient=True)
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


def _hosts(task: Task, key: str) -> list[str]:
    """The hosts that a task adds to those of the settings; one alone may be a text."""
    given = task.info.get(key) or ()
    hosts = [given] if isinstance(given, str) else given
    if not isinstance(hosts, list | tuple | set) or not all(isinstance(host, str) for host in hosts):
        raise ConfigError(f"{key}: expected a list of hosts, got {given!r}")
    return list(hosts)


def _opening_message(page: ShownPage, observation: Observation) -> Message:
    images = tuple(image.name for image in observation.images)
    return Message(role="user", content=page.describe(), images=images)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _faults() -> tuple[type[Exception], ...]:
    """What tells that a page, or all of its browser, is gone or hangs."""
    from playwright.async_api import Error

    return (PageLost, Error, TimeoutError)
