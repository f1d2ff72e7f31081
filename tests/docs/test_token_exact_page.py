"""What docs/how-to/token-exact.md says is so: its example gives the rows of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout.testing import StubServer
from tests.conftest import roll_out, stub_config, write_tasks
from tests.docs.test_docs import blocks

PAGE = "docs/how-to/token-exact.md"


async def test_its_example_gives_a_row_with_every_sampled_token_of_each_trajectory() -> None:
    async with StubServer({"rules": [{"reply": {"content": "Done and dusted."}}]}) as stub:
        config = stub_config(stub.url, write_tasks(Path("tasks.jsonl"), "first", "second"), max_turns=1)
        config["models"]["agent"]["token_ids"] = True
        await roll_out(config)
    made: dict[str, Any] = {}
    (example,) = (body for page, body in blocks("python") if page == PAGE and "def rows" in body)
    exec(compile(example, PAGE, "exec"), made)
    rows = list(made["rows"]("run", "data"))
    assert len(rows) == 2
    for ids, mask, logprobs in rows:
        assert len(ids) == len(mask) == len(logprobs)
        assert 0 < sum(mask) < len(mask), "the prompt is not sampled, the answer is"
