"""Scoring through the engine: in the live page, then by a judge that holds no browser, and again from the record."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollout.environments.web.browsers import BrowserPool
from rollout.testing import StubProcess, StubServer
from tests.conftest import Command, read_lines, roll_out, rollout, write_tasks, write_yaml
from tests.environments.web import cart_site

__all__ = ["rollout"]
OUT = Path("out.jsonl")
HOST = "http://cart-site.test"
IN_CART = [
    {"kind": "url", "equals": "/add"},
    {"kind": "dom", "url": "/cart", "selector": "li.item", "text": "blue mug"},
    {"kind": "dom", "url": "/cart", "selector": "li.item", "count": 1},
    {"kind": "script", "script": "window.cart", "equals": 1},
]
RUBRIC = [{"description": "The price is shown.", "difficulty": 1}]
VERDICT = json.dumps(
    {
        "nonce": "{nonce}",
        "facts": [{"fact": 1, "holds": True, "step": 0, "source": "text", "evidence": "Blue mug, 12 EUR"}],
        "claims": {"supported": True, "evidence": "step 0"},
    }
)
SEEN = VERDICT.replace('"text"', '"screenshot", "picture": 1')


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"reply": {"tool_calls": [{"name": name, "arguments": arguments}]}}


def buying(answer: str = "12 EUR", judge: str = VERDICT) -> dict[str, Any]:
    """An agent that adds the mug and answers, and a judge."""
    return {
        "rules": [
            {"when": {"model": "judge"}, "reply": {"content": judge}},
            {"when": {"answers": 1}, **calls("answer", text=answer)},
            calls("click", element=1),
        ]
    }


def config(url: str, *infos: dict[str, Any], scoring: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    tasks = [
        {
            "id": f"task{number}",
            "messages": [{"role": "user", "content": "Put the blue mug into the cart and tell its price."}],
            "task_info": {"website": HOST, **info},
        }
        for number, info in enumerate(infos)
    ]
    return {
        "retries": {"attempts": 1},
        "models": {"agent": {"api_base": url}, "judge": {"api_base": url}},
        "datasets": {
            "web": {
                "path": write_tasks(Path("tasks.jsonl"), *tasks),
                "output_path": OUT,
                "agent": "agent",
                "web": {"sites": ["tests.environments.web.cart_site:make_app"], "mode": "text"},
                "scoring": scoring or {},
            }
        },
        **more,
    }


def scores(line: dict[str, Any]) -> dict[str, Any]:
    return {score["name"]: score for score in line["metadata"]["scores"]}


async def test_checks_and_answer_decide_and_blocking_is_told() -> None:
    answer = {"equals": "12", "match": "number"}
    async with StubServer(buying()) as stub:
        await roll_out(
            config(
                stub.url,
                {"checks": IN_CART, "answer": answer},
                {"checks": [*IN_CART, {"kind": "dom", "url": "/cart", "selector": "li", "count": 2}]},
                {"checks": IN_CART, "answer": {"equals": "13"}},
                {"checks": [*IN_CART, {"kind": "dom", "url": "/broken", "selector": "li", "exists": True}]},
                {"checks": [{"kind": "url"}]},
                {},
            )
        )
    lines = {line["id"]: line for line in read_lines(OUT)}
    outcome = {name: (line["success"], line["metadata"]["scored"]) for name, line in lines.items()}
    assert outcome == {
        "task0": (True, True),
        "task1": (False, True),
        "task2": (False, True),
        "task3": (False, False),
        "task4": (False, False),
        "task5": (True, False),
    }
    assert {name: scores(line)["blocked"]["value"] for name, line in lines.items()} == dict.fromkeys(lines, 0.0)
    assert not any(scores(line)["blocked"].get("decides") for line in lines.values())
    first = scores(lines["task0"])["checks"]["evidence"]["checks"]
    assert [each["holds"] for each in first] == [True] * 4
    assert first[1]["found"] == ["Blue mug"]
    assert "li: count 2 at /cart" in scores(lines["task1"])["checks"]["reason"]
    assert "its status is 500" in lines["task3"]["metadata"]["unscored"]
    assert "task task4: task_info.checks[0]: expected exactly one" in lines["task4"]["metadata"]["unscored"]


async def test_site_that_refuses_is_told_as_blocking() -> None:
    rules = {"rules": [{"when": {"answers": 1}, **calls("answer", text="?")}, calls("wait", seconds=0.1)]}
    Path("wall").mkdir()
    Path("wall/index.html").write_text("<title>Just a moment...</title>Verify you are human")
    async with StubServer(rules) as stub:
        built = config(stub.url, {"website": "http://wall.test/", "answer": {"equals": "12"}})
        built["datasets"]["web"]["web"]["sites"] = ["wall"]
        await roll_out(built)
    (line,) = read_lines(OUT)
    assert scores(line)["blocked"]["value"] == 1.0
    assert scores(line)["blocked"]["evidence"]["message"] == 3
    assert "Just a moment" in scores(line)["blocked"]["evidence"]["seen"]
    assert (line["success"], line["metadata"]["scored"]) == (False, True)


async def test_judge_sees_screenshots_and_is_charged() -> None:
    async with StubServer(buying(judge=SEEN), keep_requests=True) as stub:
        built = config(stub.url, {"rubric": RUBRIC}, scoring={"judge": "judge", "judge_images": 1})
        built["datasets"]["web"]["web"]["mode"] = "set_of_marks"
        built["models"]["judge"] |= {"images": True, "input_cost_per_token": 0.001, "output_cost_per_token": 0.001}
        await roll_out(built)
        sent = [request for request in stub.requests if request["model"] == "judge"]
    (line,) = read_lines(OUT)
    assert [len(request["messages"]) for request in sent] == [2, 4, 6], (
        "step 0's screenshot was not attached: no verdict"
    )
    parts = sent[0]["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "picture 1 is of step 1." in parts[0]["text"]
    assert (line["success"], line["metadata"]["scored"]) == (False, False)
    assert "picture 1 is of step 1, not of step 0" in line["metadata"]["unscored"]
    assert line["metadata"]["cost"] > 0


@pytest.mark.parametrize(
    "answer", ["", "NOT SUCCESS", "not success", "FAILURE", "Verdict: SUCCESS", VERDICT[:-9], '{"facts": []}']
)
async def test_judge_fails_closed(answer: str) -> None:
    async with StubServer(buying(judge=answer)) as stub:
        await roll_out(config(stub.url, {"rubric": RUBRIC}, scoring={"judge": "judge"}))
    (line,) = read_lines(OUT)
    assert (line["success"], line["metadata"]["scored"], line["metadata"]["status"]) == (False, False, "completed")
    assert scores(line)["rubric"]["value"] is None
    assert "rubric: unjudged after 3 tries" in line["metadata"]["unscored"]


async def test_judge_that_is_down_leaves_the_others_alone() -> None:
    async with StubServer(buying()) as stub:
        built = config(
            stub.url,
            {"rubric": RUBRIC},
            {"checks": IN_CART},
            {"rubric": RUBRIC, "checks": IN_CART},
            {"checks": IN_CART},
            scoring={"judge": "judge"},
            browsers={"max_contexts": 1},
        )
        built["models"]["judge"]["api_base"] = "http://127.0.0.1:9/v1"
        await roll_out(built)
    lines = {line["id"]: line for line in read_lines(OUT)}
    outcome = {name: (line["success"], line["metadata"]["scored"]) for name, line in lines.items()}
    assert outcome == {
        "task0": (False, False),
        "task1": (True, True),
        "task2": (False, False),
        "task3": (True, True),
    }
    assert "the judge could not be asked" in lines["task0"]["metadata"]["unscored"]
    assert {line["metadata"]["status"] for line in lines.values()} == {"completed"}


async def test_tasks_of_webvoyager_are_rolled_out_and_judged() -> None:
    task = {"web_name": "Cart", "id": "Cart--0", "ques": "What does the blue mug cost?", "web": HOST}
    answers = {"Cart": {"answers": [{"id": 0, "type": "golden", "ans": "twelve euros"}]}}
    Path("reference_answer.json").write_text(json.dumps(answers))
    matching = json.dumps(json.loads(VERDICT) | {"reference": {"matches": True, "evidence": "12 is twelve"}})
    async with StubServer(buying(judge=matching), keep_requests=True) as stub:
        built = config(stub.url, scoring={"judge": "judge"})
        built["datasets"]["web"]["path"] = write_tasks(Path("WebVoyager_data.jsonl"), task)
        await roll_out(built)
        (asked,) = [request["messages"][1]["content"] for request in stub.requests if request["model"] == "judge"]
    (line,) = read_lines(OUT)
    assert (line["id"], line["success"], line["metadata"]["scored"]) == ("Cart--0", True, True)
    assert "The reference answer:\ntwelve euros" in asked
    assert "1. The task was done in full, as it was asked: What does the blue mug cost?" in asked


async def test_browser_is_free_before_the_judge_is_asked() -> None:
    """The judge answers only when a second visitor has come, and there is one place for one browser."""
    cart_site.second_visitor.clear()
    asked_with: list[bool] = []

    async def judge(request: web.Request) -> web.Response:
        asked_with.append(cart_site.second_visitor.is_set())
        async with asyncio.timeout(300):
            await cart_site.second_visitor.wait()
        instructions = (await request.json())["messages"][0]["content"]
        nonce = instructions.partition('"nonce": "')[2].partition('"')[0]
        message = {"role": "assistant", "content": VERDICT.replace("{nonce}", nonce)}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop", "index": 0}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with StubServer(buying()) as stub:
            infos = [{"rubric": RUBRIC}] * 2
            built = config(stub.url, *infos, scoring={"judge": "judge"}, browsers={"max_contexts": 1})
            built["models"]["judge"]["api_base"] = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            await roll_out(built)
    finally:
        await runner.cleanup()
    assert [line["success"] for line in read_lines(OUT)] == [True, True]
    assert asked_with[0] is False, "the first judgement waited for the second episode's browser"


def test_run_is_scored_again_without_a_browser(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    command: Command = request.getfixturevalue("rollout")
    with StubProcess(buying()) as stub:
        infos = [{"rubric": RUBRIC, "checks": IN_CART}, {"rubric": RUBRIC}, {"answer": {"equals": "12 EUR"}}]
        asyncio.run(roll_out(config(stub.url, *infos)))
        before = {line["id"]: line for line in read_lines(OUT)}
        assert (before["task0"]["success"], before["task1"]["metadata"]["scored"]) == (True, False)

        def no_browser(*_: Any) -> None:
            raise AssertionError("a browser was asked for")

        monkeypatch.setattr(BrowserPool, "lease", no_browser)
        monkeypatch.setattr(BrowserPool, "check", no_browser)
        asked_again = config(stub.url, *infos, scoring={"judge": "judge"})
        asked_again["datasets"]["web"]["path"] = str(asked_again["datasets"]["web"]["path"])
        asked_again["datasets"]["web"]["output_path"] = str(OUT)
        done = command("score", "run", "--write", "--config", str(write_yaml(Path("judged.yml"), asked_again)))
    assert done.code == 0, done.err
    assert "web: checks as recorded: it needs the live world, which is not opened again" in done.out
    after = {line["id"]: line for line in read_lines(Path("run/scores.jsonl"))}
    assert {name: (line["success"], line["scored"]) for name, line in after.items()} == dict.fromkeys(
        after, (True, True)
    )
    said = {score["name"]: score for score in after["task0"]["scores"]}
    assert said["checks"]["is_carried"] is True
    assert said["checks"]["evidence"] == scores(before["task0"])["checks"]["evidence"]
    assert said["rubric"]["value"] == 1.0
    assert "is_carried" not in said["rubric"]
    plain = command("score", "run")
    assert plain.code == 0, plain.err
