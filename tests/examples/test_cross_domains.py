"""Every shipped cross domain keeps its word: each query needs all its servers, and its reference solution works.

Only queries and policies lie in `cross_domain`; servers, tool lists and tables are those of the single domains.
"""

import hashlib
import json
import re
from collections.abc import Iterator

import pytest

from tests.examples.crossed import BASE, COMBINATIONS, Crossed, World, crossed, server_of
from tests.examples.shipped import NAMES, Row, actions_of, resolve_arguments, shipped

CASES = [(name, query) for name in COMBINATIONS for query in crossed(name).queries]
KINDS = {"read", "insert", "update", "delete", "multi_write", "two_goals", "alternative", "refuse"}

each_cross = pytest.mark.parametrize("cross", COMBINATIONS, indirect=True)
each_query = pytest.mark.parametrize(
    ("cross", "query"), CASES, indirect=["cross"], ids=[f"{name}-{query['id']}" for name, query in CASES]
)


@pytest.fixture
def cross(request: pytest.FixtureRequest) -> Crossed:
    return crossed(request.param)


@pytest.fixture
def world(cross: Crossed) -> Iterator[World]:
    opened = World(cross)
    yield opened
    opened.close()


# The reference solutions.


@each_query
def test_reference_actions_succeed_on_all_servers_and_only_writes_change_the_state(
    cross: Crossed, query: Row, world: World
) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        before = world.changes()
        results.append(world.call(action["name"], **resolve_arguments(action, results)))
        assert "error" not in results[-1]
        assert "needs_confirmation" not in results[-1]
        assert (world.changes() != before) == cross.is_write(action["name"])
    assert {server_of(action) for action in actions_of(query)} == set(cross.servers)


@each_query
def test_reference_writes_without_confirm_only_preview(cross: Crossed, query: Row, world: World) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = resolve_arguments(action, results)
        if cross.is_write(action["name"]):
            before = world.changes()
            assert world.call(action["name"], **arguments | {"confirm": False})["needs_confirmation"] is True
            assert world.changes() == before
        results.append(world.call(action["name"], **arguments))


@each_query
def test_reference_writes_are_confirmed_and_come_after_an_answer_of_the_person(cross: Crossed, query: Row) -> None:
    turns = [action["turn"] for action in actions_of(query)]
    assert turns == sorted(turns)
    assert set(turns) <= set(range(len(query["task_info"]["replies"])))
    for action in cross.writes_of(query):
        assert action["turn"] >= 1
        assert action["arguments"]["confirm"] is True


@each_query
def test_reference_arguments_fit_the_tools_as_they_are_offered(cross: Crossed, query: Row) -> None:
    offered = {spec.name: spec.parameters for spec in cross.domain.toolset.specs}
    for action in actions_of(query):
        schema = offered[str(cross.domain.offered(action["name"]))]
        assert set(schema["required"]) <= set(action["arguments"]) <= set(schema["properties"])


@each_query
def test_each_server_is_asked_only_after_the_same_person_was_authorized_there(cross: Crossed, query: Row) -> None:
    authorized: dict[str, Row] = {}
    for action in actions_of(query):
        if action["name"].endswith(f".authorize_{cross.person}"):
            authorized[server_of(action)] = action["arguments"]
        assert server_of(action) in authorized
    (claimed, *others) = authorized.values()
    assert all(other == claimed for other in others)
    assert all(f"- {key}: {value}" in query["task_info"]["known_info"] for key, value in claimed.items())


@each_query
def test_answers_show_no_secret_and_no_other_person(cross: Crossed, query: Row, world: World) -> None:
    text = json.dumps(world.play(query))
    assert [server.secret for server in cross.servers.values() if server.secret in text] == []
    assert {who for who in cross.people if who in text} == {cross.served(query)}


@each_cross
def test_authorization_in_one_system_opens_only_that_one(cross: Crossed, world: World) -> None:
    (one, first), *others = cross.servers.items()
    who, row = next(iter(cross.people.items()))
    claimed = {f"{first.person}_id": who, first.secret: row[first.secret]}
    assert world.call(f"{one}.{first.authorize}", **claimed)["success"] is True
    for name, server in others:
        read = next(tool for tool in server.schemas if tool != server.authorize)
        assert f"{server.authorize} first" in world.call(f"{name}.{read}")["error"]


