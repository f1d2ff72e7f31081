"""A real model in the loop: the shipped local config, made small, through the command line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import read_lines, write_yaml

pytest.importorskip("xllamacpp", reason="needs the extra rollout-engine[local]")
pytestmark = pytest.mark.local
CONFIGS = Path(__file__).parents[2] / "configs"


def test_local_model_rolls_out_a_shipped_task_and_leaves_no_process_behind() -> None:
    config = yaml.safe_load((CONFIGS / "local.yml").read_text())
    dataset = config["datasets"]["StudentAcademicPortal"]
    dataset |= {"limit": 1, "max_steps_per_turn": 2, "max_turns": 2, "output_path": "out.jsonl"}
    dataset["agent"]["system_prompt_file"] = str(CONFIGS / "local_prompt.md")
    write_yaml(Path("c.yml"), {**config, "run_dir": "run"})
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "run", "c.yml", "--no-colors"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        while not (servers := _servers_of(child.pid)) and child.poll() is None:
            time.sleep(0.05)
        output, _ = child.communicate(timeout=600)
    assert child.returncode == 0, output
    assert servers, "the run started a server of its own"
    assert _servers_of(child.pid) == []
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["status"] in ("completed", "truncated")
    assert line["metadata"]["generations"] >= 1
    assert line["metadata"]["usage"]["agent"]["prompt_tokens"] > 100, "a real tokenizer counted"
    answers = [message for message in line["messages"] if message["role"] == "assistant"]
    assert all(answer.get("tool_calls") or answer["content"] for answer in answers)
    assert "unknown_tool" not in line["metadata"]["tool_errors"], "the schema lets it call only what is offered"


def _servers_of(pid: int) -> list[int]:
    """Local servers that were started by a process."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(word.endswith("server_main.py") for word in words) and str(pid) in words:
            found.append(process.pid)
    return found
