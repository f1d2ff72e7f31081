"""What docs/reference/output.md says is so: its example runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import read_lines, roll_out
from tests.docs.test_docs import blocks


async def test_its_example_reads_every_trajectory_and_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    out = Path("outputs/shop.jsonl")
    agent = {"model": "builtin/oracle", "params": {"unknown_tool": 0.5}}
    dataset = {"environment": "tests.environments.shop:shop", "agent": agent, "samples": 4, "output_path": out}
    await roll_out({"datasets": {"shop": dataset}}, Path("runs/default"))
    (example,) = (body for page, body in blocks("python") if page == "docs/reference/output.md")
    exec(compile(example, "docs/reference/output.md", "exec"), {})
    told = capsys.readouterr().out
    assert all(f"{line['id']} {line['metadata']['status']}" in told for line in read_lines(out))
    assert "unknown_tool error" in told