# The queries.


@each_cross
def test_there_are_many_queries_of_every_kind_and_difficulty(cross: Crossed) -> None:
    assert len(cross.queries) >= 22
    assert {query["task_info"]["kind"] for query in cross.queries} == KINDS
    assert {query["task_info"]["difficulty"] for query in cross.queries} == {"easy", "medium", "hard"}
    assert len(cross.of_kind("refuse")) >= 5
    assert len(cross.of_kind("read")) >= 3


@each_query
def test_a_query_writes_unless_it_is_to_be_answered_or_refused(cross: Crossed, query: Row) -> None:
    assert bool(cross.writes_of(query)) == (query["task_info"]["kind"] not in ("read", "refuse"))


@each_cross
def test_delete_tasks_remove_rows_and_change_no_other(cross: Crossed) -> None:
    for query in cross.of_kind("delete"):
        world = World(cross)
        world.play(query)
        assert all(change.removed and not change.added for change in world.changes().values())
        world.close()


def test_ids_are_well_formed_and_unique_over_all_shipped_queries() -> None:
    ids = [query["id"] for _, query in CASES] + [query["id"] for name in NAMES for query in shipped(name).queries]
    assert all(re.fullmatch(r"[0-9a-f]{8}", query_id) for query_id in ids)
    assert len(set(ids)) == len(ids)


@each_query
def test_trajectory_names_the_server_of_each_tool_and_its_hash_follows(cross: Crossed, query: Row) -> None:
    task = query["task_info"]
    assert task["trajectory"] == [action["name"] for action in actions_of(query)]
    assert task["trajectory_hash"] == hashlib.md5("_".join(task["trajectory"]).encode()).hexdigest()[:12]
    assert all("." in name and cross.domain.offered(name) for name in task["trajectory"])
    assert re.fullmatch(r"[0-9a-f]{12}", task["combo_id"])


@each_query
def test_the_parts_of_a_query_agree_with_each_other(cross: Crossed, query: Row) -> None:
    task, brief = query["task_info"], query["user_system_prompt"]
    assert [message["role"] for message in query["messages"]] == ["user"]
    assert len(task["replies"]) == 1 + len(task["user_turns"])
    assert [text for text in task["communicate"] if text not in "\n".join(task["replies"])] == []
    reason, instruction, _ = brief.split("\n\n")
    assert reason == task["reason_for_call"]
    assert instruction == re.sub(r"\[\[(.+?)\]\]", r"\1", task["instruction"])
    assert [route.tool for route in cross.domain.routes.values() if route.tool in brief] == []


@each_query
def test_the_user_tells_no_number_or_identifier_that_the_brief_lacks(cross: Crossed, query: Row) -> None:
    told = " ".join([query["messages"][0]["content"], *query["task_info"]["user_turns"]])
    facts = [fact.strip(".") for fact in re.findall(r"\S*[\d@]\S*", re.sub(r"[,?]", " ", told))]
    brief = re.sub(r"[(),]", " ", query["user_system_prompt"])
    assert [fact for fact in facts if fact not in brief] == []


# The policies.


@each_cross
def test_the_policy_is_found_and_describes_every_tool_under_its_offered_name(cross: Crossed) -> None:
    assert cross.policy in [path.read_text(encoding="utf-8") for path in (BASE / "policies").glob("*.md")]
    blocks = re.findall(r"^### (\w+)\n(?:- \*\*.+\n){5}", cross.policy, re.MULTILINE)
    assert blocks == [spec.name for spec in cross.domain.toolset.specs]
    assert "<!--" not in cross.policy


@each_cross
def test_the_rules_of_the_policy_are_numbered_and_those_it_refers_to_are_there(cross: Crossed) -> None:
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", cross.policy, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    named = re.findall(r"[Rr]ules? ((?:\d+(?:, | and | to )?)+)", cross.policy)
    assert {int(number) for text in named for number in re.findall(r"\d+", text)} <= set(numbers)
