"""Whatever a run is like, each endpoint answers: with what is on record or with what is wrong, never with a 500."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from rollout import Request, run
from rollout.core.errors import ModelError
from rollout.core.secrets import register
from rollout.store.files.filter_file import write_records
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import FILTERS
from rollout.testing import StubServer
from rollout.trajectories.filters.filtering import digest_of
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.generation import Tokens
from rollout.viewer.app import ENDPOINTS
from tests.api.shop import shop
from tests.conftest import Command, roll_out, stub_config, write_tasks
from tests.engine.test_as_sent import OWN_TOOL, REASONING
from tests.viewer.writing import WrittenRun, answer, result, user

Client = Callable[..., TestClient]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"


def get(person: TestClient, path: str, status: int = 200, **query: Any) -> Any:
    answered = person.get(f"/api/{path}", params=query)
    assert answered.status_code == status, answered.text
    return answered.json()


@pytest.mark.parametrize("name", ["finished", "half", "web"])
def test_runs_of_earlier_versions_are_shown(client: Client, name: str) -> None:
    shutil.copytree(FIXTURES / name / "run", "run")
    person = client()
    page = get(person, "runs/run")
    assert page["row"]["problem"] is None
    assert page["index"]["is_ready"]
    table = get(person, "runs/run/trajectories")
    assert table["total"] == page["row"]["finished"] > 0
    assert get(person, "runs/run/series")["finished"][-1] == table["total"]
    for row in table["rows"]:
        key = {"dataset": row["dataset"], "id": row["id"]}
        shown = get(person, "runs/run/trajectory", **key)
        assert shown["messages"]
        assert shown["has"]["nodes"]
        assert get(person, "runs/run/tokens", **key)["note"]
        tree = get(person, "runs/run/tree", dataset=row["dataset"], task=row["task_id"])
        leaves = [node["leaf"]["id"] for node in tree["nodes"] if node["leaf"]]
        assert row["id"] in leaves
        assert tree["leaves"] == len(leaves)
        steps = sum(message["speaker"] == "agent" for message in shown["messages"])
        for step in range(1, steps + 1):
            assert get(person, "runs/run/sent", step=step, **key)["messages"]
        get(person, "runs/run/sent", 404, step=steps + 1, **key)
        for message in shown["messages"]:
            for image in [*message["images"], *(each for call in message["calls"] for each in call["images"])]:
                assert person.get(f"/api/runs/run/blobs/{image}").status_code == 200


def test_ids_of_any_kind_come_through_addresses(client: Client) -> None:
    written = WrittenRun()
    names = ["with/slash", 'quo"te', "it's", "ünïcode 漢字", "a b+c&d=e", "%2e%2e/x", "<script>alert(1)</script>", "#?"]
    for name in names:
        written.add(name, [answer("x")], dataset='odd/"set"')
    person = client()
    for name in names:
        found = get(person, "runs/run/trajectory", dataset='odd/"set"', id=name)
        assert found["id"] == name
        [row] = get(person, "runs/run/trajectories", task=name)["rows"]
        assert row["id"] == name
        assert get(person, "runs/run/neighbours", of='odd/"set"', id=name)["total"] == len(names)


def test_what_is_not_there_is_said_so(client: Client) -> None:
    WrittenRun().add("a", [answer("x")])
    person = client()
    for path, query in {
        "runs/none": {},
        "runs/run/trajectory": {"dataset": "data", "id": "b"},
        "runs/run/tree": {"dataset": "data", "task": "b"},
        "runs/run/sent": {"dataset": "data", "id": "a", "step": 2},
    }.items():
        assert "there is no" in get(person, path, 404, **query)["error"] or path == "runs/run/tree"
    for path, query in {
        "runs/run/trajectory": {"dataset": "data"},
        "runs/run/trajectories": {"limit": "many"},
        "runs/run/queue": {"kind": "best"},
        "runs/run/series": {"x": 1},
    }.items():
        assert get(person, path, 400, **query)["error"]


@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "nonsense", "no run file"])
def test_a_damaged_journal_is_a_problem_of_its_run_and_of_no_other(client: Client, damage: str) -> None:
    for name in ("good", "bad"):
        written = WrittenRun(Path("runs") / name)
        for number in range(50):
            written.add(f"t{number}", [answer("word " * 50)])
        written.close()
    journal = Path("runs/bad/journal.db")
    data = journal.read_bytes()
    if damage == "gone":
        journal.unlink()
    elif damage == "no run file":
        Path("runs/bad/run.json").write_text("{not json")
    else:
        broken = {"empty": b"", "torn": data[: len(data) // 2], "nonsense": data[:4096] + b"\xff" * (len(data) - 4096)}
        journal.write_bytes(broken[damage])
    person = client(Path("runs"))
    rows = {row["name"]: row for row in get(person, "runs")}
    assert rows["good"]["problem"] is None
    assert rows["bad"]["problem"]
    page = get(person, "runs/bad")
    assert page["row"]["problem"]
    key = {"dataset": "data", "id": "t3"}
    for path, query in {
        "trajectories": {}, "series": {}, "trajectory": key, "tree": {"dataset": "data", "task": "t3"},
        "sent": {**key, "step": 1}, "tokens": key, "neighbours": key, "queue": {},
    }.items():  # fmt: skip
        answered = person.get(f"/api/runs/bad/{path}", params=query)
        assert answered.status_code in (200, 404, 409), answered.text
        assert answered.status_code == 200 or answered.json()["error"]
    assert get(person, "runs/good/trajectories")["total"] == 50


def test_an_answer_holds_no_secret(client: Client) -> None:
    register("a-very-secret-value-of-ours")
    WrittenRun().add("a", [answer("it is a-very-secret-value-of-ours, really")])
    person = client()
    for path, query in {"trajectory": {"dataset": "data", "id": "a"}, "trajectories": {"q": "really"}}.items():
        assert "very-secret" not in person.get(f"/api/runs/run/{path}", params=query).text


def test_a_task_of_which_each_attempt_failed_has_an_empty_tree(client: Client) -> None:
    WrittenRun().add("a", [answer("broken")], status="failed", error={"kind": "model", "text": "gone"})
    tree = get(client(), "runs/run/tree", dataset="data", task="a")
    assert (tree["nodes"], tree["leaves"]) == ([], 0)


def test_a_number_in_an_address_that_is_too_large_is_refused(client: Client) -> None:
    WrittenRun().add("a", [answer("x")])
    headers = {"x-rollout": "1", "content-type": "application/json"}
    for number in ("9" * 30, "-1", "1e3", "９"):
        assert client().delete(f"/api/runs/run/marks/{number}", headers=headers).status_code == 404


def test_the_command_that_shows_an_attempt_takes_its_id_for_no_option(client: Client) -> None:
    written = WrittenRun()
    for name in ("-dash", "plain"):
        written.add(name, [answer("x")])
    person = client()
    shown = [
        get(person, "runs/run/trajectory", dataset="data", id=name)["commands"]["show"] for name in ("-dash", "plain")
    ]
    assert shown[0].endswith(" --full -- run -dash")
    assert shown[1].endswith(" --full run plain")


def test_what_people_grew_is_in_the_tree_of_its_task(client: Client) -> None:
    written = WrittenRun()
    nodes = [answer(None, ("search", {})), result("found"), answer("wrong")]
    written.add("t", nodes, reward=0.0)
    people = WrittenRun(Path("run/people"), first_episode=1 << 40)
    copy = people.add("t", nodes, is_ended=False)
    corrected = answer("right", is_scripted=True)
    marked = msgspec.structs.replace(corrected, author="Ada")
    people.add("t~+1", [marked], task="t", branch=(copy, 1), author="Ada")
    person = client()
    tree = get(person, "runs/run/tree", dataset="data", task="t")
    assert tree["leaves"] == 2
    trunk, *ends = tree["nodes"]
    assert [node["parent"] for node in ends] == [trunk["id"]] * 2
    assert trunk["visits"] == 2
    assert {(node["leaf"]["id"], node["author"]) for node in ends} == {("t", None), ("t~+1", "Ada")}
    page = get(person, "runs/run/trajectory", dataset="data", id="t~+1")
    assert page["author"] == page["messages"][-1]["author"] == "Ada"
    assert [sibling["id"] for sibling in page["siblings"]] == ["t"]
    assert "no model was asked" in get(person, "runs/run/sent", dataset="data", id="t~+1", step=2)["note"]


def test_of_a_task_with_many_attempts_the_first_are_listed_and_all_counted(client: Client) -> None:
    written = WrittenRun()
    for number in range(50):
        written.add(f"t~{number}", [answer("x")], task="t")
    page = get(client(), "runs/run/trajectory", dataset="data", id="t~3")
    assert page["sibling_count"] == 49
    assert [sibling["id"] for sibling in page["siblings"]] == [f"t~{number}" for number in range(41) if number != 3]


def test_time_is_told_by_nodes_that_know_when_they_were_added(client: Client) -> None:
    nodes = [
        msgspec.structs.replace(node, added=1000.0 + at)
        for node, at in (
            (answer(None, ("search", {})), 1.0),
            (result("found"), 4.0),
            (answer("so"), 5.0),
            (user("and?"), 5.0),
            (answer("done"), 5.5),
        )
    ]
    WrittenRun().add("t", nodes, finished=1005.5)
    page = get(client(), "runs/run/trajectory", dataset="data", id="t")
    spans = [(span["kind"], span["message"], span["start"], span["seconds"]) for span in page["spans"]]
    assert spans == [
        ("model", 1, 0.0, 0.5), ("tool", 2, 0.5, 3.0), ("wait", 3, 3.5, 0.5), ("model", 3, 4.0, 0.5),
        ("model", 5, 4.5, 0.5),
    ]  # fmt: skip
    assert [message["at"] for message in page["messages"]] == [None, 1001.0, 1005.0, 1005.0, 1005.5]
    assert page["context"] == [{"message": place, "prompt_tokens": 100} for place in (1, 3, 5)]


def test_time_is_put_together_where_nodes_do_not_know_it(client: Client) -> None:
    WrittenRun().add("t", [answer(None, ("search", {})), result("found"), answer("so")])
    spans = get(client(), "runs/run/trajectory", dataset="data", id="t")["spans"]
    assert [(span["kind"], span["start"], span["seconds"]) for span in spans] == [
        ("model", 0.0, 0.5),
        ("model", 0.5, 0.5),
    ]


def test_the_step_at_which_two_attempts_part(client: Client) -> None:
    for name, query in (("one", "tea"), ("two", "coffee")):
        written = WrittenRun(Path("runs") / name)
        written.add(
            "t",
            [answer(None, ("open", {})), result("ok"), answer(None, ("search", {"q": query})), result("found")],
            scored=True,
            success=name == "two",
            reward=float(name == "two"),
        )
    person = client(Path("runs"))
    found = get(person, "parting", first="one", second="two", dataset="data", first_id="t", second_id="t")
    assert (found["step"], found["first_message"], found["second_message"]) == (2, 3, 3)
    assert "tea" in found["first"]
    diff = get(person, "diff", first="one", second="two")
    assert (diff["gained"], diff["lost"], diff["flips"][0]["task_id"]) == (1, 0, "t")


def test_a_comparison_of_differently_named_datasets_leads_to_both_attempts(client: Client) -> None:
    for version in (1, 2):
        written = WrittenRun(Path("runs") / f"run{version}")
        judged = {"scored": True, "success": version == 2, "reward": float(version == 2)}
        written.add("t", [answer(None, ("search", {"v": version}))], dataset=f"shop_v{version}", **judged)
    person = client(Path("runs"))
    (flip,) = get(person, "diff", first="run1", second="run2")["flips"]
    for name, dataset, side in (("run1", "dataset", "first_id"), ("run2", "second_dataset", "second_id")):
        shown = get(person, f"runs/{name}/trajectory", dataset=flip[dataset], id=flip["parting"][side])
        assert shown["id"] == "t"


def test_a_comparison_names_the_tasks_without_a_verdict_in_one_run(client: Client) -> None:
    for name in ("one", "two"):
        written = WrittenRun(Path("runs") / name)
        written.add("judged", [answer("x")], scored=True, success=True)
        written.add("t", [answer("x")], scored=name == "one", success=name == "one")
    diff = get(client(Path("runs")), "diff", first="one", second="two")
    assert (diff["shared"], diff["compared"], diff["unscored"]) == (2, 1, [["data", "t"]])


def test_a_verdict_of_filters_is_shown_for_the_attempt_that_it_was_made_of(client: Client, rollout: Command) -> None:
    is_down = True

    async def model(request: Request) -> str:
        if is_down:
            raise ModelError("the server is down")
        return "Done."

    run(shop, model=model, run_dir="runs/shop", progress=False)
    key = {"dataset": "Cart", "id": "t1"}
    assert rollout("filter", "runs/shop").code == 0
    person = client(Path("runs"))
    assert get(person, "runs/shop/trajectory", **key)["filtered"]["verdict"] == "drop"
    assert "infrastructure" in rollout("show", "runs/shop", "t1").out
    is_down = False
    run(shop, model=model, run_dir="runs/shop", progress=False)
    shown = get(person, "runs/shop/trajectory", **key)
    assert (shown["status"], shown["filtered"]) == ("completed", None)
    assert "infrastructure" not in rollout("show", "runs/shop", "t1").out


def test_no_token_of_a_dropped_attempt_is_shown_as_learnt(client: Client) -> None:
    WrittenRun().add("t", [answer("x", tokens=Tokens.of(prompt_ids=(1, 2), completion_ids=(3, 4)))])
    person, key = client(), {"dataset": "data", "id": "t"}

    def kinds() -> list[str]:
        [step] = get(person, "runs/run/tokens", **key)["steps"]
        return [token["kind"] for token in step["tokens"]]

    assert kinds() == ["prompt", "prompt", "sampled", "sampled"]
    with open_reader(Path("run")) as journal:
        (found,) = journal.trajectories("data")
        digest = digest_of(found.messages)
    record = Filtered("t", "data", "t", "completed", "drop", ("overlong",), (), (), None, False, (), (), digest)
    write_records(Path("run") / FILTERS, [record])
    assert kinds() == ["prompt", "prompt", "masked", "masked"]


async def test_a_request_is_shown_as_it_was_sent(client: Client) -> None:
    record = Path("requests.jsonl")
    question = {"messages": [{"role": "user", "content": "One pizza."}], "user_system_prompt": "You are hungry."}
    path = write_tasks(Path("t.jsonl"), {"id": "a", **question, "tools": [OWN_TOOL]})
    Path("system.md").write_text("Be careful.")
    async with StubServer({"record": record, "rules": REASONING, "user_turns": 3}) as server:
        keys: dict[str, Any] = {"mode": "wrong_tool", "user": {"model": "user"}, "max_turns": 9}
        keys["agent"] = {"model": "agent", "system_prompt_file": "system.md", "temperature": 0.25}
        await roll_out(stub_config(server.url, path, tools=[], **keys))
    sent = [body for body in map(msgspec.json.decode, record.read_bytes().splitlines()) if body["model"] == "agent"]
    person = client()
    key = {"dataset": "data", "id": "a"}
    for step, body in enumerate(sent, 1):
        shown = get(person, "runs/run/sent", step=step, **key)
        assert shown["messages"] == body["messages"]
        assert shown["tools"] == body.get("tools", [])
        assert '"temperature": 0.25' in shown["curl"]
        compile(shown["python"], "request.py", "exec")
    states = {state["index"]: state["state"] for state in get(person, "runs/run/sent", step=len(sent), **key)["shown"]}
    page = get(person, "runs/run/trajectory", **key)
    assert page["brief"] == "You are hungry."
    thought = [message["index"] for message in page["messages"] if message["reasoning"]]
    # Reasoning of earlier turns is cleared; that of the open turn is still there.
    assert states[thought[0]] == "folded"
    assert states[0] == "sent"


async def test_steps_of_requests_are_numbered_as_on_the_page_also_where_the_task_holds_answers(client: Client) -> None:
    opening = [("user", "Hello."), ("assistant", "What is it?"), ("user", "Say x.")]
    path = write_tasks(
        Path("t.jsonl"), {"id": "a", "messages": [{"role": role, "content": text} for role, text in opening]}
    )
    async with StubServer({"rules": [{"reply": {"content": "x"}}]}) as server:
        await roll_out(stub_config(server.url, path, tools=[]))
    person, key = client(), {"dataset": "data", "id": "a"}
    answers = [
        (message["step"], message["text"])
        for message in get(person, "runs/run/trajectory", **key)["messages"]
        if message["speaker"] == "agent"
    ]
    assert answers == [(1, "What is it?"), (2, "x")]
    assert "belongs to the task" in get(person, "runs/run/sent", step=1, **key)["note"]
    sent = get(person, "runs/run/sent", step=2, **key)["messages"]
    assert [(each["role"], each["content"]) for each in sent if each["role"] != "system"] == opening
    get(person, "runs/run/sent", 404, step=3, **key)


def test_the_document_describes_every_route_and_its_answers(client: Client) -> None:
    document = get(client(), "openapi.json")
    known = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert known == {(f"/api/{each.path}", each.method.lower()) for each in ENDPOINTS}
    refs = set(re.findall(r'"\$ref":"#/components/schemas/([^"]+)"', msgspec.json.encode(document).decode()))
    assert refs <= document["components"]["schemas"].keys()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))


def test_every_route_wants_the_token_and_only_its_method(client: Client) -> None:
    WrittenRun().add("a", [answer("x")])
    person = client()
    stranger = client()
    del stranger.headers["authorization"]
    for each in ENDPOINTS:
        path = "/api/" + each.path.replace("{run}", "run").replace("{name}", "x")
        assert stranger.request(each.method, path).status_code == 401
        writing = {"x-rollout": "1", "content-type": "application/json"}
        assert person.request("PATCH", path, headers=writing).status_code == 405
