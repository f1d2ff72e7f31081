"""The shipped single domains as the tests see them: files, server, tables, and sessions on the server."""

import copy
import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2] / "rollout/examples/datasets/single_domain"
NAMES = sorted(path.stem for path in (ROOT / "mcp_servers").glob("*.py"))

Row = dict[str, Any]


class Shipped:
    """Everything that one domain ships."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = load_server_module(name)
        self.server = self.new_server()
        self.tables: dict[str, list[Row]] = copy.deepcopy(self.server._tables)
        self.policy = (ROOT / f"policies/{name}.md").read_text(encoding="utf-8")
        lines = (ROOT / f"queries/{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self.queries: list[Row] = [json.loads(line) for line in lines]
        self.tool_list = json.loads((ROOT / f"tool_lists/{name}.json").read_text(encoding="utf-8"))
        self.schemas: dict[str, Row] = {
            tool["function"]["name"]: tool["function"]["parameters"] for tool in self.tool_list
        }
        self.writes = {tool for tool, schema in self.schemas.items() if "confirm" in schema["properties"]}
        (self.authorize,) = (tool for tool in self.schemas if tool.startswith("authorize_"))
        self.person = self.authorize.removeprefix("authorize_")
        (table,) = (table for table in self.tables if table.lower() == self.person)
        self.people = {row[f"{self.person}_id"]: row for row in self.tables[table]}
        self.secret: str = self.schemas[self.authorize]["required"][0]

    def new_server(self) -> Any:
        return getattr(self.module, f"{self.name}Server")(self.name)

    def of_kind(self, *kinds: str) -> list[Row]:
        return [query for query in self.queries if query["task_info"]["kind"] in kinds]


@cache
def shipped(name: str) -> Shipped:
    return Shipped(name)


def load_server_module(name: str) -> ModuleType:
    """Load by file path and without registering the module, the hardest way in which a world may load it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"mcp_servers/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Session:
    """One session on a domain's shared server, closed by the fixture that opened it."""

    def __init__(self, domain: Shipped, name: str) -> None:
        self.domain = domain
        self.name = name

    def call(self, tool: str, **arguments: Any) -> Row:
        answer: Row = self.domain.server.invoke(self.name, tool, **arguments)
        assert json.loads(json.dumps(answer)) == answer
        return answer

    def authorize(self, person_id: str) -> "Session":
        secret = self.domain.people[person_id][self.domain.secret]
        names = {f"{self.domain.person}_id": person_id, self.domain.secret: secret}
        assert self.call(self.domain.authorize, **names)["success"] is True
        return self

    @property
    def tables(self) -> Any:
        return self.domain.server._get_session(self.name).databases

    def state(self) -> str:
        return json.dumps(self.tables, sort_keys=True)

    def play(self, query: Row) -> list[Row]:
        """Run the reference actions of a query; their results."""
        results: list[Row] = []
        for action in actions_of(query):
            results.append(self.call(action["name"], **resolve_arguments(action, results)))
            assert "error" not in results[-1]
        return results

    def close(self) -> None:
        self.domain.server.close_session(self.name)


def actions_of(query: Row) -> list[Row]:
    actions: list[Row] = query["task_info"]["actions"]
    return actions


def resolve_arguments(action: Row, results: list[Row]) -> Row:
    """The arguments of an action; `{"$from": "INDEX/path"}` is looked up in an earlier result."""
    return {key: _resolve(value, results) for key, value in action["arguments"].items()}


def _resolve(value: Any, results: list[Row]) -> Any:
    if not isinstance(value, dict):
        return value
    index, *path = value["$from"].split("/")
    found: Any = results[int(index)]
    for key in path:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def served(query: Row, domain: Shipped) -> str:
    """The id of the person whom the query authorizes."""
    claimed = actions_of(query)[0]["arguments"]
    (found,) = (who for who, row in domain.people.items() if all(row[key] == claimed[key] for key in claimed))
    return found
