"""The time bar of an attempt covers all of its time, from the opening of its world to the end of its scoring."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.testclient import TestClient

from rollout.trajectories.tree import NodeBody
from tests.viewer.writing import WrittenRun, answer, result

Client = Callable[..., TestClient]


def at(seconds: float, node: NodeBody) -> NodeBody:
    """A node that was added so long after the beginning of the written run's first episode."""
    return msgspec.structs.replace(node, added=1001.0 + seconds)


def spans(person: TestClient, name: str) -> list[tuple[str, int, float, float]]:
    page = person.get("/api/runs/run/trajectory", params={"dataset": "data", "id": name}).json()
    return [(span["kind"], span["message"], span["start"], span["seconds"]) for span in page["spans"]]


def test_time_before_the_first_message_is_the_opening_and_after_the_last_the_ending(client: Client) -> None:
    nodes = [at(5.0, answer(None, ("search", {}))), at(6.0, result("found")), at(6.5, answer("so"))]
    WrittenRun().add("t", nodes, finished=1008.0)
    assert spans(client(), "t") == [
        ("opening", 1, 0.0, 4.5), ("model", 1, 4.5, 0.5), ("tool", 2, 5.0, 1.0), ("model", 3, 6.0, 0.5),
        ("ending", 3, 6.5, 0.5),
    ]  # fmt: skip


def test_a_first_page_belongs_to_the_opening(client: Client) -> None:
    seen = NodeBody("observation", message=msgspec.structs.replace(result("a page").message, role="user"))
    WrittenRun().add("t", [at(5.0, seen), at(5.5, answer("so"))], finished=1006.5)
    assert spans(client(), "t") == [("opening", 1, 0.0, 5.0), ("model", 2, 5.0, 0.5)]


def test_a_branch_has_its_own_opening_and_that_of_the_attempt_it_continues_is_left_out(client: Client) -> None:
    written = WrittenRun()
    first = written.add("t", [at(5.0, answer("so"))], finished=1006.5)
    written.add("t~1", [at(4.0, answer("no"))], task="t", branch=(first, 0), finished=1005.0)
    assert spans(client(), "t~1") == [("model", 1, 0.0, 0.5), ("opening", 2, 0.5, 2.5), ("model", 2, 3.0, 0.5)]
