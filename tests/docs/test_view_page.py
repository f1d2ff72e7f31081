"""docs/how-to/view.md says what the page does: its script runs, its keys are those of the page, its options exist."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rollout
from tests.api.shop import shop
from tests.docs.test_docs import ROOT

pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from rollout.viewer.serve import serving

PAGE = (ROOT / "docs" / "how-to" / "view.md").read_text(encoding="utf-8")
VIEWS = ROOT / "frontend" / "src"
ARROWS = {"ArrowLeft": "←", "ArrowRight": "→", "PageUp": "PgUp", "PageDown": "PgDn"}
BINDING = re.compile(r'\{\s*key: "([^"]+)",\s*words: "[^"]*",(?! isHidden)')


async def test_its_script_labels_unsolved_attempts() -> None:
    async def idle(request: rollout.Request) -> str:
        return "I cannot help with that."

    run = await asyncio.to_thread(rollout.run, shop, model=idle, run_dir="runs/default", samples=4, progress=False)
    (script,) = re.findall(r'^```python title="label.py"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    await asyncio.to_thread(Path("label.py").write_text, script)
    async with serving([Path("runs")], port=0) as address:
        command = [sys.executable, "label.py", address]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert [(mark.kind, mark.text) for mark in run.marks] == [("label", "look again")] * 3


def test_its_table_has_every_key_of_the_page() -> None:
    table = PAGE.partition("## Keyboard")[2].partition("## From a script")[0]
    bound = {key for path in VIEWS.rglob("*.tsx") for key in BINDING.findall(path.read_text())}
    named = {ARROWS.get(key, key) for key in bound}
    assert len(named) > 20
    assert {key for key in named if f"`{key}`" not in table} - {"ArrowUp", "ArrowDown"} == set()
