"""A world of mock servers: the seed's Python classes, one session for each episode.

The server's session object is the state: its tables, and whatever else it keeps there. Calls of one message run one
after the other in the order asked, because they change that state. A server whose class says `isolates_sessions =
True` is built once and shared; of any other, the module is loaded and the class built anew for each episode, so that
what it keeps outside its sessions, on the class or in globals, cannot leak either. Calls run in a thread with a time
limit, or directly on the loop for a server that says `is_quick = True` (a few microseconds, no I/O, no way to hang).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import pickle
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.errors import WorldError
from rollout.messages import ToolResult
from rollout.tasks.task import Task
from rollout.worlds.changes import compare_tables
from rollout.worlds.results import failed_result, to_result
from rollout.worlds.threads import ToolFault, run_guarded, tool_threads
from rollout.worlds.tools.determinism import current_random
from rollout.worlds.tools.domain import Domain
from rollout.worlds.world import Changes, Invocation, Opening, Row, Snapshot

_sessions = itertools.count()


class MockServers:
    """The server objects of one domain in this process. Worlds borrow from here."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._shared: dict[str, Any] = {}

    def borrow(self, server: str) -> Any:
        """A server object for one episode: the shared one where the class isolates sessions, else a new one."""
        kind = self.domain.classes[server]
        if getattr(kind, "isolates_sessions", False):
            if server not in self._shared:
                self._shared[server] = self._build(server, kind)
            return self._shared[server]
        return self._build(server, self.domain.load_afresh(server))

    def _build(self, server: str, kind: type[Any]) -> Any:
        try:
            return kind(self.domain.database_names[server])
        except Exception as error:
            raise WorldError(f"{server}: the server could not start: {type(error).__name__}: {error}") from error


class MockWorld:
    """One episode's sessions on the servers of a domain."""

    def __init__(self, servers: MockServers, timeout: float = 60.0) -> None:
        self._servers = servers
        self._domain = servers.domain
        self._timeout = timeout
        self._live: dict[str, Any] = {}
        self._session = f"session-{next(_sessions)}"
        self._random = random.Random(0)

    async def open(self, task: Task, seed: int) -> Opening:
        self._random.seed(seed)
        self._live = {server: self._servers.borrow(server) for server in self._domain.servers}
        return Opening(self._domain.toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [await self._call(call) for call in calls]

    async def _call(self, call: Invocation) -> ToolResult:
        route = self._domain.routes[call.name]
        server = self._live[route.server]
        token = current_random.set(self._random)
        invoke = functools.partial(server.invoke, self._session, route.tool, **call.arguments)
        try:
            if getattr(server, "is_quick", False):
                value = run_guarded(invoke)
                if isinstance(value, ToolFault):
                    raise value
            else:
                value = await tool_threads().run(invoke, self._timeout)
        except TimeoutError:
            return failed_result(call.call_id, "timeout", f"{call.name} gave no answer within {self._timeout:g} s")
        except ToolFault as error:
            return failed_result(call.call_id, "crash", f"{call.name} raised {error}")
        finally:
            current_random.reset(token)
        return to_result(call.call_id, value)

    async def changes(self) -> Changes:
        """What differs between the sessions of this episode and untouched ones."""
        fresh = f"{self._session}-untouched"
        before, after = self._tables(fresh), self._tables(self._session)
        for live in self._live.values():
            forget = getattr(live, "close_session", None)
            if callable(forget):
                forget(fresh)
        return compare_tables(before, after)

    def _tables(self, session: str) -> dict[str, list[Row]]:
        """All tables that a session sees. A table that several servers hold is taken from each, under its name."""
        tables: dict[str, list[Row]] = {}
        for server, live in self._live.items():
            databases = getattr(self._session_of(server, live, session), "databases", {})
            for name in databases:
                tables[name if name not in tables else f"{server}.{name}"] = databases[name]
        return tables

    def _session_of(self, server: str, live: Any, session: str | None = None) -> Any:
        get_session = getattr(live, "_get_session", None)
        if get_session is None:
            raise WorldError(f"{server}: has no _get_session(session_id), so its state cannot be read")
        return get_session(session or self._session)

    async def snapshot(self) -> Snapshot | None:
        try:
            state = {server: vars(self._session_of(server, live)) for server, live in self._live.items()}
        except WorldError:
            return None
        data = pickle.dumps((state, self._random.getstate()), protocol=pickle.HIGHEST_PROTOCOL)
        return Snapshot(data, self.state_key())

    async def restore(self, snapshot: Snapshot) -> None:
        # Snapshots come from this world's own `snapshot`, in this run's own journal: never from outside.
        state, randomness = pickle.loads(snapshot.data)
        self._random.setstate(randomness)
        for server, fields in state.items():
            session = self._session_of(server, self._live[server])
            fields.pop("session_id", None)
            vars(session).update(fields)
        if self.state_key() != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")

    def state_key(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for server in sorted(self._live):
            fields = vars(self._session_of(server, self._live[server]))
            plain = {name: value for name, value in fields.items() if name != "session_id"}
            digest.update(server.encode())
            digest.update(_canonical(plain))
        return digest.hexdigest()

    async def close(self) -> None:
        for live in self._live.values():
            forget = getattr(live, "close_session", None)
            if callable(forget):
                forget(self._session)
        self._live = {}


def _plain(value: Any) -> Any:
    """What msgspec does not encode by itself: a server's own classes, by their fields."""
    return dict(value) if isinstance(value, dict) else vars(value) if hasattr(value, "__dict__") else repr(value)


_canonical = msgspec.json.Encoder(enc_hook=_plain, order="sorted").encode
