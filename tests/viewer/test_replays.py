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


@pytest.mark.parametrize("way", ["modules", "working directory", "dotted name", "package"])
def test_no_code_that_lies_in_a_run_is_imported(
    client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    received = Path("received/shop")
    shutil.copytree(RUN, received)
    place = received.resolve()
    marker = place.parent / "IMPORTED"
    code = f"open({str(marker)!r}, 'w')\n"
    module = {"dotted name": "received.shop.left_in_the_run", "package": "received.shop"}.get(way, "left_in_the_run")
    (received / ("__init__.py" if way == "package" else "left_in_the_run.py")).write_text(code)
    document = json.loads((received / "run.json").read_text())
    document["config"]["datasets"]["Cart"]["environment"] = f"{module}:shop"
    document["modules"] = [str(place)] if way == "modules" else []
    (received / "run.json").write_text(json.dumps(document))
    if way == "working directory":
        monkeypatch.chdir(received)
    with client(place) as opened:
        page = Page(opened)
        assert "is inside of a run directory, from which no code is imported" in page.post("states", **KEY)["note"]
        grown = page.growth(page.post("growths", **KEY, message=1)["number"])
        assert "is inside of a run directory" in grown["error"]
    assert module not in sys.modules
    assert not marker.exists()


def test_a_domain_that_lies_in_a_run_runs_isolated_only(client: Callable[..., TestClient]) -> None:
    rollout.run(shop, model=seller, run_dir=RUN, progress=False)
    document = json.loads((RUN / "run.json").read_text())
    document["config"]["mock_servers"] = {"isolation": "none"}
    document["config"]["datasets"]["Cart"]["base_path"] = str(RUN / "domains")
    (RUN / "run.json").write_text(json.dumps(document))
    with client(RUN) as opened:
        page = Page(opened)
        assert "mock_servers.isolation: process" in page.post("states", **KEY)["note"]
        assert "mock_servers.isolation: process" in page.post("growths", 400, **KEY, message=1)["error"]
