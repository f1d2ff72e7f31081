"""A world of mock servers in this process: for code that is trusted, because nothing keeps it from our files.

Calls of one message run one after the other in the order asked, because they change the state. They run in a thread
with a time limit, or directly on the loop where the servers say `is_quick = True` (a few microseconds, no I/O, no way
to hang). A call that is given up cannot be stopped: its thread may still change the world that it belongs to. In a
worker process (`rollout.environments.domains.workers`), which is the default, it can.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from rollout.core.changes import Changes
from rollout.core.errors import WorldError
from rollout.core.messages import ToolResult
from rollout.core.results import failed_result, to_result
from rollout.core.task import Task
from rollout.core.threads import ToolFault, run_guarded, tool_threads
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.domains.domain import Domain
from rollout.environments.domains.host import Host

_numbers = itertools.count()


class ServersInProcess:
    """The servers of one domain in this process. Worlds borrow from here."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.host = Host(domain.files)


class MockWorld(World):
    """One episode's sessions on the servers of a domain."""

    def __init__(self, servers: ServersInProcess, timeout: float = 60.0) -> None:
        self._host = servers.host
        self._domain = servers.domain
        self._timeout = timeout
        self._number = next(_numbers)

    async def open(self, task: Task, seed: int) -> Opening:
        self._host.open(self._number, seed)
        return Opening(self._domain.toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [await self._call(call) for call in calls]

    async def _call(self, call: Invocation) -> ToolResult:
        route = self._domain.routes[call.name]
        sessions = self._host.sessions(self._number)
        invoke = functools.partial(sessions.call, route.server, route.tool, call.arguments)
        try:
            if self._host.is_quick:
                value = run_guarded(invoke)
                if isinstance(value, ToolFault):
                    raise value
            else:
                value = await tool_threads().run(invoke, self._timeout)
        except TimeoutError:
            return failed_result(call.call_id, "timeout", f"{call.name} gave no answer within {self._timeout:g} s")
        except ToolFault as error:
            return failed_result(call.call_id, "crash", f"{call.name} raised {error}")
        return to_result(call.call_id, value)

    async def changes(self) -> Changes:
        return self._host.sessions(self._number).changes()

    async def snapshot(self) -> Snapshot | None:
        data = self._host.sessions(self._number).snapshot()
        return None if data is None else Snapshot(data, await self.state_key())

    async def restore(self, snapshot: Snapshot) -> None:
        self._host.sessions(self._number).restore(snapshot.data)
        if await self.state_key() != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")

    async def state_key(self) -> str:
        return self._host.sessions(self._number).state_key()

    async def close(self) -> None:
        self._host.close(self._number)
