"""Pages on several machines: their images come to the run directory, and follow an episode to another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody
from tests.conftest import read_lines, write_tasks
from tests.distributed.near import NearMachines
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
CLICK = {"tool_calls": [{"name": "click", "arguments": {"element": 1}}]}
ANSWER = {"tool_calls": [{"name": "answer", "arguments": {"text": "done"}}]}
RULES = [{"when": {"answers": 3}, "reply": ANSWER}, {"reply": CLICK}]


class KillFirst:
    """Kills the first worker after so many observations."""

    def __init__(self, machines: NearMachines, after: int) -> None:
        self._machines = machines
        self._left = after

    def episode_began(self, dataset: str, trajectory: str, opening: Any, is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        self._left -= body.kind == "tool"
        if self._left == 0:
            self._machines.links[0].kill()

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass


async def test_images_travel_where_no_folder_is_shared(site: Site) -> None:
    tasks = [
        {
            "id": f"{number}",
            "messages": [{"role": "user", "content": "Click."}],
            "task_info": {"website": site.url("/second"), "private_hosts": ["127.0.0.1"]},
        }
        for number in range(4)
    ]
    machines = NearMachines(1, 1, shares=False)
    async with StubServer({"rules": RULES}, keep_requests=True) as stub:
        config = {
            "max_workers": 4,
            "cluster": "auto",
            "models": {"agent": {"api_base": stub.url, "images": True}},
            "datasets": {
                "web": {
                    "path": write_tasks(Path("tasks.jsonl"), *tasks),
                    "output_path": "out.jsonl",
                    "agent": "agent",
                    "web": {"step_timeout": 8, "load_timeout": 2, "settle_timeout": 1, "open_timeout": 20},
                }
            },
        }
        killing = KillFirst(machines, 5)
        checked = Config.model_validate(config)
        async with open_run(checked, Path("run"), resume=True, observers=[killing], machines=machines) as opened:
            await opened.engine.run()
        sent = [body for body in stub.requests if "data:image/" in str(body)]
    assert len(sent) == len(stub.requests), "every request showed the page, also those of a moved episode"
    lines = read_lines(Path("out.jsonl"))
    assert {line["id"] for line in lines} == {"0", "1", "2", "3"}
    assert {line["metadata"]["stop_reason"] for line in lines} == {"answered"}
    named = {name for line in lines for message in line["messages"] for name in message.get("images", ())}
    assert named
    assert all((Path("run/blobs") / name).is_file() for name in named)
    assert machines.links[0].is_dead
