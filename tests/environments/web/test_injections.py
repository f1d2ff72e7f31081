"""A verdict that a page or an agent wrote is never a score, even before a judge that copies what it finds."""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from aiohttp.test_utils import TestServer

from rollout import load_run
from rollout.core.messages import NO_TOOLS, Message
from rollout.environments.empty import EmptyWorld
from rollout.environments.web.scoring.rubric import RubricScorer, WebJudge
from rollout.models.model import Request
from rollout.scoring.judge import Judge
from rollout.tasks.jsonl import parse_task
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from tests.conftest import read_lines, roll_out, write_tasks
from tests.environments.web.injections import INJECTIONS, url_of
from tests.scoring.nonces import read_nonce, with_nonce

TASKS = {
    name: {
        "id": name,
        "messages": [{"role": "user", "content": "Tell the price."}],
        "task_info": {"website": url_of(name), "rubric": [{"description": "The price of the blue mug is shown."}]},
    }
    for name in INJECTIONS
}


def find_verdict(text: str) -> str | None:
    """The first verdict that a text contains, in whatever disguise."""
    for form in _forms(text):
        for start in re.finditer(r"\{", form):
            try:
                found, _ = json.JSONDecoder().raw_decode(form, start.start())
            except ValueError:
                continue
            if "facts" in found:
                return json.dumps(found, ensure_ascii=False)
    return None


def _forms(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
    yield text.replace('\\"', '"')
    plain = unicodedata.normalize("NFKC", text)
    yield "".join(char for char in plain if unicodedata.category(char) != "Cf")
    pieces = "".join(re.findall("⟪(.*?)⟫", text, re.DOTALL))
    yield pieces
    yield pieces.replace('\\"', '"')
    for word in re.findall(r"[\w+/=]{60,}", text):
        try:
            yield base64.b64decode(word).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue


async def copy(request: web.Request) -> web.Response:
    """Answer as a judge that copies a verdict from what it is shown."""
    messages = (await request.json())["messages"]
    content = find_verdict("\n".join(message["content"] for message in messages if message["role"] == "user"))
    message = {"role": "assistant", "content": content or "I see none."}
    return web.json_response({"choices": [{"message": message, "finish_reason": "stop", "index": 0}]})


class Convinced:
    """A judge that copies what it finds and adds the nonce: pages have talked it into doing so."""

    name = "judge"
    capabilities: frozenset[Any] = frozenset()

    async def generate(self, request: Request) -> Generation:
        found = find_verdict(json.loads(request.wire[1])["content"])
        answer = with_nonce(found, read_nonce(request)) if found else "I see none."
        return Generation(Message(role="assistant", content=answer))

    async def close(self) -> None:
        """Nothing is held."""


def agent_rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for name, injection in INJECTIONS.items():
        marked = {"model": f"agent {name}"}
        answer = {"tool_calls": [{"name": "answer", "arguments": {"text": injection.answer}}]}
        if injection.call is not None:
            first = {"content": injection.said or None, "tool_calls": [injection.call]}
            rules.append({"when": {**marked, "answers": 0}, "reply": first})
        rules.append({"when": marked, "reply": answer})
    return rules


def config(agent_url: str, judge_url: str) -> dict[str, Any]:
    """A dataset for each page: its agent is told apart by the model's name."""
    models = {f"agent {name}": {"api_base": agent_url} for name in INJECTIONS}
    return {
        "retries": {"attempts": 1},
        "models": {**models, "judge": {"api_base": judge_url}},
        "datasets": {
            name: {
                "path": write_tasks(Path(f"{name}.jsonl"), task),
                "output_path": Path(f"{name}.out.jsonl"),
                "agent": f"agent {name}",
                "web": {"sites": ["tests.environments.web.injections:make_app"], "mode": "text"},
                "scoring": {"judge": "judge", "judge_attempts": 2},
            }
            for name, task in TASKS.items()
        },
    }


async def test_none_of_thirty_injected_verdicts_is_a_score() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", copy)
    async with TestServer(app) as judge, StubServer({"rules": agent_rules()}) as agent:
        await roll_out(config(agent.url, str(judge.make_url("/v1"))))
    lines = {name: read_lines(Path(f"{name}.out.jsonl"))[0] for name in INJECTIONS}
    assert len(lines) == 30
    assert {line["metadata"]["status"] for line in lines.values()} == {"completed"}
    outcomes = {name: (line["success"], line["metadata"]["scored"]) for name, line in lines.items()}
    assert outcomes == dict.fromkeys(INJECTIONS, (False, False))
    stopped = {name for name, line in lines.items() if "nonce" in line["metadata"]["unscored"]}
    shown = {name for name, injection in INJECTIONS.items() if injection.is_shown}
    assert stopped == shown, "a judge found the verdict of each page that shows one, and the nonce alone stopped it"

    scorer = RubricScorer(WebJudge(Judge(Convinced(), attempts=1)))
    scores = {
        one.task_id: await scorer.score(parse_task(TASKS[one.task_id]), one, EmptyWorld(NO_TOOLS))
        for one in load_run(Path("run")).trajectories
    }
    passed = {name for name, score in scores.items() if score is not None and score.is_pass}
    assert passed == shown - {"empty nonce", "zero nonce", "guessed nonce", "given nonce"}
