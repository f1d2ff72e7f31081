"""A real server on a real socket: events while a run goes on, the commands, and their mistakes."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from rollout.cli import viewing
from rollout.viewer import following
from rollout.viewer.answers.runs import RunRow
from rollout.viewer.index.schema import INDEX
from rollout.viewer.open_runs import OpenRun, OpenRuns
from rollout.viewer.serve import serving
from rollout.viewer.server import Viewer
from tests.conftest import Command
from tests.viewer.writing import WrittenRun, answer

ROLLOUT = (sys.executable, "-c", "from rollout.cli import main; main()")
ROOT = Path(__file__).parents[2]


async def next_event(lines: aiohttp.StreamReader, kind: str) -> dict[str, object]:
    """The data of the next event of this kind."""
    while True:
        line = (await lines.readline()).decode()
        assert line, "the stream has ended"
        if line == f"event: {kind}\n":
            return json.loads((await lines.readline()).decode().removeprefix("data: "))  # type: ignore[no-any-return]


async def test_events_tell_of_what_a_live_run_adds() -> None:
    written = WrittenRun()
    written.add("a", [answer("x")])
    async with serving([Path("run")], port=0) as address, aiohttp.ClientSession() as session:
        base, _, token = address.partition("?token=")
        headers = {"authorization": f"Bearer {token}"}
        async with session.get(f"{base}api/events?run=run", headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async with asyncio.timeout(60):
                first = await next_event(stream.content, "run")
                assert first["run"] == "run"
                assert first["data"]["finished"] == 1  # type: ignore[index]
                written.add("b", [answer("y")])
                state = await next_event(stream.content, "index")
                assert state["data"]["rows"] == 2  # type: ignore[index]
                row = await next_event(stream.content, "run")
                assert row["data"]["finished"] == 2  # type: ignore[index]


async def test_who_looks_at_the_list_hears_of_runs_that_nobody_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "EVERY", 0.01)
    monkeypatch.setattr(following, "LISTED_EVERY", 0.0)
    written = WrittenRun(Path("runs/old"))
    written.add("a", [answer("x")])
    async with serving([Path("runs")], port=0) as address, aiohttp.ClientSession() as session:
        base, _, token = address.partition("?token=")
        async with session.get(f"{base}api/events", headers={"authorization": f"Bearer {token}"}) as stream:
            async with asyncio.timeout(60):
                written.add("b", [answer("y")])
                while (await next_event(stream.content, "run"))["data"]["finished"] != 2:  # type: ignore[index]
                    pass
                WrittenRun(Path("runs/new")).add("a", [answer("x")])
                assert (await next_event(stream.content, "run"))["run"] == "new"
    assert not (Path("runs/old") / INDEX).exists()


async def test_an_unexpected_error_of_one_run_neither_ends_the_server_nor_the_following_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "sound"):
        WrittenRun(Path("runs") / name).add("a", [answer("x")])
    row_of = OpenRun.row

    def row(run: OpenRun) -> RunRow:
        if run.name == "broken":
            raise ValueError("not foreseen")
        return row_of(run)

    monkeypatch.setattr(OpenRun, "row", row)
    monkeypatch.setattr(following, "EVERY", 0.0)
    viewer = Viewer(OpenRuns([Path("runs")]), token="t")
    for run in viewer.runs.opened():
        run.index.is_wanted = True
    with viewer.hub.listening() as listener:
        task = asyncio.create_task(following.follow(viewer))
        async with asyncio.timeout(60):
            while (event := await listener.next()).kind != "run":
                pass
            assert event.run == "sound"
        task.cancel()
        viewer.close()
    assert sum("not foreseen" in record.getMessage() for record in caplog.records) == 1


async def test_the_server_ends_while_somebody_listens() -> None:
    WrittenRun().add("a", [answer("x")])
    async with aiohttp.ClientSession() as session:
        async with asyncio.timeout(60), serving([Path("run")], port=0) as address:
            base, _, token = address.partition("?token=")
            stream = await session.get(f"{base}api/events", headers={"authorization": f"Bearer {token}"})
            assert (await stream.content.readline()).startswith(b":")
        stream.close()


async def test_a_browser_is_let_in_by_the_printed_address_and_stays_by_its_cookie() -> None:
    WrittenRun().add("a", [answer("x")])
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        serving([Path("run")], port=0, prefix="/x") as address,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        assert "/x/?token=" in address
        async with session.get(address) as page:
            assert page.status == 200
            assert "token" not in str(page.url)
            assert (await page.text()).startswith("<!doctype html>")
        async with session.get(page.url.join(type(page.url)("api/runs"))) as runs:
            assert [run["name"] for run in await runs.json()] == ["run"]


def test_the_command_serves_until_it_is_interrupted() -> None:
    WrittenRun().add("a", [answer("x")])
    child = subprocess.Popen(
        [*ROLLOUT, "view", "run", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    try:
        assert re.match(r"Look at http://127\.0\.0\.1:\d+/\?token=\S+$", child.stdout.readline())
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "Traceback" not in rest


async def test_a_browser_is_started_with_a_code_that_works_once_and_not_with_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    WrittenRun().add("a", [answer("x")])
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = viewing.opened_page(Console(file=io.StringIO()), [Path("run")], opens_browser=True, port=0)
    async with page as address, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        base, _, token = address.partition("?token=")
        [given] = opened
        assert given.startswith(base)
        assert token not in given
        async with session.get(given, allow_redirects=False) as first:
            assert (first.status, first.headers["location"]) == (303, "./")
            cookie = first.headers["set-cookie"].partition(";")[0]
        async with session.get(f"{base}api/runs", headers={"cookie": cookie}) as listed:
            assert listed.status == 200
        async with session.get(given, allow_redirects=False) as second:
            assert "set-cookie" not in second.headers
        bearer = {"authorization": f"Bearer {given.partition('?token=')[2]}"}
        async with session.get(f"{base}api/runs", headers=bearer) as refused:
            assert refused.status == 401


def test_a_server_beside_a_run_ends_with_it() -> None:
    WrittenRun().add("a", [answer("x")])
    child = subprocess.Popen(
        [*ROLLOUT, "view", "run", "--no-browser", "--port", "0", "--while-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline().startswith("Look at http://")
        child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0


def test_mistakes_are_one_line(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rollout("view", "nothing")
    assert (found.code, "nothing" in found.err or "nothing" in found.out) == (2, True)
    WrittenRun().add("a", [answer("x")])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = rollout("view", "run", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert found.code == 2
    assert "cannot be used" in found.out + found.err
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        viewing.importlib.util, "find_spec", lambda name: None if name == "starlette" else find_spec(name)
    )
    for words in (["view", "run"], ["report", "run"]):
        found = rollout(*words)
        assert found.code == 2
        assert "rollout-engine[view]" in found.out + found.err


def test_a_server_whose_input_is_no_pipe_ends_with_it() -> None:
    WrittenRun().add("a", [answer("x")])
    command = [*ROLLOUT, "view", "run", "--no-browser", "--port", "0", "--while-stdin", "--prefix", "/a b/<x>"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    Path("input.txt").write_text("some lines\n" * 1000)
    for name in (os.devnull, "input.txt"):
        with open(name) as given:
            ended = subprocess.run(command, stdin=given, capture_output=True, text=True, env=environment, timeout=120)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "/a%20b/%3Cx%3E/?token=" in ended.stdout
