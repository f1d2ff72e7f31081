"""Replays that a person asks for: they make no irreversible call, and run no code that lies in a run."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import rollout
from tests.api.shop import seller, shop
from tests.viewer.test_people_endpoints import RUN, WRITING, Page

KEY = {"dataset": "Cart", "id": "t1"}
MADE: list[str] = []


class Mail(rollout.World):
    """A mailbox whose letters leave it."""

    def __init__(self) -> None:
        self.letters: list[str] = []

    @rollout.tool
    async def draft(self, text: str) -> str:
        """Write a letter."""
        self.letters.append(text)
        return "written"

    @rollout.tool
    async def send(self, text: str) -> str:
        """Send a letter."""
        MADE.append(text)
        return "sent"


@rollout.scorer
def always(task: rollout.Task, trajectory: rollout.Trajectory, world: Mail) -> float:
    return 1.0


mail = rollout.Environment(
    name="mail",
    tasks=[
        rollout.Task(
            "m1",
            "Write and send.",
            actions=[rollout.call("draft", text="a"), rollout.call("send", text="b"), rollout.call("draft", text="c")],
        )
    ],
    world=Mail,
    scorers=[always],
)


@pytest.fixture
def post_office(client: Callable[..., TestClient]) -> Iterator[Page]:
    MADE.clear()
    rollout.run(mail, model="builtin/oracle", irreversible=["send"], run_dir=RUN, progress=False)
    with client(RUN) as opened:
        yield Page(opened)


def test_a_replay_ends_before_an_irreversible_call(post_office: Page) -> None:
    assert MADE == ["b"]
    states = post_office.post("states", dataset="mail", id="m1")
    assert "the call send of message 3 is irreversible and is not made again" in states["note"]
    assert [step["message"] for step in states["changes"]] == [1]
    assert MADE == ["b"]


def test_scoring_again_makes_no_irreversible_call(post_office: Page, rollout: Callable[..., object]) -> None:
    rollout("score", str(RUN))
    assert MADE == ["b"]


def test_nothing_is_grown_on_behind_an_irreversible_call_or_from_it(post_office: Page) -> None:
    can_grow = post_office.get("trajectory", dataset="mail", id="m1")["can_grow"]
    assert (can_grow["ok"], can_grow["last"]) == (True, 2)
    for message in (3, 4, 5, 6):
        refused = post_office.post("growths", 400, dataset="mail", id="m1", message=message)
        assert "irreversible (send)" in refused["error"]
    assert post_office.get("growths") == []
    assert MADE == ["b"]
    grown = post_office.post("growths", dataset="mail", id="m1", message=2)
    assert post_office.growth(grown["number"])["state"] == "done"
    assert MADE == ["b", "b"], "the attempt's own letter"


def test_looking_at_a_run_replays_nothing(client: Callable[..., TestClient]) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    with client(RUN) as opened:
        assert opened.get("/api/runs/shop/states", params=KEY).status_code == 404
        assert Page(opened).get("trajectory", **KEY)["has"]["states"] is True
        assert Page(opened).post("states", **KEY)["note"] is None
    with client(RUN, read_only=True) as opened:
        assert Page(opened).get("trajectory", **KEY)["has"]["states"] is False
        refused = opened.post("/api/runs/shop/states", json=KEY, headers=WRITING)
        assert (refused.status_code, "--read-only" in refused.text) == (403, True)


@pytest.mark.parametrize("works_in_the_run", [False, True])
def test_no_code_that_lies_in_a_run_is_imported(
    client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, works_in_the_run: bool
) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    received = Path("received/shop")
    shutil.copytree(RUN, received)
    document = json.loads((received / "run.json").read_text())
    document["config"]["datasets"]["Cart"]["environment"] = "left_in_the_run:shop"
    document["modules"] = [str(received.resolve())]
    (received / "run.json").write_text(json.dumps(document))
    (received / "left_in_the_run.py").write_text("open('IMPORTED', 'w')\n")
    place = received.resolve()
    if works_in_the_run:
        monkeypatch.chdir(received)
    with client(place) as opened:
        page = Page(opened)
        note = page.post("states", **KEY)["note"]
        assert "a run directory" in note if works_in_the_run else "cannot be imported" in note
        grown = opened.post("/api/runs/shop/growths", json={**KEY, "message": 1}, headers=WRITING)
        if grown.status_code == 200:
            assert "cannot be imported" in page.growth(grown.json()["number"])["error"]
    assert "left_in_the_run" not in sys.modules
    assert not Path("IMPORTED").exists()
