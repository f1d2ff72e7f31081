"""The shipped cross domains as the tests see them: queries, policy, servers, and worlds on these servers."""

import itertools
import json
from functools import cache
from typing import Any

from rollout.core.changes import Changes
from rollout.environments.domains.domain import SHIPPED, load_domain
from rollout.environments.domains.host import Host, Sessions
from rollout.tasks.discovery import find_combinations
from tests.examples.shipped import Row, actions_of, resolve_arguments, served, shipped

BASE = SHIPPED / "cross_domain"
COMBINATIONS = [combination.name for combination in find_combinations(BASE)]
_numbers = itertools.count()


class Crossed:
    """Everything that one cross domain ships, and the single domains that it joins."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.domain = load_domain(BASE, name, [])
        self.policy = self.domain.policy or ""
        self.servers = {server: shipped(server) for server in self.domain.servers}
        lines = (BASE / f"queries/{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self.queries: list[Row] = [json.loads(line) for line in lines]
        self.joined = Host(self.domain.files)
        self.apart = {file.name: Host((file,)) for file in self.domain.files}
        (self.person,) = {server.person for server in self.servers.values()}
        self.people = next(iter(self.servers.values())).people

    def of_kind(self, *kinds: str) -> list[Row]:
        return [query for query in self.queries if query["task_info"]["kind"] in kinds]

    def is_write(self, name: str) -> bool:
        server, _, tool = name.partition(".")
        return tool in self.servers[server].writes

    def writes_of(self, query: Row) -> list[Row]:
        """The reference actions that change something."""
        return [action for action in actions_of(query) if self.is_write(action["name"])]

    def served(self, query: Row) -> str:
        """The id of the person whom the query authorizes."""
        return served(query, next(iter(self.servers.values())))


@cache
def crossed(name: str) -> Crossed:
    return Crossed(name)


def server_of(action: Row) -> str:
    """The server that a reference action calls."""
    server, _, _ = action["name"].partition(".")
    return str(server)


class World:
    """A session on each server, as an episode has them. Divided, each server keeps a table of its own of every file."""

    def __init__(self, cross: Crossed, *, is_divided: bool = False) -> None:
        self.cross = cross
        self.number = next(_numbers)
        self.hosts = cross.apart if is_divided else dict.fromkeys(cross.servers, cross.joined)
        for host in set(self.hosts.values()):
            host.open(self.number, seed=7)

    def sessions(self, server: str) -> Sessions:
        return self.hosts[server].sessions(self.number)

    def call(self, name: str, **arguments: Any) -> Row:
        """Call `Server.tool`."""
        server, _, tool = name.partition(".")
        answer: Row = self.sessions(server).call(server, tool, arguments)
        return answer

    def authorize(self, person_id: str) -> None:
        """Let every server serve this person."""
        for name, server in self.cross.servers.items():
            claimed = {f"{server.person}_id": person_id, server.secret: server.people[person_id][server.secret]}
            assert self.call(f"{name}.{server.authorize}", **claimed)["success"] is True

    def play(self, query: Row) -> list[Row]:
        """Run the reference actions; their results, be they errors."""
        results: list[Row] = []
        for action in actions_of(query):
            results.append(self.call(action["name"], **resolve_arguments(action, results)))
        return results

    def changes(self) -> Changes:
        """What differs from the beginning, on all servers of a world that is not divided."""
        return self.sessions(self.cross.domain.servers[0]).changes()

    def tables(self, server: str) -> dict[str, list[Row]]:
        """The tables of one server as they are now."""
        now = dict(self.cross.servers[server].tables)
        for table, change in self.sessions(server).changes().items():
            if table in now:
                gone = [dict(row) for row in change.removed]
                now[table] = [row for row in now[table] if row not in gone] + [dict(row) for row in change.added]
        return now

    def close(self) -> None:
        for host in set(self.hosts.values()):
            host.close(self.number)
