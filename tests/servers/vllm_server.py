"""A vLLM server on the CPU, from the virtual environment that `make test-vllm` installs, and who listens in on it.

`Vllm` owns one server process for as long as its `with` block lasts. `Listener` stands between Rollout and a server,
passes everything on and keeps what was asked and answered, so that records can be compared with the server's own words.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD")
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
FLAGS = (
    "--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "64",
    "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--generation-config", "vllm",
    # Compiling the model takes minutes and a compiler, for answers of a few tokens.
    "--enforce-eager",
    # A model with random weights would write white space without end where a schema lets it.
    "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}',
)  # fmt: skip
START_SECONDS = 300.0
STOP_SECONDS = 30.0


def environment() -> dict[str, str]:
    """What a process of vLLM sees: offline, and of our own environment no more than it needs."""
    cores = sorted(os.sched_getaffinity(0))
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return kept | ENVIRONMENT | {"PYTHONPATH": str(ROOT), "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores))}


class Vllm:
    """Serves a model folder under the name `policy`."""

    def __init__(self, model: Path, log: Path, *flags: str) -> None:
        self._model, self._log, self._flags = model, log, flags
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        module = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*module, "--model", str(self._model), "--served-model-name", "policy", *FLAGS, *self._flags],
                stdout=log, stderr=log, env=environment(), cwd=self._log.parent, start_new_session=True,
            )  # fmt: skip
        try:
            self._await_health()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _await_health(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"vLLM did not start; the end of {self._log}:\n{said}")
            time.sleep(0.2)

    def _stop(self) -> None:
        """End it and the processes that it started: they are one session."""
        assert self._process is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)


class Listener:
    """Passes requests on while its `async with` block runs. `heard` has path, question and answer of each, `refused`
    status and text where the server gave no answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None
        self.heard: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.refused: list[tuple[int, str]] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{path:.*}", self._pass_on)
        self._client = aiohttp.ClientSession()
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._client is not None
        await self._runner.cleanup()
        await self._client.close()

    @property
    def told(self) -> list[tuple[list[int], list[int]]]:
        """The ids of every prompt and completion, as the server reported them."""
        found = []
        for _, _, answer in self.heard:
            choice = answer["choices"][0]
            found.append((answer.get("prompt_token_ids") or choice["prompt_token_ids"], choice["token_ids"]))
        return found

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._client is not None
        asked = await request.read()
        headers = {"Content-Type": "application/json"}
        async with self._client.post(f"{self._address}{request.path}", data=asked, headers=headers) as answer:
            body = await answer.read()
            if answer.status == 200:
                self.heard.append((request.path, json.loads(asked), json.loads(body)))
            else:
                self.refused.append((answer.status, body.decode(errors="replace")))
            return web.Response(status=answer.status, body=body, content_type="application/json")
