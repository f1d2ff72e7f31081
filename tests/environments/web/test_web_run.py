"""Browsers through the ordinary engine: from a dataset with `web` to lines, blobs and a journal that resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.environments.web.sites import load_sites
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, write_tasks

OUT = Path("out.jsonl")
PAGE = """<!doctype html><title>Counter</title><h1 id=n>0</h1>
<button onclick="n.textContent=+n.textContent+1;document.title='at '+n.textContent">More</button>
<a href=/deep/other.html>Other</a>"""


def calls(*asked: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in asked]}


CLICK = {"reply": calls(("click", {"element": 1}))}


def answer_after(steps: int) -> list[dict[str, Any]]:
    return [{"when": {"answers": steps}, "reply": calls(("answer", {"text": "three"}))}, CLICK]


def web_config(url: str, *infos: dict[str, Any], **web: Any) -> dict[str, Any]:
    site = Path("counter")
    (site / "deep").mkdir(parents=True, exist_ok=True)
    (site / "index.html").write_text(PAGE)
    (site / "deep" / "other.html").write_text("<title>Other page</title>there")
    tasks = [
        {
            "id": f"task{number}",
            "messages": [{"role": "user", "content": "Click three times, then answer."}],
            "task_info": {"website": "http://counter.test/", **info},
        }
        for number, info in enumerate(infos or ({},))
    ]
    return {
        "models": {"agent": {"api_base": url}},
        "datasets": {
            "web": {
                "path": write_tasks(Path("tasks.jsonl"), *tasks),
                "output_path": OUT,
                "agent": "agent",
                "web": {"sites": ["counter"], **web},
            }
        },
    }


async def test_an_answer_ends_it_and_everything_shown_is_kept() -> None:
    async with StubServer({"rules": answer_after(3)}, keep_requests=True) as stub:
        await roll_out(web_config(stub.url))
    (line,) = read_lines(OUT)
    metadata = line["metadata"]
    assert (metadata["status"], metadata["stop_reason"], metadata["total_turns"]) == ("completed", "answered", 1)
    assert [message["role"] for message in line["messages"]] == ["user", "user"] + ["assistant", "tool"] * 4
    opening = line["messages"][1]
    assert opening["content"].startswith("URL: http://counter.test/\nTitle: Counter\n")
    assert "Title: at 3\n" in line["messages"][7]["content"]
    shown = [name for message in line["messages"] for name in message.get("images", ())]
    assert len(shown) == 4
    for name in shown:
        assert (Path("run/blobs") / name).read_bytes().startswith(b"\x89PNG")
    sent = stub.requests[-1]
    assert sent["tools"][0]["function"]["name"] == "click"


async def test_a_task_has_its_own_number_of_steps() -> None:
    async with StubServer({"rules": [CLICK]}) as stub:
        await roll_out(web_config(stub.url, {"max_steps": 2}, {"max_steps": 4}))
    steps = {line["id"]: line["metadata"]["generations"] for line in read_lines(OUT)}
    assert steps == {"task0": 2, "task1": 4}
    assert {line["metadata"]["stop_reason"] for line in read_lines(OUT)} == {"max_steps"}


async def test_a_paused_run_goes_on_where_the_page_was() -> None:
    async with StubServer({"rules": answer_after(3)}, keep_requests=True) as stub:
        config = web_config(stub.url)
        await roll_out(config, pause_when=lambda progress: progress.tool_calls == 2)
        assert not OUT.read_bytes()
        opened = await roll_out(config)
        asked = len(stub.requests)
    (line,) = read_lines(OUT)
    assert "Title: at 3\n" in line["messages"][7]["content"]
    assert opened.engine.replay_mismatches == 0
    assert asked == 4, "what was paid for is not paid for again"


async def test_a_page_that_came_back_otherwise_starts_anew() -> None:
    async with StubServer({"rules": answer_after(3)}) as stub:
        config = web_config(stub.url)
        await roll_out(config, pause_when=lambda progress: progress.tool_calls == 2)
        (Path("counter") / "index.html").write_text(PAGE.replace("Counter", "Another counter"))
        opened = await roll_out(config)
    (line,) = read_lines(OUT)
    assert opened.engine.replay_mismatches == 1
    assert "Title: Another counter" in line["messages"][1]["content"]


async def test_sites_may_be_reached_where_the_task_says_so() -> None:
    rules = [
        {"when": {"answers": 0}, "reply": calls(("navigate", {"url": "http://second.test/"}))},
        {"reply": calls(("answer", {"text": "x"}))},
    ]
    Path("second").mkdir()
    Path("second/index.html").write_text("<title>Second site</title>")
    async with StubServer({"rules": rules}) as stub:
        config = web_config(stub.url, {}, {"hosts": ["second.test"]}, sites=["counter", "second"])
        await roll_out(config)
    seen = {line["id"]: line["messages"][3]["content"] for line in read_lines(OUT)}
    assert "not a host that this task may reach" in json.loads(seen["task0"].partition("\n")[0])["error"]
    assert "Title: Second site" in seen["task1"]


async def test_a_folder_shows_nothing_beside_itself() -> None:
    Path("counter").mkdir()
    Path("secret.txt").write_text("secret")
    (Path("counter") / "leak.txt").symlink_to(Path("secret.txt").resolve())
    sites = load_sites(["counter"])
    import aiohttp

    try:
        host, port = (await sites.routes())["counter.test"]
        async with aiohttp.ClientSession() as session:
            for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/leak.txt"):
                async with session.get(f"http://{host}:{port}{path}") as reply:
                    assert reply.status == 404, path
    finally:
        await sites.close()


async def test_a_site_of_another_package_is_named_as_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_kiosk.py").write_text("from aiohttp import web\n\ndef make_app():\n    return web.Application()\n")
    about = Path("my_kiosk-1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-kiosk\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[rollout.sites]\nnews_stand = my_kiosk:make_app\n")
    monkeypatch.syspath_prepend(Path.cwd())
    sites = load_sites(["news_stand"])
    try:
        assert [*await sites.routes()] == ["news-stand.test"]
    finally:
        await sites.close()


@pytest.mark.parametrize(
    ("sites", "told"), [(["no-such-site"], "no site 'no-such-site'"), (["counter", "./counter"], "another one called")]
)
def test_sites_that_cannot_be_served_are_refused(sites: list[str], told: str) -> None:
    Path("counter").mkdir()
    with pytest.raises(ConfigError, match=told):
        load_sites(sites)
