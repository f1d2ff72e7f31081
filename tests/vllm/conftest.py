"""A real vLLM server with each of two models: a Llama with random weights, and SmolLM2 with its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollout.core.wheels import cache_folder
from rollout.models.local.server import CHAT_TEMPLATE
from rollout.models.local.weights import fetch_weights
from tests.servers.vllm_server import PYTHON, ROOT, Listener, Vllm, environment

CONVERTED = "SmolLM2-135M-Instruct-float32"


@dataclass(frozen=True)
class Served:
    """A model that is being served."""

    name: str
    folder: Path
    """Its tokenizer, chat template and weights."""
    address: str


@pytest.fixture(scope="session", params=["tiny", "smollm2"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server at a time: tests are put in order by it."""
    if not PYTHON.exists():
        pytest.fail("vLLM is not installed: run these tests by `make test-vllm`")
    scratch = tmp_path_factory.mktemp(request.param)
    folder = _tiny(scratch / "model") if request.param == "tiny" else _smollm2()
    with Vllm(folder, scratch / "vllm.log") as server:
        yield Served(request.param, folder, server.address)


@pytest.fixture
async def listener(served: Served) -> AsyncIterator[Listener]:
    """Where the server is to be asked, so that what it says can be compared with what is on record."""
    async with Listener(served.address) as listening:
        yield listening


def _tiny(folder: Path) -> Path:
    _write_model("tiny", folder)
    return folder


def _smollm2() -> Path:
    """Made once, in half a minute, and kept: half a gigabyte."""
    kept = cache_folder() / CONVERTED
    if not (kept / "config.json").exists():
        weights = fetch_weights()
        made = kept.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        _write_model("smollm2", made, weights, CHAT_TEMPLATE)
        made.rename(kept)
    return kept


def _write_model(kind: str, folder: Path, *sources: Path) -> None:
    command = [PYTHON, "-m", "tests.servers.vllm_models", kind, folder, *sources]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
