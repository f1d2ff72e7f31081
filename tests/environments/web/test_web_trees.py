"""Branches in real browsers: a page is brought to a node by replaying the calls before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out
from tests.environments.web.site import Site
from tests.environments.web.test_web_run import OUT, PAGE, answer_after, calls, web_config

STRATEGY = {"name": "random_tree", "params": {"trees": 1, "expansions": 6}}


def tree_config(url: str, *infos: dict[str, Any], **dataset: Any) -> dict[str, Any]:
    config = web_config(url, *infos)
    config["datasets"]["web"] |= {"strategy": STRATEGY, **dataset}
    return config


def shared_calls(line: dict[str, Any]) -> list[str]:
    """The actions whose results a branch began with."""
    before = line["messages"][: line["metadata"]["branch"].get("shared_messages", 0)]
    return [call["function"]["name"] for message in before for call in message.get("tool_calls", ())]


async def test_a_branch_goes_on_in_a_page_that_was_brought_to_its_state() -> None:
    async with StubServer({"rules": answer_after(3)}, keep_requests=True) as stub:
        opened = await roll_out(tree_config(stub.url))
        asked = len(stub.requests)
    lines = read_lines(OUT)
    assert len(lines) == 7
    assert opened.engine.replay_mismatches == 0
    replayed = [shared_calls(line) for line in lines]
    assert {len(clicked) for clicked in replayed} > {0, 1}, "from inner nodes of the path, too"
    assert asked == 7 * 4 - sum(map(len, replayed)), "what is shared is not asked of the model again"
    for line in lines:
        titles = [message["content"].split("Title: ")[1].split("\n")[0] for message in line["messages"][1:-1:2]]
        assert titles == ["Counter", "at 1", "at 2", "at 3"]


async def test_where_a_page_answers_otherwise_the_branch_is_a_fresh_chain() -> None:
    async with StubServer({"rules": answer_after(3)}) as stub:
        config = tree_config(stub.url)
        (Path("counter") / "index.html").write_text(
            PAGE.replace("+n.textContent+1", "crypto.getRandomValues(new Uint32Array(1))[0]")
        )
        opened = await roll_out(config)
    lines = read_lines(OUT)
    fresh = [line for line in lines if line["metadata"]["branch"]["reason"] == "fresh"]
    assert len(lines) == 7
    assert len(fresh) == opened.engine.replay_mismatches >= 1, "counted, and told"
    assert all(shared_calls(line) == [] for line in lines)
    assert {line["metadata"]["status"] for line in lines} == {"completed"}


async def test_what_is_irreversible_is_never_done_again_on_a_live_site() -> None:
    async with Site() as site:
        rules = [
            {"when": {"answers": 0}, "reply": calls(("scroll", {"direction": "down"}))},
            {"when": {"answers": 1}, "reply": calls(("navigate", {"url": site.url("/second")}))},
            {"reply": calls(("answer", {"text": "done"}))},
        ]
        info = {"website": site.url("/"), "start_url": site.url("/"), "private_hosts": [site.host]}
        async with StubServer({"rules": rules}) as stub:
            config = tree_config(stub.url, info, irreversible=["navigate"])
            config["datasets"]["web"]["web"] = {}
            opened = await roll_out(config)
        gone = site.asked["/second"]
    lines = read_lines(OUT)
    reasons = [line["metadata"]["branch"]["reason"] for line in lines]
    assert reasons.count("fresh") == opened.engine.replay_mismatches >= 1
    assert any(shared_calls(line) == ["scroll"] for line in lines), "before it, branches are replayed as ever"
    assert gone == len(lines) == 7, "each attempt for itself, once"
