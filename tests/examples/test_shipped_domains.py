"""Every shipped single domain keeps its word: server, tool list, policy, database and queries agree."""

import copy
import hashlib
import json
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from rollout.environments.domains.domain import load_domain
from tests.examples.shipped import (
    NAMES,
    ROOT,
    Row,
    Session,
    Shipped,
    actions_of,
    load_server_module,
    resolve_arguments,
    served,
    shipped,
)

CASES = [(name, query) for name in NAMES for query in shipped(name).queries]
TOOLS = [(name, tool) for name in NAMES for tool in shipped(name).schemas]
COLUMN_OF = {"required_course_id": "course_id"}
"""Foreign keys that are not called as the key they point to."""

each_domain = pytest.mark.parametrize("domain", NAMES, indirect=True)
each_query = pytest.mark.parametrize(
    ("domain", "query"), CASES, indirect=["domain"], ids=[f"{name}-{query['id']}" for name, query in CASES]
)
each_tool = pytest.mark.parametrize(
    ("domain", "tool"), TOOLS, indirect=["domain"], ids=[f"{name}-{tool}" for name, tool in TOOLS]
)


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> Shipped:
    return shipped(request.param)


@pytest.fixture
def session(domain: Shipped, request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(domain, request.node.nodeid)
    yield opened
    opened.close()


@pytest.fixture
def other_session(domain: Shipped, request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(domain, f"{request.node.nodeid} (other)")
    yield opened
    opened.close()


def first_write(domain: Shipped) -> Row:
    """A query that writes."""
    return domain.of_kind("update", "insert")[0]


def call_reads(session: Session) -> None:
    """Every read that needs no argument."""
    for tool, schema in session.domain.schemas.items():
        if tool not in session.domain.writes and not schema["required"]:
            assert "error" not in session.call(tool)


# The reference solutions.


@each_query
def test_reference_actions_run_without_error_and_only_writes_change_the_state(
    domain: Shipped, query: Row, session: Session
) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        before = session.state()
        results.append(session.call(action["name"], **resolve_arguments(action, results)))
        assert "error" not in results[-1]
        assert "needs_confirmation" not in results[-1]
        assert (session.state() != before) == (action["name"] in domain.writes)


@each_query
def test_reference_writes_without_confirm_only_preview(domain: Shipped, query: Row, session: Session) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = resolve_arguments(action, results)
        if action["name"] in domain.writes:
            before = session.state()
            for unconfirmed in ({}, {"confirm": False}):
                without = {key: value for key, value in arguments.items() if key != "confirm"}
                answer = session.call(action["name"], **without, **unconfirmed)
                assert answer["needs_confirmation"] is True
                assert answer["action_preview"]["action"] == action["name"]
                assert session.state() == before
        results.append(session.call(action["name"], **arguments))


@each_query
def test_reference_keeps_the_order_of_turns_and_confirms_every_write(domain: Shipped, query: Row) -> None:
    actions = actions_of(query)
    turns = [action["turn"] for action in actions]
    assert turns == sorted(turns)
    assert set(turns) <= set(range(len(query["task_info"]["replies"])))
    assert 2 <= len(actions) <= 9
    assert actions[0]["name"] == domain.authorize
    assert all(action["arguments"].get("confirm") is True for action in actions if action["name"] in domain.writes)


@each_query
def test_reference_writes_only_after_the_student_has_answered(domain: Shipped, query: Row) -> None:
    assert all(action["turn"] >= 1 for action in actions_of(query) if action["name"] in domain.writes)


@each_query
def test_reference_arguments_fit_the_tool_list(domain: Shipped, query: Row) -> None:
    for action in actions_of(query):
        schema = domain.schemas[action["name"]]
        assert set(schema["required"]) <= set(action["arguments"]) <= set(schema["properties"])
        for key, value in action["arguments"].items():
            wanted = schema["properties"][key]
            assert isinstance(value, dict) or value in wanted.get("enum", [value])
            if isinstance(value, str) and "pattern" in wanted:
                assert re.search(wanted["pattern"], value)


# The queries.


@each_domain
def test_query_ids_are_well_formed_and_difficulties_graded(domain: Shipped) -> None:
    assert len(domain.queries) >= 30
    assert all(re.fullmatch(r"[0-9a-f]{8}", query["id"]) for query in domain.queries)
    assert all(re.fullmatch(r"[0-9a-f]{12}", query["task_info"]["combo_id"]) for query in domain.queries)
    assert {query["task_info"]["difficulty"] for query in domain.queries} == {"easy", "medium", "hard"}


def test_query_ids_are_unique_over_all_domains() -> None:
    ids = [query["id"] for _, query in CASES]
    assert len(set(ids)) == len(ids)


@each_query
def test_trajectory_and_its_hash_follow_from_the_actions(domain: Shipped, query: Row) -> None:
    task = query["task_info"]
    assert task["trajectory"] == [action["name"] for action in actions_of(query)]
    assert task["trajectory_hash"] == hashlib.md5("_".join(task["trajectory"]).encode()).hexdigest()[:12]


@each_query
def test_every_user_message_has_one_reply(domain: Shipped, query: Row) -> None:
    task = query["task_info"]
    assert [message["role"] for message in query["messages"]] == ["user"]
    assert len(task["replies"]) == 1 + len(task["user_turns"])
    assert 1 <= len(task["replies"]) <= 5
    assert all(text.strip() for text in [query["messages"][0]["content"], *task["user_turns"], *task["replies"]])


@each_query
def test_what_must_be_communicated_is_said_in_the_replies(domain: Shipped, query: Row) -> None:
    said = "\n".join(query["task_info"]["replies"])
    assert [text for text in query["task_info"]["communicate"] if text not in said] == []


@each_query
def test_the_brief_has_three_paragraphs_and_no_markers_or_tool_names(domain: Shipped, query: Row) -> None:
    brief = query["user_system_prompt"]
    assert len(brief.split("\n\n")) == 3
    assert brief.split("\n\n")[0] == query["task_info"]["reason_for_call"]
    assert "[[" not in brief
    assert [tool for tool in domain.schemas if tool in brief] == []


@each_query
def test_marked_values_occur_in_the_brief(domain: Shipped, query: Row) -> None:
    marked = re.findall(r"\[\[(.+?)\]\]", query["task_info"]["instruction"])
    assert [value for value in marked if value not in query["user_system_prompt"]] == []


@each_query
def test_the_user_tells_no_number_or_identifier_that_the_brief_lacks(domain: Shipped, query: Row) -> None:
    told = " ".join([query["messages"][0]["content"], *query["task_info"]["user_turns"]])
    facts = [fact.strip(".") for fact in re.findall(r"\S*[\d@]\S*", told.replace(",", " ").replace("?", " "))]
    brief = query["user_system_prompt"].replace(",", " ")
    assert [fact for fact in facts if fact not in brief] == []


@each_query
def test_known_info_lists_the_person_as_the_database_has_them(domain: Shipped, query: Row) -> None:
    known = query["task_info"]["known_info"]
    assert known.startswith(f"# Entity Instances\n## {domain.person.capitalize()}\n")
    secret = re.search(rf"- {domain.secret}: (\S+)", known)
    assert secret is not None
    assert secret[1] in query["user_system_prompt"]
    assert actions_of(query)[0]["arguments"][domain.secret] == secret[1]
    assert domain.people[served(query, domain)][domain.secret] == secret[1]


@each_domain
@pytest.mark.parametrize("kind", ["read", "refuse"])
def test_tasks_that_are_to_be_answered_or_refused_have_no_write(domain: Shipped, kind: str) -> None:
    tasks = domain.of_kind(kind)
    assert len(tasks) >= 5
    assert [query["id"] for query in tasks if domain.writes & set(query["task_info"]["trajectory"])] == []


@each_domain
def test_every_other_kind_of_task_has_a_write(domain: Shipped) -> None:
    kinds = {"update", "insert", "delete", "multi_write", "alternative", "two_goals"}
    tasks = [query for query in domain.queries if query["task_info"]["kind"] not in ("read", "refuse")]
    assert {query["task_info"]["kind"] for query in tasks} == kinds
    assert all(domain.writes & set(query["task_info"]["trajectory"]) for query in tasks)
    trajectories = [query["task_info"]["trajectory"] for query in domain.of_kind("multi_write")]
    assert all(sum(name in domain.writes for name in trajectory) >= 2 for trajectory in trajectories)


@each_domain
def test_delete_only_tasks_remove_rows_and_change_no_other(domain: Shipped, request: pytest.FixtureRequest) -> None:
    assert domain.of_kind("delete")
    for query in domain.of_kind("delete"):
        session = Session(domain, f"{request.node.nodeid} {query['id']}")
        session.play(query)
        after = session.tables
        (touched,) = (table for table, rows in domain.tables.items() if after[table] != rows)
        assert len(after[touched]) < len(domain.tables[touched])
        assert all(row in domain.tables[touched] for row in after[touched])
        session.close()


# The tool list, the policy and the server.


@each_domain
def test_tool_list_and_server_have_the_same_tools(domain: Shipped) -> None:
    assert list(domain.schemas) == list(domain.module.TOOLS)
    assert len(domain.tool_list) == len(domain.schemas) <= 16
    assert sum(name.startswith("authorize") for name in domain.schemas) == 1


@each_tool
def test_schema_agrees_with_the_signature_of_the_tool(domain: Shipped, tool: str) -> None:
    schema, declared_tool = domain.schemas[tool], domain.module.TOOLS[tool]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == list(declared_tool.parameters)
    assert schema["required"] == declared_tool.required
    for name, declared in schema["properties"].items():
        assert declared["description"]
        kind = declared_tool.parameters[name].annotation
        kind = get_args(kind)[0] if get_origin(kind) not in (None, Literal) else kind
        if get_origin(kind) is Literal:
            assert declared["enum"] == list(get_args(kind))
        else:
            assert declared["type"] == {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]
        if name not in schema["required"] and declared_tool.parameters[name].default is not None:
            assert declared["default"] == declared_tool.parameters[name].default


@each_domain
def test_policy_describes_every_tool_and_has_no_comments(domain: Shipped) -> None:
    assert "<!--" not in domain.policy, "comments would be sent to the model"
    blocks = dict(re.findall(r"^### ([a-z_]+)\n(.*?)(?=^### |\Z)", domain.policy, re.DOTALL | re.MULTILINE))
    assert list(blocks) == list(domain.schemas)
    headings = ("Purpose", "Preconditions", "Input validation", "Permission outcomes", "Effects")
    assert all(f"**{heading}:**" in block for block in blocks.values() for heading in headings)


def test_policy_of_a_user_is_sent_as_it_is_written_comments_and_all(tmp_path: Path) -> None:
    policy = tmp_path / "policy.md"
    policy.write_text("<!-- POLICY_START -->\n# Rules\n<!-- TOOL: a -->\n<!-- POLICY_END -->\n")
    domain = load_domain(ROOT, "HotelReservations", (), policy)
    assert domain.policy == policy.read_text()


@each_domain
def test_unknown_tools_are_refused_and_attributes_are_no_tools(domain: Shipped, session: Session) -> None:
    for name in (f"x.{domain.authorize}", "close_session", "_get_session", "_authorize", "_insert", "__init__", ""):
        assert session.call(name)["error"].startswith("Unknown tool")


@each_tool
def test_arguments_that_do_not_fit_the_signature_are_refused(domain: Shipped, tool: str, session: Session) -> None:
    session.authorize(next(iter(domain.people)))
    before = session.state()
    schema = domain.schemas[tool]
    assert f"Unknown argument(s) for {tool}: nonsense" in session.call(tool, nonsense=1)["error"]
    valid = {"string": "x", "number": 1.0, "integer": 1, "boolean": False}
    full = {key: wanted.get("enum", [valid[wanted["type"]]])[0] for key, wanted in schema["properties"].items()}
    for key in schema["required"]:
        without = {other: value for other, value in full.items() if other != key}
        assert f"Missing argument(s) for {tool}: {key}" in session.call(tool, **without)["error"]
        assert "Missing" in session.call(tool, **without, **{key: None})["error"]
    for key, wanted in schema["properties"].items():
        assert f"'{key}' of {tool} must be " in session.call(tool, **{**full, key: ["x"]})["error"]
        if wanted["type"] != "boolean":
            assert f"'{key}' of {tool} must be " in session.call(tool, **{**full, key: True})["error"]
        if wanted["type"] == "string":
            assert f"'{key}' of {tool} must " in session.call(tool, **{**full, key: " "})["error"]
        if "enum" in wanted:
            assert "must be one of: " in session.call(tool, **{**full, key: "something else"})["error"]
    assert session.state() == before


@each_tool
def test_null_for_an_optional_argument_counts_as_not_given(domain: Shipped, tool: str, session: Session) -> None:
    session.authorize(next(iter(domain.people)))
    schema = domain.schemas[tool]
    if not schema["required"]:
        assert session.call(tool, **dict.fromkeys(schema["properties"])) == session.call(tool)


# Authorization and isolation.


@each_tool
def test_nothing_works_before_authorization(domain: Shipped, tool: str, session: Session) -> None:
    before = session.state()
    if tool != domain.authorize:
        assert f"{domain.authorize} first" in session.call(tool, confirm=True)["error"]
    who = next(iter(domain.people))
    session.call(domain.authorize, **{f"{domain.person}_id": who, domain.secret: "000000"})
    if tool != domain.authorize:
        assert f"{domain.authorize} first" in session.call(tool)["error"]
    assert session.state() == before


@each_domain
def test_authorization_needs_matching_details_and_locks_after_three_failures(domain: Shipped, session: Session) -> None:
    key = f"{domain.person}_id"
    (who, row), (other, _) = list(domain.people.items())[:2]
    secret = {domain.secret: row[domain.secret]}
    assert f"{key} or email" in session.call(domain.authorize, **secret)["error"]
    for details in ({key: other}, {"email": "nobody@mailbox.example"}, {key: f"{who} "}):
        assert "do not match" in session.call(domain.authorize, **secret, **details)["error"]
    assert "locked" in session.call(domain.authorize, **{key: who}, **secret)["error"]


@each_domain
def test_id_and_email_must_belong_together_and_letter_case_of_the_email_is_free(
    domain: Shipped, session: Session
) -> None:
    key = f"{domain.person}_id"
    (who, row), (_, other) = list(domain.people.items())[:2]
    claimed = {key: who, domain.secret: row[domain.secret]}
    assert "do not match" in session.call(domain.authorize, **claimed, email=other["email"])["error"]
    assert session.call(domain.authorize, **claimed, email=row["email"].upper())["success"] is True


@each_domain
def test_a_session_serves_one_person_only(domain: Shipped, session: Session) -> None:
    key = f"{domain.person}_id"
    (who, _), (other, row) = list(domain.people.items())[:2]
    session.authorize(who)
    answer = session.call(domain.authorize, **{key: other, domain.secret: row[domain.secret]})
    assert f"one {domain.person} only" in answer["error"]
    assert domain.server._get_session(session.name).authorized_id == who


@each_query
def test_writes_to_one_persons_rows_are_refused_to_another(
    domain: Shipped, query: Row, session: Session, other_session: Session
) -> None:
    key, owner = f"{domain.person}_id", served(query, domain)
    owned = {
        row[f"{table.lower()}_id"]
        for table, rows in domain.tables.items()
        for row in rows
        if row.get(key) == owner and table.lower() != domain.person
    }
    stranger = next(who for who in domain.people if who != owner)
    other_session.authorize(stranger)
    before = other_session.state()
    results: list[Row] = []
    for action in actions_of(query):
        arguments = resolve_arguments(action, results)
        results.append(session.call(action["name"], **arguments))
        if action["name"] in domain.writes and owned & {str(value) for value in arguments.values()}:
            assert "error" in other_session.call(action["name"], **arguments)
    assert other_session.state() == before


@each_query
def test_answers_show_no_secret_and_no_other_person(domain: Shipped, query: Row, session: Session) -> None:
    results = session.play(query)
    text = json.dumps(results)
    assert domain.secret not in text
    assert {who for who in domain.people if who in text} == {served(query, domain)}


@each_domain
def test_two_sessions_do_not_see_each_others_changes(domain: Shipped, session: Session, other_session: Session) -> None:
    query = first_write(domain)
    other_session.authorize(served(query, domain))
    untouched = other_session.state()
    session.play(query)
    assert session.state() != untouched
    assert other_session.state() == untouched
    assert domain.server._tables == domain.tables


@each_domain
def test_a_closed_session_is_forgotten(domain: Shipped, session: Session) -> None:
    session.play(first_write(domain))
    domain.server.close_session(session.name)
    assert json.loads(session.state()) == domain.tables
    (read, *_) = (tool for tool in domain.schemas if tool != domain.authorize)
    assert f"{domain.authorize} first" in session.call(read)["error"]
    domain.server.close_session("never opened")


@each_domain
def test_session_tables_show_every_table(domain: Shipped, session: Session) -> None:
    tables = session.tables
    assert len(tables) == len(domain.tables)
    assert list(tables) == list(domain.tables)
    assert json.loads(json.dumps(tables)) == domain.tables
    assert tables.get("Nothing") is None


@each_domain
@pytest.mark.parametrize("way", range(9))
def test_session_tables_never_lend_rows_for_writing(domain: Shipped, way: int, session: Session) -> None:
    tables, name = session.tables, list(domain.tables)[-1]
    ways: list[Any] = [
        lambda: tables[name],
        lambda: tables.get(name),
        lambda: dict(tables)[name],
        lambda: {**tables}[name],
        lambda: dict(tables.items())[name],
        lambda: list(tables.values())[-1],
        lambda: tables.copy()[name],
        lambda: copy.deepcopy(tables)[name],
        lambda: pickle.loads(pickle.dumps(tables))[name],
    ]
    rows = ways[way]()
    rows[0].clear()
    rows.clear()
    assert domain.server._tables == domain.tables


@each_domain
def test_a_copy_of_session_tables_keeps_changes_and_goes_its_own_way(domain: Shipped, session: Session) -> None:
    tables, (one, *_, other) = session.tables, domain.tables
    tables[one][0]["changed"] = "before"
    twin = copy.deepcopy(tables)
    tables[one][0]["changed"] = "after"
    twin[other].clear()
    assert twin[one][0]["changed"] == "before"
    assert tables[other] == domain.tables[other]


@each_domain
def test_a_session_restored_from_pickled_fields_goes_on_where_it_was(
    domain: Shipped, session: Session, other_session: Session
) -> None:
    *earlier, last = actions_of(query := first_write(domain))
    results: list[Row] = []
    for action in earlier:
        results.append(session.call(action["name"], **resolve_arguments(action, results)))
    fields = pickle.loads(pickle.dumps(vars(domain.server._get_session(session.name))))
    vars(domain.server._get_session(other_session.name)).update(fields)
    assert other_session.state() == session.state()
    assert last["name"] in domain.writes, query["id"]
    assert other_session.call(last["name"], **resolve_arguments(last, results))["success"] is True
    assert other_session.state() != session.state()
    assert domain.server._tables == domain.tables


@each_domain
def test_reading_copies_no_table(domain: Shipped, session: Session) -> None:
    session.authorize(served(domain.queries[0], domain))
    call_reads(session)
    assert not any(table.is_own for table in session.tables.values())


@each_domain
def test_opening_a_session_copies_no_table(domain: Shipped, session: Session) -> None:
    tables = session.tables
    assert not any(table.is_own for table in tables.values())
    assert all(tables[name].base is table.base for name, table in domain.server._tables.items())


@each_domain
def test_the_server_may_be_shared_and_called_without_a_thread(domain: Shipped) -> None:
    assert domain.server.isolates_sessions is True
    assert domain.server.is_quick is True


@each_domain
def test_new_ids_come_from_the_uuid_module_that_the_engine_may_replace(
    domain: Shipped, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Seeded:
        @staticmethod
        def uuid4() -> str:
            return "seeded-id"

    monkeypatch.setattr(domain.module, "uuid", Seeded)
    assert "seeded-id" in session.play(domain.of_kind("insert")[0])[-1].values()


@each_domain
def test_the_database_is_found_from_the_file_of_the_server_module(domain: Shipped, tmp_path: Any) -> None:
    shutil.copytree(ROOT / "database", tmp_path / "database")
    people = tmp_path / "database/outputs/entities" / f"{domain.person.capitalize()}.json"
    people.write_text(json.dumps([row | {"last_name": "Elsewhere"} for row in domain.people.values()]))
    module = load_server_module(domain.name)
    module.__file__ = str(tmp_path / f"mcp_servers/{domain.name}.py")
    server = getattr(module, f"{domain.name}Server")(domain.name)
    who, row = next(iter(domain.people.items()))
    claimed = {f"{domain.person}_id": who, domain.secret: row[domain.secret]}
    assert server.invoke("s", domain.authorize, **claimed)["name"].endswith(" Elsewhere")


@each_domain
def test_a_fused_domain_reads_the_folders_of_its_own_name(domain: Shipped, tmp_path: Any) -> None:
    outputs, fused = tmp_path / "database/outputs", f"{domain.name}_Other"
    shutil.copytree(ROOT / "database/outputs/entities", outputs / "entities" / fused)
    shutil.copytree(ROOT / f"database/outputs/relationships/{domain.name}", outputs / "relationships" / fused)
    module = load_server_module(domain.name)
    module.__file__ = str(tmp_path / f"mcp_servers/{domain.name}.py")
    assert getattr(module, f"{domain.name}Server")(fused)._tables == domain.tables


# The database.


@each_domain
def test_rows_are_flat_and_primary_keys_unique(domain: Shipped) -> None:
    for table, rows in domain.tables.items():
        key = f"{table.lower()}_id"
        assert len({row[key] for row in rows}) == len(rows) > 0
        assert {tuple(row) for row in rows} == {tuple(rows[0])}
        assert not any(isinstance(value, dict | list) for row in rows for value in row.values())


@each_domain
def test_foreign_keys_resolve(domain: Shipped) -> None:
    entities = {path.stem: json.loads(path.read_text()) for path in (ROOT / "database/outputs/entities").glob("*.json")}
    tables = entities | domain.tables
    keys = {f"{table.lower()}_id": {row[f"{table.lower()}_id"] for row in rows} for table, rows in tables.items()}
    for table, rows in domain.tables.items():
        for column in rows[0]:
            if column.endswith("_id"):
                assert {row[column] for row in rows} <= keys[COLUMN_OF.get(column, column)], (table, column)


@each_domain
def test_database_is_small(domain: Shipped) -> None:
    assert len(json.dumps(domain.tables)) < 400_000


@each_domain
def test_logins_are_unambiguous(domain: Shipped) -> None:
    people = domain.people.values()
    assert len({row["email"] for row in people}) == len(people)
    assert all(row["email"] == row["email"].lower() for row in people)
    pattern = domain.schemas[domain.authorize]["properties"][domain.secret]["pattern"]
    assert all(re.fullmatch(pattern, row[domain.secret]) for row in people)
