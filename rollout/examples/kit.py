"""The base of the shipped mock servers: tables that a session may change, checked arguments, authorization, dispatch.

A server file brings the domain: a subclass of `Tools` whose methods are the tools, an explicit table of them made by
`tool_table`, and a subclass of `Server` that names its tables and passes its own `__file__`, because the database is
found from there. The tables are JSON files, read once for a server; every session has a deep copy of them, which the
engine's tables make cheap: rows are copied when they may be written to. A tool either answers, or raises `Refusal`,
which `invoke` turns into `{"error": …}`; a tool that writes first checks everything, then returns a `preview` unless
`confirm` is true, and only then writes. This module makes no ids and reads no clock: the engine puts seeded ones into
the globals of the server file, so they must be asked there.
"""

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin

from rollout.environments.domains.reading import load_json
from rollout.environments.domains.tables import SharedTable

Row = dict[str, Any]

MAX_FAILED_AUTHORIZATIONS = 3
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
PHONE = re.compile(r"\d{3}-\d{3}-\d{4}")
_KINDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


class Refusal(Exception):
    """Why a call is not carried out. The text goes to the caller."""


@dataclass
class SessionContext:
    """What one conversation owns: its tables, and who has been authorized in it."""

    session_id: str
    databases: dict[str, list[Row]]
    authorized_id: str | None = None
    failed_authorizations: int = 0


class Tool:
    """A tool method and the arguments that its signature admits: str, int, float, bool, Literal, or one `| None`."""

    def __init__(self, run: Callable[..., Row]) -> None:
        self.name = run.__name__
        self.run = run
        self.parameters = dict(list(inspect.signature(run, eval_str=True).parameters.items())[1:])  # without `self`
        self.required = [key for key, each in self.parameters.items() if each.default is inspect.Parameter.empty]

    def check(self, arguments: Row) -> Row:
        """The arguments to call with; null for an optional one counts as not given. Raises Refusal."""
        given = {key: value for key, value in arguments.items() if value is not None}
        unknown = [key for key in arguments if key not in self.parameters]
        missing = [key for key in self.required if key not in given]
        for fault, keys in (("Unknown", unknown), ("Missing", missing)):
            if keys:
                admitted = ", ".join(self.parameters) or "no arguments"
                raise Refusal(f"{fault} argument(s) for {self.name}: {', '.join(keys)}. It takes: {admitted}.")
        return {key: self._check_value(key, value) for key, value in given.items()}

    def _check_value(self, key: str, value: Any) -> Any:
        annotation = self.parameters[key].annotation
        if get_origin(annotation) not in (None, Literal):
            annotation = get_args(annotation)[0]  # the T of `T | None`
        choices = get_args(annotation)
        kind = type(choices[0]) if choices else annotation
        if kind is float and type(value) is int:
            value = float(value)  # JSON has one kind of number, and equal amounts must make equal rows
        if type(value) is not kind:
            raise Refusal(f"Argument '{key}' of {self.name} must be {_KINDS[kind]}, not {value!r}.")
        if choices and value not in choices:
            raise Refusal(f"Argument '{key}' of {self.name} must be one of: {', '.join(choices)}.")
        if kind is str and not value.strip():
            raise Refusal(f"Argument '{key}' of {self.name} must not be empty.")
        return value


class TableNames(NamedTuple):
    """Which files a domain reads: entities may be shared with other domains, relationships are its own."""

    entities: Sequence[str]
    relationships: Sequence[str]


def tool_table(*runs: Callable[..., Row]) -> dict[str, Tool]:
    """The tools by name, in the order given. What is not listed here cannot be called, whatever its name."""
    return {run.__name__: Tool(run) for run in runs}


def cents(amount: float) -> float:
    """An amount of money without what arithmetic leaves behind the second decimal."""
    return round(amount, 2) + 0.0  # the sum makes 0.0 of -0.0


def preview(action: str, **details: Any) -> Row:
    """The answer to an unconfirmed write."""
    return {"needs_confirmation": True, "action_preview": {"action": action, **details}}


