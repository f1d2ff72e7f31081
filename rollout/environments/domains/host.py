"""The mock servers of a domain where they run: in this process for trusted code, otherwise in a worker process.

A `Host` keeps the server objects and, for each world, a session on each of them. The session object is the state: its
tables, and whatever else it keeps there. A server whose class says `isolates_sessions = True` is built once and shared;
of any other, the module is loaded and the class built again for each world, so that what it keeps outside its sessions,
on the class or in globals, cannot leak either. Tables that several servers of one world read from the same file are one
table: what one server writes there, the others see.

Nothing here waits or knows about processes, and every method may raise whatever a server raises.
"""

from __future__ import annotations

import collections
import hashlib
import inspect
import pickle
import random
import sys
import types
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.changes import Changes, TableChange, change_of, encode_row, with_text_keys
from rollout.core.errors import ConfigError, WorldError, describe_error
from rollout.environments.domains.stand_ins import current_random, make_deterministic
from rollout.environments.domains.tables import BaseTable, SharedTable, digest_row, join_digests, load


class ServerFile(msgspec.Struct, frozen=True):
    """A server of a domain: where its code is, and the arguments of its class."""

    name: str
    path: str
    place: str
    """The path that the module sees as its own: its tables are found from there."""
    database: str
    """The folder of its tables: its own name, or that of the whole combination."""


class Host:
    """The servers of one domain and the sessions of its worlds."""

    def __init__(self, files: tuple[ServerFile, ...]) -> None:
        self._files = files
        self._classes = {file.name: load_class(file) for file in files}
        self.is_quick = all(getattr(kind, "is_quick", False) for kind in self._classes.values())
        """Whether every server says that a call takes microseconds and waits for nothing."""
        self._shared: dict[str, Any] = {}
        self._worlds: dict[int, Sessions] = {}
        self._opened: collections.Counter[int] = collections.Counter()
        """How often each world was opened here. One that left comes back when a call of it was given up."""

    def open(self, world: int, seed: int) -> None:
        """Give a world its sessions."""
        servers = {file.name: self._borrow(file) for file in self._files}
        is_fused = len({file.database for file in self._files}) < len(self._files)
        again = self._opened[world]
        self._opened[world] += 1
        # A shared server may keep sessions that were closed, so a name is not used twice.
        session = f"session-{world}-{again}" if again else f"session-{world}"
        self._worlds[world] = Sessions(servers, session, seed, is_fused)

    def _borrow(self, file: ServerFile) -> Any:
        kind = self._classes[file.name]
        if not getattr(kind, "isolates_sessions", False):
            return _build(file, load_class(file))
        if file.name not in self._shared:
            self._shared[file.name] = _build(file, kind)
        return self._shared[file.name]

    def sessions(self, world: int) -> Sessions:
        """The sessions of a world that is open."""
        return self._worlds[world]

    def close(self, world: int) -> None:
        """Forget a world, also one that is not there."""
        sessions = self._worlds.pop(world, None)
        if sessions is not None:
            sessions.close()


