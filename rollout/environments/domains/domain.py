"""A tool domain on disk, in AgentSkiller's layout: servers, tool lists, policy, database.

A `Domain` is what all episodes of a dataset share and none of them changes: where the servers are, the tools as they
are offered, the policy. It is loaded once; what can be wrong with it is found then, with the file's name. None of the
servers' code runs here: that is for `rollout.environments.domains.host`, in a process of its own or in this one.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Toolset, ToolSpec
from rollout.core.spelling import suggest
from rollout.core.text_files import read_text
from rollout.environments.domains.host import ServerFile
from rollout.environments.routes import Route, find_offered
from rollout.tasks.discovery import find_file, find_policy, fused_database, known_servers
from rollout.tasks.naming import match_server, offered_name, prefixes, split_fused

SHIPPED = Path(__file__).parents[2] / "examples" / "datasets"


class Domain:
    """One or several servers over one database, ready to make worlds of."""

    def __init__(self, name: str, base_path: Path, servers: Sequence[str], policy: str | None) -> None:
        self.name = name
        self.base_path = base_path
        self.servers = tuple(servers)
        self.policy = policy
        fused = fused_database(base_path, self.servers)
        self.files = tuple(_server_file(base_path, server, fused) for server in self.servers)
        self.routes: dict[str, Route] = {}
        self.toolset = self._offer()

    def _offer(self) -> Toolset:
        short = prefixes(self.servers) if len(self.servers) > 1 else {}
        specs: list[ToolSpec] = []
        for server in self.servers:
            for spec in read_tool_list(find_file(self.base_path, "tool_lists", f"{server}.json")):
                name = offered_name(short.get(server), spec.name)
                if name in self.routes:
                    taken = self.routes[name]
                    raise ConfigError(
                        f"{self.base_path}: {server}.{spec.name} and {taken.server}.{taken.tool} would both be offered "
                        f"as {name!r}; rename one of them"
                    )
                self.routes[name] = Route(server, spec.name)
                specs.append(msgspec.structs.replace(spec, name=name))
        return Toolset(tuple(specs))

    def offered(self, name: str) -> str | None:
        """The offered name of a reference action's tool."""
        return find_offered(self.routes, name)


def load_domain(base_path: Path, mcp_domain: str | None, tools: Sequence[str], policy: Path | None = None) -> Domain:
    """Find and load what `mcp_domain` and `tools` name below `base_path`.

    `tools` names the servers where given; otherwise they are read out of the (fused) domain name.
    """
    folder = base_path / "mcp_servers"
    known = known_servers(base_path)
    if not known:
        raise ConfigError(
            f"{folder}: no servers found; expected <Domain>.py files in AgentSkiller's layout (docs/how-to/domains.md)"
        )
    named = None if mcp_domain is None else _named_servers(base_path, mcp_domain, known, has_tools=bool(tools))
    servers: list[str] = []
    for wanted in tools:
        server = match_server(wanted, known)
        if server is None:
            raise ConfigError(f"{folder}: no server for tools entry {wanted!r}; {suggest(wanted, known)}")
        if named and server not in named:
            raise ConfigError(
                f"{folder}: tools entry {wanted!r} is not one of the servers of mcp_domain {mcp_domain!r}: "
                f"{', '.join(named)}"
            )
        servers.append(server)
    if not servers:
        assert named
        servers = named
    name = mcp_domain or "_".join(servers)
    policy_file = policy or find_policy(base_path, servers)
    text = read_policy(policy_file) if policy_file is not None else None
    return Domain(name, base_path, list(dict.fromkeys(servers)), text)


def _named_servers(base_path: Path, mcp_domain: str, known: Sequence[str], *, has_tools: bool) -> list[str]:
    """The servers that a domain's name is made of. Raises ConfigError for a name that matches nothing.

    A name that only a query file has is allowed where `tools` names the servers; then there are none here.
    """
    servers = split_fused(mcp_domain, known)
    if servers is not None:
        return servers
    if has_tools and (base_path / "queries" / f"{mcp_domain}.jsonl").is_file():
        return []
    near = ["".join(difflib.get_close_matches(part, known, n=1)) for part in mcp_domain.split("_")]
    hint = f"did you mean {'_'.join(near)!r}?" if all(near) else suggest(mcp_domain, known)
    raise ConfigError(f"{base_path / 'mcp_servers'}: mcp_domain {mcp_domain!r} names no known servers; {hint}")


def read_tool_list(path: Path) -> list[ToolSpec]:
    """The tools of one server, un-prefixed."""
    try:
        entries = msgspec.json.decode(path.read_bytes())
        return [ToolSpec.from_json(entry) for entry in entries]
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the tool list: {error.strerror or error}") from error
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not a list of tools ({error}); expected JSON: [{{'type': 'function', …}}]"
        ) from error


def read_policy(path: Path) -> str:
    """The text of a policy."""
    try:
        return read_text(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the policy: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the policy is not UTF-8 text: {error.reason}") from error


def _server_file(base_path: Path, server: str, fused: str | None) -> ServerFile:
    """Where a server is. What can be said about its code without running it is said here."""
    path = find_file(base_path, "mcp_servers", f"{server}.py")
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path}: is not valid Python: {error}") from error
    # A server finds its tables from where it lies, and those of a whole combination lie below `base_path`.
    place = base_path / "mcp_servers" / f"{server}.py" if fused else path
    return ServerFile(server, str(path.resolve()), str(place.resolve()), fused or server)