class Tools:
    """One session's view of the records of the person who is authorized in it. A subclass adds a domain's tools."""

    person: ClassVar[str] = "Student"
    """The entity whose rows are the persons served. The one tool that works for strangers is `authorize_<person>`."""
    secret: ClassVar[str] = "portal_pin"
    """The column of that entity that only the person knows."""

    def __init__(self, session: SessionContext) -> None:
        self.session = session

    def _new_id(self) -> str:
        """An id for a new row. The server file makes it, with the `uuid` among its own globals."""
        raise NotImplementedError

    # Reading the records. Rows that come from here may be shared between sessions: never change them.

    def _rows(self, table: str) -> list[Row]:
        """All rows of a table, for reading only."""
        rows = self.session.databases[table]
        return [*rows.peek()] if isinstance(rows, SharedTable) else rows

    def _find(self, table: str, row_id: str) -> Row:
        key = f"{table.lower()}_id"
        for row in self._rows(table):
            if row[key] == row_id:
                return row
        raise Refusal(f"There is no {table} with {key} '{row_id}'.")

    def _mine(self, table: str, **having: Any) -> list[Row]:
        """The authorized person's rows of a table that have these values."""
        key, me = f"{self.person.lower()}_id", self.session.authorized_id
        rows = [row for row in self._rows(table) if row[key] == me]
        return [row for row in rows if all(row[name] == value for name, value in having.items())]

    def _own(self, table: str, row_id: str) -> Row:
        """One row, if it is the authorized person's. Whether it belongs to another person is not said."""
        key = f"{table.lower()}_id"
        for row in self._mine(table):
            if row[key] == row_id:
                return row
        raise Refusal(f"The {self.person.lower()} has no {table} with {key} '{row_id}'.")

    # Writing. `self.session.databases[…]` gives the session rows of its own.

    def _insert(self, table: str, **values: Any) -> Row:
        """Append a row of the authorized person."""
        mine = {f"{self.person.lower()}_id": self.session.authorized_id}
        row = {f"{table.lower()}_id": self._new_id(), **mine, **values}
        self.session.databases[table].append(row)
        return row

    def _update(self, table: str, row_id: str, **values: Any) -> None:
        for row in self.session.databases[table]:
            if row[f"{table.lower()}_id"] == row_id:
                row.update(values)

    def _delete(self, table: str, row_id: str) -> None:
        rows = self.session.databases[table]
        rows[:] = [row for row in rows if row[f"{table.lower()}_id"] != row_id]

    def _change_contact(self, confirm: bool, **wanted: str | None) -> Row:
        """A whole tool `update_contact_details`: of email, phone and what else is wanted, replace what is new."""
        me = self._mine(self.person)[0]
        if wanted["email"]:
            wanted["email"] = wanted["email"].lower()
        changes = {key: value for key, value in wanted.items() if value is not None and value != me[key]}
        if not changes:
            *others, last = wanted
            raise Refusal(f"Nothing to change: give {', '.join(others)} or {last} with a new value.")
        if "email" in changes and not EMAIL.fullmatch(str(changes["email"])):
            raise Refusal(f"'{changes['email']}' is not an email address.")
        if any(row["email"] == changes.get("email") for row in self._rows(self.person)):
            raise Refusal(f"This email address belongs to another {self.person.lower()}'s account.")
        if "phone" in changes and not PHONE.fullmatch(str(changes["phone"])):
            raise Refusal("A phone number must look like 555-123-4567.")
        if not confirm:
            return preview("update_contact_details", before={key: me[key] for key in changes}, after=changes)
        self._update(self.person, me[f"{self.person.lower()}_id"], **changes)
        return {"success": True, "updated": changes}

    def _authorize(self, secret: str, **names: str | None) -> Row:
        """Find the one person with this secret whom all given names (id, email) fit, and let the session serve them."""
        who, key = self.person.lower(), f"{self.person.lower()}_id"
        if not any(names.values()):
            raise Refusal(f"Give {' or '.join(names)} together with {self.secret}.")
        if self.session.failed_authorizations >= MAX_FAILED_AUTHORIZATIONS:
            raise Refusal("Too many failed attempts: this session is locked.")
        claimed = {**names, self.secret: secret}
        for row in self._rows(self.person):
            if all(value is None or row[name] == value for name, value in claimed.items()):
                break
        else:
            self.session.failed_authorizations += 1
            left = MAX_FAILED_AUTHORIZATIONS - self.session.failed_authorizations
            raise Refusal(f"These details do not match any {who}. Attempts left: {left}.")
        if self.session.authorized_id not in (None, row[key]):
            raise Refusal(f"Another {who} is already authorized; one session serves one {who} only.")
        self.session.authorized_id = row[key]
        return {"success": True, key: row[key], "name": f"{row['first_name']} {row['last_name']}"}


class Server:
    """A domain's tools for any number of sessions. Only `invoke` and `close_session` are meant for outside."""

    isolates_sessions = True
    """One server object can serve every session."""
    is_quick = True
    """A call takes microseconds and waits for nothing: it needs no thread."""

    def __init__(
        self, domain_name: str, file: str, tools: type[Tools], table: Mapping[str, Tool], names: TableNames
    ) -> None:
        self._tools = tools
        self._table = table
        self._tables = load_tables(Path(file), domain_name, names)
        self._sessions: dict[str, SessionContext] = {}

    def _get_session(self, session_id: str) -> SessionContext:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = SessionContext(session_id, copy.deepcopy(self._tables))
        return session

    def close_session(self, session_id: str) -> None:
        """Forget a session and its changes. The same id may be used again afterwards."""
        self._sessions.pop(session_id, None)

    def invoke(self, session_id: str, tool_name: str, **kwargs: Any) -> Row:
        """Run one tool. Whatever is wrong with the call or against the rules comes back as `{"error": …}`."""
        tool = self._table.get(tool_name)
        if tool is None:
            return {"error": f"Unknown tool '{tool_name}'. Available tools: {', '.join(self._table)}."}
        session = self._get_session(session_id)
        who = self._tools.person.lower()
        try:
            if session.authorized_id is None and tool_name != f"authorize_{who}":
                raise Refusal(f"No {who} is authorized in this session. Call authorize_{who} first.")
            return tool.run(self._tools(session), **tool.check(kwargs))
        except Refusal as refusal:
            return {"error": str(refusal)}


def load_tables(server_file: Path, domain_name: str, names: TableNames) -> dict[str, list[Row]]:
    """Every table of a domain. A fused domain keeps its own copy of the entities in a folder of its name."""
    root = server_file.resolve().parent.parent / "database" / "outputs"
    fused = root / "entities" / domain_name
    folders = dict.fromkeys(names.entities, fused if fused.is_dir() else root / "entities")
    folders |= dict.fromkeys(names.relationships, root / "relationships" / domain_name)
    tables = {}
    for name, folder in folders.items():
        with (folder / f"{name}.json").open(encoding="utf-8") as file:
            tables[name] = load_json(file)
    return tables