class Sessions:
    """One world's sessions on the servers of its domain."""

    def __init__(self, servers: dict[str, Any], session: str, seed: int, is_fused: bool = False) -> None:
        self._servers = servers
        self._session = session
        self._random = random.Random(seed)
        self._is_fused = is_fused
        self._tables: dict[str, dict[str, Any]] = {}
        """The tables that each server was last seen with."""
        self._sharing: dict[tuple[str, str], set[str]] = {}
        """The servers that have a table in common, for each of them and the table."""
        self._before: dict[tuple[str, str], BaseTable | list[bytes]] = {}
        """Every table as it was when the world was opened."""
        self._meet_first()

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        """Run one tool. Raises whatever it raises."""
        token = current_random.set(self._random)
        try:
            value = self._servers[server].invoke(self._session, tool, **arguments)
            if inspect.isawaitable(value) or inspect.isgenerator(value):
                raise TypeError(f"a tool returns a value, not a {type(value).__name__}")
            return value
        finally:
            current_random.reset(token)
            self._meet()

    # ---- the tables ---------------------------------------------------------------------------------------------

    def _meet_first(self) -> None:
        """See which tables there are, and which of them several servers have in common."""
        owners: dict[str, list[str]] = {}
        for server in self._servers:
            databases = self._databases(server) or {}
            self._tables[server] = dict(databases)
            for table, rows in databases.items():
                self._share(server, table, databases, owners.setdefault(table, []))
                self._before[server, table] = rows.base if isinstance(rows, SharedTable) else _encoded(rows)

    def _share(self, server: str, table: str, databases: dict[str, Any], owners: list[str]) -> None:
        """Give a server the table of an owner before it, where that is the same one; else it owns one itself."""
        for owner in owners:
            theirs = self._tables[owner][table]
            if self._is_same(theirs, databases[table]):
                databases[table] = self._tables[server][table] = theirs
                group = self._sharing.setdefault((owner, table), {owner})
                group.add(server)
                self._sharing[server, table] = group
                return
        owners.append(server)

    def _is_same(self, one: Any, two: Any) -> bool:
        """Whether two servers have read the same table, however each has copied it.

        Of one file, or in a combination with tables of its own, under one name; else by what is in it.
        """
        if isinstance(one, SharedTable) and isinstance(two, SharedTable):
            are_files = one.base.is_file and two.base.is_file
            if one.base is two.base or are_files:
                return one.base is two.base
        if not isinstance(one, list) or not isinstance(two, list) or not (one or self._is_fused):
            return False
        return len(one) == len(two) and _by_value(one) == _by_value(two)

    def _meet(self) -> None:
        """Keep tables that servers have in common one table, also after a server has put another list in its place."""
        for server in self._servers:
            databases = self._databases(server)
            if databases is None:
                continue
            known = self._tables.setdefault(server, {})
            if len(known) != len(databases) or any(known.get(table) is not rows for table, rows in databases.items()):
                self._adopt(server, databases, known)

    def _adopt(self, server: str, databases: dict[str, Any], known: dict[str, Any]) -> None:
        for table in [table for table in known if table not in databases]:
            for other in self._sharing.get((server, table), {server}):
                (self._databases(other) or {}).pop(table, None)
                self._tables[other].pop(table, None)
        for table, rows in list(databases.items()):
            before = known.get(table)
            if before is rows:
                continue
            if type(rows) is list and isinstance(before, SharedTable):
                rows = SharedTable(before.base, rows)
            for other in {server} | self._sharing.get((server, table), set()):
                theirs = self._databases(other)
                if theirs is not None:
                    theirs[table] = self._tables[other][table] = rows

    def _databases(self, server: str) -> dict[str, Any] | None:
        found = _fields(self._session_of(server, self._session)).get("databases")
        return found if isinstance(found, dict) else None

    def _session_of(self, server: str, session: str) -> Any:
        get_session = getattr(self._servers[server], "_get_session", None)
        return None if get_session is None else get_session(session)

    # ---- the state ----------------------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """What differs from how the world was opened. A table that two servers hold apart has both."""
        changes: Changes = {}
        told: set[tuple[str, str]] = set()
        for server in self._servers:
            now = self._readable(server)
            here = [table for owner, table in self._before if owner == server]
            for table in dict.fromkeys([*here, *now]):
                if (server, table) in told:
                    continue
                told |= {(other, table) for other in self._sharing.get((server, table), {server})}
                name = table if table not in changes else f"{server}.{table}"
                changes[name] = _change(self._before.get((server, table), []), now.get(table, ()))
        return {name: change for name, change in changes.items() if change.added or change.removed}

    def _readable(self, server: str) -> dict[str, Any]:
        if not hasattr(self._servers[server], "_get_session"):
            raise WorldError(f"{server}: has no _get_session(session_id), so its state cannot be read")
        return self._databases(server) or {}

    def state_key(self) -> str:
        """The state by its value."""
        digest = hashlib.blake2b(digest_size=16)
        for server in sorted(self._servers):
            tables = self._readable(server)
            fields = self._own_fields(server)
            fields.pop("databases", None)
            digest.update(server.encode())
            for table, rows in sorted(tables.items()):
                digest.update(table.encode())
                digest.update(_by_value(rows) if isinstance(rows, list) else _canonical(rows))
            digest.update(_canonical(fields))
        return digest.hexdigest()

    def snapshot(self) -> bytes | None:
        """The state as bytes; None where it cannot be written down."""
        try:
            state = {server: (self._own_fields(server), self._saved_tables(server)) for server in self._servers}
            for fields, _ in state.values():
                fields.pop("databases", None)
            return pickle.dumps((state, self._random.getstate()), protocol=pickle.HIGHEST_PROTOCOL)
        except (WorldError, pickle.PicklingError, TypeError, AttributeError):
            return None

    def _saved_tables(self, server: str) -> dict[str, Any]:
        return {
            table: (rows.base.name, rows.base.digest, rows.save()) if isinstance(rows, SharedTable) else rows
            for table, rows in self._readable(server).items()
        }

    def _rejoin(self) -> None:
        """After a restore, which gives each server tables of its own: those in common are one again."""
        for server in self._servers:
            self._tables[server] = dict(self._databases(server) or {})
        for (server, table), group in self._sharing.items():
            first = min(group)
            databases = self._databases(server)
            if databases is not None and table in self._tables[first]:
                databases[table] = self._tables[server][table] = self._tables[first][table]

    def _own_fields(self, server: str) -> dict[str, Any]:
        self._readable(server)
        fields = _fields(self._session_of(server, self._session))
        return {name: value for name, value in fields.items() if name != "session_id"}

    def restore(self, data: bytes) -> None:
        """Become the state of a snapshot."""
        bases = {
            rows.base.name: rows.base
            for tables in self._tables.values()
            for rows in tables.values()
            if isinstance(rows, SharedTable)
        }
        # Snapshots come from `snapshot`, in this run's own journal: never from outside.
        state, randomness = pickle.loads(data)
        self._random.setstate(randomness)
        for server, (fields, tables) in state.items():
            _fields(self._session_of(server, self._session)).update(fields)
            databases = self._databases(server)
            if databases is not None:
                databases.clear()
                databases |= {name: _load_table(saved, bases) for name, saved in tables.items()}
        self._rejoin()

    def close(self) -> None:
        """Forget the sessions."""
        for server in self._servers:
            self._forget(server, self._session)

    def _forget(self, server: str, session: str) -> None:
        forget = getattr(self._servers[server], "close_session", None)
        if callable(forget):
            forget(session)


