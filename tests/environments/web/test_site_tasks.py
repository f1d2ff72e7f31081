"""The tasks on the shipped sites, through the ordinary engine: solvable, and not by doing nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rollout.examples.web as shipped
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out

SITES = ("shop", "wiki", "booking", "tracker")
FILES = {name: Path(shipped.__file__).parent / "tasks" / f"{name}.jsonl" for name in SITES}
OUT = Path("out.jsonl")
ORACLE = {"model": "builtin/oracle"}
# Hundreds of steps in real browsers, perhaps on a busy machine.
pytestmark = pytest.mark.timeout(600)


async def play(agent: Any, *paths: Path, web: dict[str, Any] | None = None, **changes: Any) -> list[dict[str, Any]]:
    dataset = {
        "path": list(paths),
        "output_path": OUT,
        "agent": agent,
        "web": {"sites": SITES, "image_format": "jpeg", **(web or {})},
        "max_steps_per_turn": 40,
        **changes,
    }
    config = {"enable_monitor": False, "seed": 1, "max_workers": 8, "datasets": {"web": dataset}}
    if isinstance(agent, dict) and "api_base" in agent:
        config["models"] = {"stub": agent}
        dataset["agent"] = "stub"
    await roll_out(config, resume=False)
    return read_lines(OUT)


def unsolved(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {line["task_id"]: line["metadata"]["scores"] for line in lines if not line["success"]}


def some(count: int, *names: str) -> Path:
    """Every so many of the tasks of some sites, in a file of their own."""
    lines = [line for name in names for line in FILES[name].read_bytes().splitlines(keepends=True)]
    path = Path("some.jsonl")
    path.write_bytes(b"".join(lines[::count]))
    return path


@pytest.mark.parametrize("name", SITES)
async def test_oracle_solves_every_task(name: str) -> None:
    lines = await play(ORACLE, FILES[name])
    assert len(lines) == len(FILES[name].read_bytes().splitlines()) >= 15
    assert unsolved(lines) == {}
    assert all(line["metadata"]["scored"] and line["metadata"]["stop_reason"] == "answered" for line in lines)
    # Reference actions never run into an error but those that the task is about, which pages tell by themselves.
    assert [line["task_id"] for line in lines if line["metadata"]["tool_errors"]] == []


async def test_oracle_solves_tasks_on_pages_shown_as_text() -> None:
    lines = await play(ORACLE, some(4, *SITES), web={"mode": "text"})
    assert len(lines) >= 15
    assert unsolved(lines) == {}
    assert not any(message.get("images") for line in lines for message in line["messages"])


@pytest.mark.parametrize("what", ["says", "answers"])
async def test_agent_that_does_nothing_solves_no_task(what: str) -> None:
    if what == "says":
        lines = await play({**ORACLE, "params": {"stop_early": 1.0}}, *FILES.values(), web={"mode": "text"})
    else:
        call = {"tool_calls": [{"name": "answer", "arguments": {"text": ""}}]}
        async with StubServer({"rules": [{"reply": call}]}) as stub:
            lines = await play({"api_base": stub.url}, *FILES.values(), web={"mode": "text"})
    assert len(lines) >= 60
    assert [line["task_id"] for line in lines if line["success"]] == []
    assert all(line["metadata"]["scored"] for line in lines)


async def test_oracle_that_errs_fails_at_some_and_the_checks_find_it() -> None:
    params = {"wrong_argument": 0.1, "stop_early": 0.04, "repeat": 0.05, "unknown_tool": 0.03, "malformed_call": 0.03}
    lines = await play({**ORACLE, "params": params}, some(3, *SITES), seed=3)
    failed = [line for line in lines if not line["success"]]
    assert 0 < len(failed) < len(lines)
    assert all(line["metadata"]["status"] in ("completed", "truncated") for line in lines)
    found = Counter(
        score["name"]
        for line in failed
        for score in line["metadata"]["scores"]
        if score.get("decides") and score["value"] == 0
    )
    assert set(found) == {"answer", "checks"}
    kinds: Counter[str] = Counter()
    for line in lines:
        kinds.update(line["metadata"]["tool_errors"])
    assert kinds["unknown_tool"]
    assert kinds["bad_arguments"]
    recovered = [line for line in lines if line["success"] and line["metadata"]["tool_errors"]]
    assert recovered, "some go wrong on the way and are put right"


async def test_episodes_at_once_do_not_share_a_cart() -> None:
    Path("mugs.jsonl").write_bytes(
        next(line for line in FILES["shop"].read_bytes().splitlines() if b"shop-two-navy-mugs" in line)
    )
    lines = await play(ORACLE, Path("mugs.jsonl"), samples=6, web={"mode": "text"})
    assert len(lines) == 6
    assert unsolved(lines) == {}
