"""Correcting, growing on and playing through the server of the page."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import rollout
from rollout.pipelines.people.growth import GrowthWish, grow, growth_config, plan_growth
from rollout.pipelines.people.people_run import open_people
from rollout.store.run_dir import lock_run
from rollout.viewer import editor
from rollout.viewer.open_runs import OpenRun
from tests.api.shop import busy_shop, plan_first, seller, shop

RUN = Path("runs/shop")
WRITING = {"x-rollout": "1", "content-type": "application/json", "x-rollout-author": quote("Ada Lovelace é")}
KEY = {"dataset": "Cart", "id": "t1"}
Asker = Callable[..., Any]


class Page:
    """The server as a page uses it."""

    def __init__(self, client: TestClient) -> None:
        self._client = client
        self.headers = dict(WRITING)

    def get(self, path: str, **query: Any) -> Any:
        answer = self._client.get(f"/api/runs/shop/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        return self.send(path, status, json.dumps(body).encode())

    def send(self, path: str, status: int, body: bytes) -> Any:
        """The answer to a body as it is."""
        answer = self._client.post(f"/api/runs/shop/{path}", content=body, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def delete(self, path: str) -> Any:
        answer = self._client.delete(f"/api/runs/shop/{path}", headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def facets(self) -> Any:
        """What the table can be filtered by."""
        return self._client.get("/api/runs/shop").json()["facets"]

    def growth(self, number: int) -> Any:
        """A growth when it has come to its end."""
        return self.until(lambda: next(one for one in self.get("growths") if one["number"] == number), is_over)

    def until(self, read: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
        """What is read as soon as it is as wanted: the server works in a thread of its own."""
        deadline = time.monotonic() + 300
        while not holds(found := read()):
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        return found


def is_over(growth: Any) -> bool:
    return bool(growth["state"] != "running")


@pytest.fixture
def page(client: Callable[..., TestClient]) -> Iterator[Page]:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    with client(RUN) as opened:
        yield Page(opened)


def test_a_correction_is_added_with_the_name_of_its_author(page: Page) -> None:
    call = {"name": "add", "arguments": {"item": "lamp"}}
    added = page.post("corrections", dataset="Cart", id="t1", message=1, tool_calls=[call])
    assert added == {"dataset": "Cart", "id": "t1~+1"}
    shown = page.get("trajectory", dataset="Cart", id="t1~+1")
    assert (shown["author"], shown["stop_reason"]) == ("Ada Lovelace é", "corrected")
    assert shown["messages"][-1]["author"] == "Ada Lovelace é"
    assert shown["messages"][-1]["calls"][0]["arguments"] == {"item": "lamp"}
    assert [one["id"] for one in page.get("trajectory", dataset="Cart", id="t1")["siblings"]] == ["t1~+1"]


def test_what_cannot_be_added_is_refused_in_the_words_of_the_library(page: Page) -> None:
    refused = page.post("corrections", 400, dataset="Cart", id="t1", message=0, content="Hello.")
    assert refused["error"].startswith("t1: message 0 is not an answer of the agent")
    assert "no attempt 'nix'" in page.post("growths", 400, dataset="Cart", id="nix", message=1)["error"]
    assert "there is no growth 7" in page.post("growths/7/stop", 404)["error"]
    assert (
        "Object contains unknown field" in page.post("growths", 400, dataset="Cart", id="t1", message=1, m=2)["error"]
    )


@pytest.mark.parametrize("author", ["a" * 101, "two\nlines"])
def test_a_change_by_no_valid_name_is_refused(page: Page, author: str) -> None:
    page.headers["x-rollout-author"] = quote(author)
    for path in ("marks", "corrections", "growths", "plays"):
        more = {"task": "t1", "role": "agent"} if path == "plays" else {"id": "t1", "message": 1}
        more |= {"kind": "good"} if path == "marks" else {"content": "x"} if path == "corrections" else {}
        assert "an author has 1 to 100 characters" in page.post(path, 400, dataset="Cart", **more)["error"]


def test_a_body_that_is_nested_too_deeply_is_refused(page: Page) -> None:
    arguments = '{"a":' * 5000 + "1" + "}" * 5000
    body = (
        f'{{"dataset": "Cart", "id": "t1", "message": 1, "tool_calls": [{{"name": "add", "arguments": {arguments}}}]}}'
    )
    assert "cannot be read" in page.send("corrections", 400, body.encode())["error"]


def test_attempts_are_grown_in_the_background_and_are_in_table_and_tree(page: Page) -> None:
    growth = page.post("growths", dataset="Cart", id="t1", message=2, n=2, temperature=0.5)
    assert [one["id"] for one in growth["attempts"]] == ["t1~+1", "t1~+2"]
    done = page.growth(growth["number"])
    assert (done["state"], done["error"], done["author"]) == ("done", None, "Ada Lovelace é")
    assert [one["reward"] for one in done["attempts"]] == [1.0, 1.0]
    added = rollout.load_run(RUN).people
    assert added is not None
    assert [one["messages"] for one in done["attempts"]] == [len(each.messages) for each in added.trajectories]
    rows = page.get("trajectories", by="person", sort="task")["rows"]
    assert sorted(row["id"] for row in rows) == ["t1~+1", "t1~+2"]
    assert [row["id"] for row in page.get("trajectories", by="run")["rows"]] == ["t1"]
    for outcome in page.facets()["outcomes"]:
        assert page.get("trajectories", success=outcome["value"])["total"] == outcome["count"] == 3
    tree = page.get("tree", dataset="Cart", task="t1")
    assert tree["leaves"] == 3
    assert sorted(node["reason"] for node in tree["nodes"] if node["reason"]) == ["person", "person"]


def test_nothing_is_offered_behind_the_message_that_ends_a_conversation(client: Callable[..., TestClient]) -> None:
    async def bye(request: rollout.Request) -> str:
        return "Bye. ###STOP###"

    rollout.run(shop, model=seller, user=bye, max_turns=3, run_dir="bye/shop", progress=False)
    with client(Path("bye/shop")) as opened:
        page = Page(opened)
        can_grow = page.get("trajectory", **KEY)["can_grow"]
        assert (can_grow["ok"], can_grow["last"], can_grow["why"]) == (True, 5, "the conversation ends there")
        assert "ends with message 6" in page.post("growths", 400, **KEY, message=6)["error"]


def test_what_could_not_be_grown_says_why(page: Page) -> None:
    growth = page.post("growths", dataset="Cart", id="t1", message=2, model="nobody/none")
    failed = page.growth(growth["number"])
    assert failed["state"] == "failed"
    assert "there is no provider 'nobody'" in failed["error"]


def test_a_person_plays_the_agent_with_the_tools_of_the_task(page: Page) -> None:
    play = page.post("plays", dataset="Cart", task="t1", role="agent")
    number = play["number"]

    def turn(play: Any) -> bool:
        return bool(play["waits_for"] == "agent")

    asked = page.until(lambda: page.get(f"plays/{number}"), turn)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["add"]
    assert (asked["system"], asked["brief"]) == ("You run a small shop.", None)
    assert [message["text"] for message in asked["messages"]] == ["Two mugs and a lamp, please."]
    page.post(f"plays/{number}/act", calls=[{"name": "add", "arguments": {"item": "mug", "count": 2}}])
    page.until(lambda: page.get(f"plays/{number}"), lambda play: turn(play) and len(play["messages"]) > 1)
    page.post(f"plays/{number}/act", calls=[{"name": "add", "arguments": {"item": "lamp"}}])
    page.until(lambda: page.get(f"plays/{number}"), lambda play: turn(play) and len(play["messages"]) > 2)
    page.post(f"plays/{number}/end")
    ended = page.until(lambda: page.get(f"plays/{number}"), is_over)
    assert (ended["state"], ended["error"]) == ("done", None)
    shown = page.get("trajectory", dataset="Cart", id=ended["id"])
    assert (shown["reward"], shown["model"], shown["author"]) == (1.0, "person", "Ada Lovelace é")


def test_out_of_turn_nothing_is_done(page: Page) -> None:
    play = page.post("plays", dataset="Cart", task="t1", role="agent")
    number = play["number"]
    page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    assert "nothing to say or to call" in page.post(f"plays/{number}/act", 400)["error"]
    page.post(f"plays/{number}/end")
    page.until(lambda: page.get(f"plays/{number}"), is_over)
    assert "is not running; resume it first" in page.post(f"plays/{number}/act", 400, text="Hello?")["error"]


def test_a_growth_that_was_stopped_is_resumed(client: Callable[..., TestClient]) -> None:
    rollout.run(shop, model=seller, agent=plan_first, run_dir=RUN, progress=False)
    with client(RUN) as opened:
        page = Page(opened)
        number = page.post("plays", dataset="Cart", task="t1", role="user")["number"]
        page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "user")
        page.post(f"growths/{number}/stop")
        assert page.until(lambda: page.get(f"plays/{number}"), is_over)["state"] == "stopped"
        before = page.get(f"plays/{number}")["messages"]
        page.post(f"growths/{number}/resume")
        page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "user")
        assert page.get(f"plays/{number}")["messages"] == before
        page.post(f"plays/{number}/end")
        assert page.until(lambda: page.get(f"plays/{number}"), is_over)["state"] == "done"


def test_what_a_server_leaves_unfinished_waits_for_the_next_one(client: Callable[..., TestClient]) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    with client(RUN) as opened:
        page = Page(opened)
        number = page.post("plays", dataset="Cart", task="t1", role="agent")["number"]
        page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    with client(RUN) as opened:
        page = Page(opened)
        assert page.get(f"plays/{number}")["state"] == "waiting"
        page.post(f"growths/{number}/resume")
        page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
        page.post(f"plays/{number}/end")
        assert page.until(lambda: page.get(f"plays/{number}"), is_over)["state"] == "done"


def test_a_program_may_add_to_a_run_while_its_page_is_open(page: Page) -> None:
    page.post("corrections", dataset="Cart", id="t1", message=5, content="Not done.")
    added = rollout.load_run(RUN).correct("t1", 5, "Nearly done.", author="bob")
    assert added.id == "t1~+2"
    assert page.get("trajectory", dataset="Cart", id="t1~+2")["author"] == "bob"


def test_marks_are_set_replaced_and_removed_and_the_table_finds_them(page: Page) -> None:
    good = page.post("marks", dataset="Cart", id="t1", kind="good")
    assert (good["author"], good["message"]) == ("Ada Lovelace é", None)
    bad = page.post("marks", dataset="Cart", id="t1", kind="bad", text="too many lamps")
    page.post("marks", dataset="Cart", id="t1", kind="label", text="greedy", message=1)
    verdict = page.post("marks", dataset="Cart", id="t1", kind="verdict", value=0.25)
    kinds = [mark["kind"] for mark in page.get("trajectory", dataset="Cart", id="t1")["marks"]]
    assert kinds == ["bad", "label", "verdict"], "bad took the place of good"
    assert [row["id"] for row in page.get("trajectories", mark="bad")["rows"]] == ["t1"]
    assert [row["id"] for row in page.get("trajectories", label="greedy")["rows"]] == ["t1"]
    assert page.get("trajectories", mark="good")["rows"] == []
    assert page.delete(f"marks/{bad['number']}") == {"removed": bad["number"]}
    assert page.get("trajectories", mark="bad")["rows"] == []
    assert [mark.number for mark in rollout.load_run(RUN).marks][-1] == verdict["number"]


def test_a_damaged_file_of_marks_leaves_the_run_to_be_read(page: Page) -> None:
    page.post("marks", dataset="Cart", id="t1", kind="good")
    for file in RUN.glob("marks.db*"):
        file.write_bytes(b"not a database, by far" * 400)
    assert page.get("trajectory", dataset="Cart", id="t1")["marks"] == []
    assert page.get("trajectories")["total"] == 1
    assert "the marks are damaged" in page.post("marks", 409, dataset="Cart", id="t1", kind="bad")["error"]


def test_what_people_added_may_be_damaged_and_the_run_is_read(page: Page) -> None:
    page.post("corrections", **KEY, message=5, content="Not done.")
    assert len(page.get("trajectory", **KEY)["siblings"]) == 1
    for file in (RUN / "people").glob("journal.db*"):
        file.write_bytes(b"not a database, by far" * 400)
    assert page.get("trajectory", **KEY)["siblings"] == []
    assert page.get("tree", dataset="Cart", task="t1")["leaves"] == 1
    assert page.get("growths") == []
    assert page.get("trajectories")["total"] >= 1


def test_a_verdict_is_a_score_beside_the_others(page: Page) -> None:
    page.post("marks", **KEY, kind="verdict", value=0.25)
    page.post("marks", **KEY, kind="verdict", value=1.0, message=1)
    scores = {score["name"]: score for score in page.get("trajectory", **KEY)["scores"]}
    assert scores["person"]["value"] == 0.25
    assert "Ada Lovelace é" in scores["person"]["reason"]
    for wanted, found in {"lt:0.5": 1, "eq:0.25": 1, "ge:0.5": 0}.items():
        assert page.get("trajectories", score=f"person:{wanted}")["total"] == found
    facets = page.facets()
    assert {each["value"]: each["count"] for each in facets["scores"]}["person"] == 1


def test_the_table_is_sorted_by_verdicts(client: Callable[..., TestClient]) -> None:
    rollout.run(busy_shop, model=seller, run_dir=RUN, progress=False)
    with client(RUN) as opened:
        page = Page(opened)
        for name, value in {"t1": 0.5, "t4": 1.0, "t2": 0.0}.items():
            page.post("marks", dataset="busy", id=name, kind="verdict", value=value)
        for desc, first in ((1, ["t4", "t1", "t2"]), (0, ["t2", "t1", "t4"])):
            rows = page.get("trajectories", sort="score:person", desc=desc)["rows"]
            assert [row["id"] for row in rows][:3] == first


def test_a_server_that_only_reads_adds_nothing(client: Callable[..., TestClient]) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    with client(RUN, read_only=True) as opened:
        page = Page(opened)
        for path in ("corrections", "growths", "plays"):
            refused = page.post(path, 403, dataset="Cart", id="t1", message=1, task="t1", role="agent")
            assert "--read-only" in refused["error"]
        assert page.get("trajectory", dataset="Cart", id="t1")["can_grow"]["ok"] is False
    assert not (RUN / "people").exists()


def test_a_name_of_a_model_in_a_request_imports_nothing(page: Page) -> None:
    Path("imported_by_a_request.py").write_text("open('IMPORTED', 'w')\nmodel = 1\n")
    for model in ("imported_by_a_request:model", "os:system", "gpt"):
        for field in ("model", "user_model"):
            refused = page.post("growths", 400, dataset="Cart", id="t1", message=2, **{field: model})
            assert f"model '{model}': expected provider/model" in refused["error"]
        for role in ("agent", "user"):
            assert (
                "expected provider/model"
                in page.post("plays", 400, dataset="Cart", task="t1", role=role, model=model)["error"]
            )
    assert not Path("IMPORTED").exists()


def test_an_argument_may_have_any_name_and_a_deep_one_is_refused(page: Page) -> None:
    number = page.post("plays", dataset="Cart", task="t1", role="agent")["number"]
    page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    for path in (f"plays/{number}/act", "corrections"):
        calls = [{"name": "add", "arguments": {"item": deep}}]
        body = {"calls": calls} if path != "corrections" else {**KEY, "message": 1, "tool_calls": calls}
        assert "nested too deeply" in page.post(path, 400, **body)["error"]
    arguments = {"self": 1, "calls": 2, "name": 3}
    page.post(f"plays/{number}/act", calls=[{"name": "add", "arguments": arguments}])
    page.until(
        lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent" and len(play["messages"]) > 1
    )
    page.post(f"plays/{number}/end")
    ended = page.until(lambda: page.get(f"plays/{number}"), is_over)
    assert (ended["state"], ended["error"]) == ("done", None)
    assert ended["messages"][1]["calls"][0]["arguments"] == arguments


def test_what_a_person_plays_is_by_the_person(page: Page) -> None:
    number = page.post("plays", dataset="Cart", task="t1", role="agent")["number"]
    page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    page.post(f"plays/{number}/act", text="Not today.")
    ended = page.until(lambda: page.get(f"plays/{number}"), is_over)
    [_, said] = page.get("trajectory", dataset="Cart", id=ended["id"])["messages"]
    assert (said["author"], said["is_scripted"], said["marks"]) == ("Ada Lovelace é", False, [])


def test_a_growth_that_another_process_keeps_from_going_on_says_so(page: Page) -> None:
    number = page.post("plays", dataset="Cart", task="t1", role="agent")["number"]
    page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    page.post(f"growths/{number}/stop")
    page.until(lambda: page.get(f"plays/{number}"), is_over)
    lock = lock_run(RUN / "people")
    try:
        assert "another process is running this run" in page.post(f"growths/{number}/resume", 409)["error"]
    finally:
        os.close(lock)
    page.post(f"growths/{number}/resume")
    page.until(lambda: page.get(f"plays/{number}"), lambda play: play["waits_for"] == "agent")
    page.post(f"growths/{number}/stop")
    page.until(lambda: page.get(f"plays/{number}"), is_over)


def test_a_growth_that_ends_unexpectedly_is_failed_with_the_reason(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> Any:
        raise ZeroDivisionError("of all things")

    with monkeypatch.context() as patch:
        patch.setattr(editor, "grow", broken)
        growth = page.growth(page.post("growths", dataset="Cart", id="t1", message=2)["number"])
    assert growth["state"] == "failed"
    assert "ZeroDivisionError: of all things" in growth["error"]
    page.post(f"growths/{growth['number']}/resume")
    assert page.growth(growth["number"])["state"] == "done"


async def test_a_growth_that_ended_after_it_was_read_is_shown_as_it_is_now(
    open_run: Callable[[Path], OpenRun],
) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    async with open_people(RUN) as people:
        read = await plan_growth(people, "Cart", "t1", GrowthWish(author="ada", message=2))
        await grow(people, read, growth_config(RUN))
    run = open_run(RUN)
    async with asyncio.TaskGroup() as tasks:
        shown = editor.RunEditor(run, tasks, lambda growth: None)
        with run.reading_people() as journal:
            assert shown.state(journal, read) == "done"
        async with open_people(RUN) as people:
            read = await plan_growth(people, "Cart", "t1", GrowthWish(author="ada", message=2, model="no/one"))
            await grow(people, read, growth_config(RUN))
        with run.reading_people() as journal:
            assert shown.state(journal, read) == "failed"
            assert "there is no provider 'no'" in str(shown.error(journal, read))


def test_what_people_add_is_for_its_owner_only(page: Page) -> None:
    page.post("corrections", **KEY, message=5, content="Not done.")
    for path in [RUN / "people", *(RUN / "people").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
