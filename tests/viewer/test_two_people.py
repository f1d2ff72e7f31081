"""Several people mark a run at once, each with a server, command or program of their own, while the run goes on."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import rollout
from tests.api.shop import busy_shop, seller

ROLLOUT = (sys.executable, "-c", "from rollout.cli import main; main()")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
NOTES = 8


class Person:
    """Somebody with a server of their own, which is a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._server = subprocess.Popen(
            [*ROLLOUT, "view", "run", "--no-browser", "--port", "0", "--while-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert self._server.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)/\?token=(\S+)", self._server.stdout.readline())
        assert found is not None
        self._address = found[1], int(found[2])
        self._headers = {"authorization": f"Bearer {found[3]}", "x-rollout": "1", "x-rollout-author": name}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate(timeout=60)

    def _request(self, where: str, method: str = "GET", body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(*self._address, timeout=300)
        content = None if body is None else json.dumps(body)
        connection.request(method, where, content, {**self._headers, "content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer

    def ids(self, **query: Any) -> set[str]:
        """The trajectories that the table shows."""
        with self._request(f"/api/runs/run/trajectories?{urlencode(query)}") as answer:
            return {row["id"] for row in json.load(answer)["rows"]}

    def shows(self, wanted: set[str], **query: Any) -> bool:
        """Whether the table comes to show these trajectories: one of the servers keeps the index for both."""
        deadline = time.monotonic() + 120
        while self.ids(**query) != wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.ids(**query) == wanted

    def mark(self, trajectory: str, kind: str, **more: Any) -> None:
        """Set a mark."""
        self._request(
            "/api/runs/run/marks", "POST", {"dataset": "busy", "id": trajectory, "kind": kind, **more}
        ).close()

    def mark_often(self, trajectory: str, begin: threading.Barrier) -> None:
        """Write some notes, each followed by a change of mind."""
        begin.wait(60)
        for number in range(NOTES):
            self.mark(trajectory, "note", text=f"{self.name} {number}")
            self.mark(trajectory, ("good", "bad")[number % 2])

    @contextlib.contextmanager
    def events(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """What the server tells: kinds of events with their data."""
        with self._request("/api/events?run=run") as stream:
            yield _events(stream)


def _events(stream: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    while line := stream.readline().decode():
        if line.startswith("event: "):
            kind = line[7:].strip()
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])["data"]


def mark_by_command(*words: str) -> None:
    subprocess.run(
        [*ROLLOUT, "mark", "run", *words, "--author", "carol"], check=True, capture_output=True, env=ENVIRONMENT
    )


def at_once(*marking: Any) -> None:
    threads = [threading.Thread(target=act, args=given) for act, *given in marking]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)


def notes_of(author: str, marks: Sequence[rollout.PersonMark]) -> list[str | None]:
    return [mark.text for mark in marks if mark.author == author and mark.kind == "note"]


def test_several_people_mark_at_once_while_the_run_goes_on() -> None:
    with (
        rollout.stream(busy_shop, model=seller, run_dir="run", limit=6, ahead=1) as groups,
        contextlib.ExitStack() as held,
    ):
        first = next(iter(groups)).trajectories[0].id
        ann, bob = held.enter_context(Person("ann")), held.enter_context(Person("bob"))
        told = held.enter_context(bob.events())
        assert next(kind for kind, _ in told if kind == "run")
        mark_by_command(first, "verdict", "0.5")
        _, seen = next(event for event in told if event[0] == "marks")
        assert (seen["id"], seen["kind"], seen["author"]) == (first, "verdict", "carol"), "others' marks are told, too"

        begin = threading.Barrier(3)

        def program() -> None:
            marks = rollout.load_run("run").marks
            begin.wait(60)
            for number in range(NOTES):
                marks.add(first, "note", text=f"dan {number}", author="dan")

        at_once((ann.mark_often, first, begin), (bob.mark_often, first, begin), (program,))
        marks = rollout.load_run("run").marks.of(first)
        for author in ("ann", "bob", "dan"):
            assert notes_of(author, marks) == [f"{author} {number}" for number in range(NOTES)]
        opinions = [(mark.author, mark.kind) for mark in marks if mark.kind in ("good", "bad")]
        assert sorted(opinions) == [("ann", "bad"), ("bob", "bad")]
        assert ann.shows({first}, mark="verdict")
        assert bob.shows({first}, mark="verdict")

        ended = {first}
        for group in groups:
            ended |= {trajectory.id for trajectory in group.trajectories}
            for trajectory in group.trajectories:
                at_once(
                    (lambda name: ann.mark(name, "label", text="seen by ann"), trajectory.id),
                    (lambda name: bob.mark(name, "label", text="seen by bob"), trajectory.id),
                )
            assert ann.shows(ended - {first}, label="seen by bob")
            assert bob.shows(ended - {first}, label="seen by ann")
        assert len(ended) == 6
    run = rollout.load_run("run")
    assert len({mark.number for mark in run.marks}) == len(run.marks) == 1 + 3 * NOTES + 2 + 2 * 5
    assert [trajectory.status for trajectory in run.trajectories] == ["completed"] * 6
