"""The pages about Python: their code runs as it is, block after block, with built-in models in place of OpenAI's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, blocks

OPENAI_PACKAGE = '''
"""Takes the place of the package `openai`."""
from types import SimpleNamespace


class AsyncOpenAI:
    def __init__(self):
        self.chat = SimpleNamespace(completions=self)

    async def create(self, *, model, messages, tools):
        assert messages[0] == {"role": "system", "content": "You run a small shop."}
        assert tools[0]["function"]["name"] == "add"
        message = SimpleNamespace(model_dump=lambda: {"role": "assistant", "content": "Hello.", "tool_calls": None})
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])
'''


def run_script(name: str, text: str) -> str:
    Path(name).write_text(text.replace("openai/gpt-5", "builtin/oracle"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, name], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def page_blocks(page: str, language: str = "python") -> list[str]:
    return [body for found, body in blocks(language) if found == page]


@pytest.fixture
def shop() -> str:
    """The file `shop.py` of the first page; what it prints."""
    return run_script("shop.py", page_blocks("docs/getting-started/python.md")[0])


def test_the_first_script_solves_its_tasks_and_draws_a_tree(shop: str) -> None:
    assert shop.startswith("8 of 8 attempts solved, mean reward 1.0\nchair: 4 attempts\n")


def test_every_block_of_the_page_about_python_runs(shop: str) -> None:
    Path("openai.py").write_text(OPENAI_PACKAGE, encoding="utf-8")
    (config,) = page_blocks("docs/getting-started/python.md", "yaml")
    Path("shop.yml").write_text(config, encoding="utf-8")
    printed = run_script("page.py", "\n".join(page_blocks("docs/getting-started/python.md")[1:]))
    assert "8 records" in printed
    assert "user_stop" in printed
    assert "['large', 'small']" in printed
    assert "True 8" in printed


def test_every_block_of_the_page_about_corrections_runs(shop: str) -> None:
    printed = run_script("page.py", "\n".join(page_blocks("docs/how-to/correct.md")))
    assert "mugs-and-lamp~+1 ada corrected" in printed
    assert "mugs-and-lamp~+2 mugs-and-lamp~+1" in printed
    assert "chair~+1 chair" in printed
    assert "6 attempts added; 8 in the run itself" in printed


def test_every_block_of_the_page_about_agents_runs(shop: str) -> None:
    printed = run_script("page.py", "\n".join(page_blocks("docs/how-to/agents.md")))
    assert "note: Now carry it out." in printed
    assert "['user', 'assistant', 'tool', 'assistant']\n" in printed
    assert "\n1.0\n" in printed
    assert re.search(r"\d+ attempts, [1-9]\d* of them branches", printed)
    assert "2 of 2" in printed
    assert "2 Failed(kind='agent', text='the agent failed: ValueError: not written yet'" in printed
