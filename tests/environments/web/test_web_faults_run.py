"""What breaks in one episode stays in it: faulty pages and killed browsers among episodes that go well, in one run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rollout.config.schema import Config
from rollout.core.messages import JSON, Message
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody
from tests.conftest import read_lines, write_tasks
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
CLICK = {"tool_calls": [{"name": "click", "arguments": {"element": 1}}]}
ANSWER = {"tool_calls": [{"name": "answer", "arguments": {"text": "done"}}]}
RULES = [{"when": {"answers": 3}, "reply": ANSWER}, {"reply": CLICK}]
FAULTY = ("/never", "/hang", "/alert-loop", "/alert-timer", "/big")


class KillBrowsers:
    """Kills every browser below this process when so many observations were made."""

    def __init__(self, *after: int) -> None:
        self._after = after
        self._seen = 0
        self.killed = 0

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        self._seen += body.kind == "tool"
        if body.kind == "tool" and self._seen in self._after:
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # one that was killed before, and is not yet reaped
                    if "headless" in process.name() and "--type=" not in " ".join(process.cmdline()):
                        process.kill()
                        self.killed += 1


async def run_pages(
    site: Site, paths: Sequence[str], *observers: Any, timeouts: JSON | None = None
) -> dict[str, dict[str, Any]]:
    """One episode for each page; their lines, the failed ones too, by number."""
    tasks = [
        {
            "id": f"{number}",
            "messages": [{"role": "user", "content": "Click."}],
            "task_info": {"website": path if "://" in path else site.url(path), "private_hosts": ["127.0.0.1"]},
        }
        for number, path in enumerate(paths)
    ]
    async with StubServer({"rules": RULES}) as stub:
        config = {
            "models": {"agent": {"api_base": stub.url}},
            "browsers": {"max_contexts": 6, "contexts_per_browser": 2},
            "datasets": {
                "web": {
                    "path": write_tasks(Path("tasks.jsonl"), *tasks),
                    "output_path": "out.jsonl",
                    "agent": "agent",
                    "web": timeouts or {},
                }
            },
        }
        async with open_run(Config.model_validate(config), Path("run"), resume=True, observers=observers) as opened:
            await opened.engine.run()
    lines = read_lines(Path("out.jsonl")) + read_lines(Path("run/failed.jsonl"))
    assert len(lines) == len(paths), "every attempt is accounted for, once"
    return {line["id"]: line for line in lines}


async def test_faulty_pages_among_good_ones(site: Site) -> None:
    paths = [*FAULTY, "http://127.0.0.1:9/", *["/second"] * 6]
    timeouts = {"step_timeout": 8, "load_timeout": 2, "settle_timeout": 1, "open_timeout": 20}
    lines = await run_pages(site, paths, timeouts=timeouts)
    by_path = {paths[int(number)]: line for number, line in lines.items()}
    for number, line in lines.items():
        if paths[int(number)] == "/second":
            assert line["metadata"]["stop_reason"] == "answered"
            assert line["metadata"]["tool_errors"] == {}
    for path in ("/never", "http://127.0.0.1:9/"):
        metadata = by_path[path]["metadata"]
        assert (metadata["status"], metadata["error"]["kind"], metadata["scored"]) == ("failed", "navigation", False)
        assert "start page" in metadata["error"]["text"]
    for path in ("/hang", "/alert-loop", "/alert-timer", "/big"):
        assert by_path[path]["metadata"]["stop_reason"] == "answered", f"{path} was survived"
    assert by_path["/hang"]["metadata"]["tool_errors"]["timeout"] >= 1
    assert "more than 10 dialogs" in str(by_path["/alert-loop"]["messages"])


async def test_killed_browsers_cost_no_episode_anything(site: Site) -> None:
    killer = KillBrowsers(5, 14)
    lines = await run_pages(site, ["/second"] * 12, killer)
    assert killer.killed >= 2
    assert [line["metadata"]["error"] for line in lines.values()] == [None] * 12
    assert {line["metadata"]["stop_reason"] for line in lines.values()} == {"answered"}
    assert [line["metadata"]["tool_errors"] for line in lines.values()] == [{}] * 12
    seen = [[message for message in line["messages"] if message["role"] == "tool"] for line in lines.values()]
    assert [[message["content"] for message in each] for each in seen] == [
        [message["content"] for message in seen[0]]
    ] * 12


async def test_a_server_that_goes_away_is_an_observation(site: Site) -> None:
    class StopTheSite(KillBrowsers):
        def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
            if body.kind == "observation":
                site.stop_soon()

    lines = await run_pages(site, ["/second"], StopTheSite())
    (line,) = lines.values()
    assert line["metadata"]["stop_reason"] == "answered"
    assert "cannot be reached" in str(line["messages"])