def _load_table(saved: Any, bases: dict[str, BaseTable]) -> Any:
    if not isinstance(saved, tuple):
        return saved
    name, digest, rows = saved
    if name not in bases or bases[name].digest != digest:
        raise WorldError(f"{name}: is not the table that this state was saved with")
    return load(bases[name], rows)


def _change(before: BaseTable | list[bytes], rows: Any) -> TableChange:
    """What became of a table. A server may have put anything in its place, or nothing."""
    if isinstance(rows, SharedTable) and rows.base is before:
        return rows.change()
    old = map(encode_row, before.rows) if isinstance(before, BaseTable) else before
    return change_of(old, _encoded(rows))


def _encoded(rows: Any) -> list[bytes]:
    """What is in the place of a table, row by row: a list as it is, a dict by its entries."""
    if isinstance(rows, dict):
        rows = [{"key": key, "value": value} for key, value in rows.items()]
    return [encode_row(row if isinstance(row, dict) else {"value": row}) for row in rows]


def _by_value(rows: list[Any]) -> bytes:
    return rows.digest() if isinstance(rows, SharedTable) else join_digests(map(digest_row, rows))


def _fields(session: Any) -> dict[str, Any]:
    """What a session holds, by name; the dict itself, so that what is written to it is in the session."""
    return session if isinstance(session, dict) else getattr(session, "__dict__", {})


def _build(file: ServerFile, kind: type[Any]) -> Any:
    try:
        return kind(file.database)
    except Exception as error:
        raise WorldError(f"{file.name}: the server could not start: {describe_error(error)}") from error


def load_class(file: ServerFile) -> type[Any]:
    """The server's class out of a module of its own. Nothing is written beside the file, and nothing is shared."""
    module = types.ModuleType(f"mcp_servers.{file.name}")
    module.__file__ = file.place
    # dataclasses look their module up by name while the class body runs.
    sys.modules[module.__name__] = module
    try:
        code = compile(Path(file.path).read_bytes(), file.path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{file.path}: failed while loading: {describe_error(error)}") from error
    make_deterministic(module)
    found = getattr(module, f"{file.name}Server", None)
    if not isinstance(found, type):
        raise ConfigError(f"{file.path}: has no class {file.name}Server")
    if not callable(getattr(found, "invoke", None)):
        raise ConfigError(f"{file.path}: {file.name}Server has no method invoke(session_id, tool_name, **arguments)")
    return found


def _plain(value: Any) -> Any:
    """What msgspec does not encode by itself: a server's own classes, by their fields."""
    return dict(value) if isinstance(value, dict) else vars(value) if hasattr(value, "__dict__") else repr(value)


_encode = msgspec.json.Encoder(enc_hook=_plain, order="sorted").encode


def _canonical(value: Any) -> bytes:
    try:
        return _encode(value)
    except TypeError:
        return _encode(with_text_keys(value))
