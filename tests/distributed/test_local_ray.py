"""A Ray of the run's own: started, closed to others, and gone with the run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import skip_without

skip_without("ray", "needs the extra rollout-engine[ray]")

COMMAND = [sys.executable, "-c", "from rollout.cli import main; main()", "run"]
PROGRAM = """
import asyncio, os, subprocess, sys
from pathlib import Path
from rollout.config.schema import Config
from rollout.pipelines.run import open_run

DATASET = {"mcp_domain": "StudentAcademicPortal", "output_path": "out.jsonl", "agent": "builtin/oracle", "limit": 4,
           "user": "builtin/user", "max_turns": 20, "max_steps_per_turn": 15}
STRANGER = "import sys, ray; ray.init(address=sys.argv[1])"

async def main():
    config = Config.model_validate({"cluster": {"address": "local", "workers": 2}, "datasets": {"portal": DATASET}})
    async with open_run(config, Path("run"), resume=False) as opened:
        await opened.engine.run()
        import ray
        "..."
    print("ended", not ray.is_initialized())

asyncio.run(main())
"""
KNOCKING = """
        address = ray.get_runtime_context().gcs_address
        without = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
        stranger = subprocess.run([sys.executable, "-c", STRANGER, address], env=without, capture_output=True)
        print("stranger", stranger.returncode)
"""


LOOKING = """
        import psutil
        started = psutil.Process().children(recursive=True)
        print("seen", len(started) > 3)
        print("kept", any("of-the-driver-alone" in str(process.environ()) for process in started))
        print("own", os.environ["SEARCH_API_KEY"])
"""


def test_a_local_ray_joins_no_other_sees_no_keys_and_ends_with_the_run() -> None:
    other = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1", "SEARCH_API_KEY": "of-the-driver-alone"}
    program = PROGRAM.replace('        "..."\n', LOOKING)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env=other)
    assert done.returncode == 0, done.stderr
    assert "seen True" in done.stdout
    assert "kept False" in done.stdout, "Ray's processes have what they need of the environment, not all of it"
    assert "own of-the-driver-alone" in done.stdout
    assert "ended True" in done.stdout
    assert len(Path("out.jsonl").read_text().splitlines()) == 4
    assert len(json.loads(Path("run/metrics.json").read_text())["ranks"]) == 2


@pytest.mark.slow
def test_a_local_ray_lets_nobody_in_who_has_not_its_token() -> None:
    program = PROGRAM.replace('        "..."\n', KNOCKING)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert "stranger 1" in done.stdout, "a process without the token is refused, after half a minute of trying"


def test_without_a_cluster_nothing_of_ray_is_imported() -> None:
    program = PROGRAM.replace('"cluster": {"address": "local", "workers": 2}, ', "").split("        import ray")[0]
    program += "    print('ray' in sys.modules)\nasyncio.run(main())\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "False", done.stderr


@pytest.fixture
def command() -> list[str]:
    Path("config.yml").write_text(
        "datasets: {portal: {mcp_domain: StudentAcademicPortal, agent: builtin/oracle, max_turns: 1}}\n"
    )
    return [*COMMAND, "config.yml", "--cluster"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "ray://127.0.0.1"])
def test_a_cluster_that_is_not_there_is_told_in_words(command: list[str], address: str) -> None:
    other = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run([*command, address], capture_output=True, text=True, timeout=600, env=other)
    assert done.returncode == 2
    assert f"cluster.address: {address}: 127.0.0.1:1" in done.stderr
    assert "--cluster local" in done.stderr


def test_ctrl_c_ends_the_wait_for_a_cluster_that_does_not_answer(command: list[str]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        subprocess.Popen([*command, f"127.0.0.1:{mute.getsockname()[1]}"]) as child,
    ):
        # It has looked whether anybody is there; Ray is next.
        mute.accept()[0].close()
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=600) == 130
