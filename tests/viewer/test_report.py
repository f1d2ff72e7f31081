"""A report is one file that needs nothing else, and exports hold what was selected."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rollout.viewer import report as report_module
from tests.conftest import Command
from tests.viewer.writing import WrittenRun, answer, user

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 <img src=x onerror=alert(1)>"
WRITING = {"x-rollout": "1", "content-type": "application/json"}


@pytest.fixture
def page() -> Path:
    """A small page as the build leaves it."""
    folder = Path("page")
    folder.mkdir()
    (folder / "index.html").write_text(
        '<!doctype html><html><head><title>t</title><link rel="stylesheet" href="./app.css">'
        '<link rel="icon" href="icon.svg"><script type="module" src="./app.js"></script></head>'
        '<body><div id="app"></div></body></html>'
    )
    (folder / "app.js").write_text('const end = "</script>"; show(end, "<!-- x")')
    (folder / "app.css").write_text("body { color: red }")
    return folder


@pytest.fixture(autouse=True)
def _run() -> None:
    written = WrittenRun()
    for number in range(6):
        written.add(
            f"t{number}", [answer(HOSTILE), user("thanks"), answer("bye")], scored=True, success=number % 2 == 0
        )


def check(text: str, ids: list[str]) -> None:
    """Nothing of the data is markup, every script and style is allowed by its hash, and nothing comes from outside."""
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    [(_, data)] = [found for found in scripts if "application/json" in found[0]]
    assert [one["id"] for one in json.loads(data)["trajectories"]] == ids
    assert json.loads(data)["trajectories"][0]["messages"][1]["text"] == HOSTILE
    [policy] = re.findall(r'content="(default-src[^"]*)"', text)
    run = [body for attributes, body in scripts if "application/json" not in attributes]
    assert len(run) == 1
    for body in (*run, *re.findall(r"<style>(.*?)</style>", text, re.DOTALL)):
        assert base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() in policy
    assert text.count("<script") == 2
    assert "src=" not in re.sub(r"<script[^>]*json.*?</script>", "", text, flags=re.DOTALL)
    assert "<link" not in text
    assert "default-src 'none'" in policy


def test_the_command_writes_a_file_that_needs_nothing_else(
    rollout: Command, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "PAGE", page)
    monkeypatch.setattr(report_module.make_report, "__defaults__", (page,))
    assert rollout("report", "run", "t1", "t2", "-o", "out.html").code == 0
    check(Path("out.html").read_text(), ["t1", "t2"])
    assert rollout("report", "run", "--unsolved", "-o", "out.html").code == 0
    check(Path("out.html").read_text(), ["t1", "t3", "t5"])
    for words in (["nothing"], ["run", "nothing"], ["run", "--status", "odd"], ["run", "-o", "no/such/folder.html"]):
        found = rollout("report", *words)
        assert found.code == 2
        assert "Traceback" not in found.out + found.err


def test_a_report_says_of_how_many_it_has_the_first(
    rollout: Command, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module.make_report, "__defaults__", (page,))
    total = int(rollout("report", "run").out.split(": ")[1].split()[0])
    assert total > 2
    assert f"the first 2 of {total} trajectories (--first N for more)" in rollout("report", "run", "--first", "2").out
    assert f"any 1 of {total} trajectories" in rollout("report", "run", "--first", "1", "--random").out
    assert ": 1 trajectory, " in rollout("report", "run", "t1").out


def test_a_report_of_named_tasks_holds_the_attempts_that_fit(
    rollout: Command, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module.make_report, "__defaults__", (page,))
    written = WrittenRun(Path("named"))
    for number in range(4):
        written.add(f"t~{number}", [answer(HOSTILE)], task="t", scored=True, success=number == 0)

    def reported(*options: str) -> list[str]:
        assert rollout("report", "named", "t", "-o", "out.html", *options).code == 0
        [data] = re.findall(r"<script[^>]*json[^>]*>(.*?)</script>", Path("out.html").read_text(), re.DOTALL)
        return [one["id"] for one in json.loads(data)["trajectories"]]

    assert reported() == ["t~0", "t~1", "t~2", "t~3"]
    assert reported("--unsolved") == ["t~1", "t~2", "t~3"]
    assert reported("--unsolved", "--first", "2") == ["t~1", "t~2"]
    assert len(reported("--first", "3", "--random")) == 3
    refused = rollout("report", "named", "t", "--status", "failed")
    assert (refused.code, "no attempt at 't' is of status failed" in refused.err) == (2, True)


def test_a_selection_is_reported(client: Callable[..., TestClient], page: Path) -> None:
    person = client(page=page)
    body = {"success": "1", "sort": "id", "desc": False}
    found = person.post("/api/runs/run/report", json=body, headers=WRITING)
    assert found.headers["content-disposition"].startswith("attachment")
    check(found.text, ["t0", "t2", "t4"])


def test_without_a_built_page_there_is_no_report(client: Callable[..., TestClient]) -> None:
    found = client(page=Path("none")).post("/api/runs/run/report", json={}, headers=WRITING)
    assert found.status_code == 400
    assert "not built" in found.json()["error"]


@pytest.mark.parametrize("form", ["jsonl", "openai", "sharegpt", "trl", "add_key"])
def test_a_selection_is_exported(client: Callable[..., TestClient], form: str) -> None:
    body = {"format": form, "q": "thanks", "success": "0"}
    found = client().post("/api/runs/run/export", json=body, headers=WRITING)
    assert found.status_code == 200, found.text
    assert len(found.content.splitlines()) == 3


@pytest.mark.parametrize("path", ["export", "report"])
def test_a_filter_that_does_not_exist_exports_nothing(client: Callable[..., TestClient], path: str) -> None:
    found = client().post(f"/api/runs/run/{path}", json={"query": {"success": "0"}}, headers=WRITING)
    assert found.status_code == 400
    assert "query" in found.json()["error"]


def test_named_trajectories_are_exported_in_their_order(client: Callable[..., TestClient]) -> None:
    keys = [{"dataset": "data", "id": name} for name in ("t4", "t1")]
    found = client().post("/api/runs/run/export", json={"format": "jsonl", "keys": keys}, headers=WRITING)
    assert [json.loads(line)["id"] for line in found.content.splitlines()] == ["t4", "t1"]


@pytest.mark.parametrize("form", ["os:system", "none", "../x"])
def test_a_request_names_no_code(client: Callable[..., TestClient], form: str) -> None:
    found = client().post("/api/runs/run/export", json={"format": form}, headers=WRITING)
    assert found.status_code == 400
    assert "format" in found.json()["error"]
