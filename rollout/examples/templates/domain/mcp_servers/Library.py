"""The mock tool server of the domain Library: a class with `invoke`, and tables for each session.

Each conversation gets a new one. Scoring compares the tables in `_get_session(session_id).databases` with those
after the reference actions of the task.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "database" / "outputs"


class LibrarySession:
    """What one conversation sees."""

    def __init__(self) -> None:
        books = json.loads((TABLES / "entities" / "Book.json").read_text())
        loans = json.loads((TABLES / "relationships" / "Library" / "Loan.json").read_text())
        self.databases: dict[str, list[dict[str, Any]]] = {"Book": copy.deepcopy(books), "Loan": copy.deepcopy(loans)}


class LibraryServer:
    """The tools of the library desk."""

    def __init__(self, domain: str = "Library") -> None:
        self._sessions: dict[str, LibrarySession] = {}

    def _get_session(self, session_id: str) -> LibrarySession:
        return self._sessions.setdefault(session_id, LibrarySession())

    def invoke(self, session_id: str, tool_name: str, **arguments: Any) -> Any:
        """Call a tool. What it raises becomes an error that the agent reads."""
        tables = self._get_session(session_id).databases
        if tool_name == "find_book":
            return self._find_book(tables, **arguments)
        if tool_name == "lend_book":
            return self._lend_book(tables, **arguments)
        raise ValueError(f"unknown tool: {tool_name}")

    def _find_book(self, tables: dict[str, list[dict[str, Any]]], title: str) -> dict[str, Any]:
        for row in tables["Book"]:
            if row["title"] == title:
                return dict(row)
        raise ValueError(f"there is no book {title!r}")

    def _lend_book(self, tables: dict[str, list[dict[str, Any]]], title: str, member: str) -> dict[str, Any]:
        book = next((row for row in tables["Book"] if row["title"] == title), None)
        if book is None or not book["copies"]:
            raise ValueError(f"no copy of {title!r} is on the shelf")
        book["copies"] -= 1
        loan = {"loan_id": f"L{len(tables['Loan']) + 1}", "book_id": book["book_id"], "member": member}
        tables["Loan"].append(loan)
        return loan
