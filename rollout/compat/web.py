"""WebGym's two classes, `WebAgent` and `AsyncWebGym`, over the same iterations as `rollout web`.

    agent = WebAgent(
        policy_config={"base_model": "Qwen/Qwen3-VL-8B-Instruct"},
        context_config={"interaction_mode": "set_of_marks"},
        save_path="exp",
        vllm_server_url="http://localhost:8999",
    )
    collected = AsyncWebGym(env_config={"server_size": 8}, data_path="tasks").collect(agent)

Both hold configuration only: the groups and keys of the Hydra files, as dicts or OmegaConf objects. What is left out
has the packaged value. `collect` composes them, opens the next iteration of the experiment, or the one that was not
finished, and runs it with the engine. So what lies in `save_path` is what the command leaves there, and either can
resume what the other began.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.api.arguments import warn_of_rest
from rollout.api.engine_thread import EngineThread
from rollout.api.run import run_to_end
from rollout.api.runs import Run, Trajectories
from rollout.compat.web_results import conclude, open_iteration
from rollout.config.compose import Composed, configure_web
from rollout.config.schema import Config, Timeouts
from rollout.config.web import Split
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.engine.engine import Engine
from rollout.environments.web.rates import count_steps, webgym_rates
from rollout.pipelines.web_iterations import Iteration
from rollout.terminal.console import SafeConsole
from rollout.terminal.shown_run import open_shown_run
from rollout.trajectories.line import Head
from rollout.trajectories.pt import read_pt
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody

log = logging.getLogger(__name__)
Keys = Mapping[str, Any] | None
"""A group of keys: a dict, an OmegaConf object, or None for the packaged values."""
Tasks = str | os.PathLike[str] | Sequence[Any] | None
"""A file of tasks, rows of such a file (dicts, or objects with the same attributes), or None: a sample is drawn."""
OnCheckpoint = Callable[[list[Trajectory]], Awaitable[object] | object]


class WebAgent:
    """Who acts, and where the experiment is kept: the groups of keys that concern the agent and its judge.

    `vllm_server_url` is the OpenAI-compatible server of `policy_config.base_model`; None leaves what `env_config` says.
    The keys of each group are those of `rollout web`.
    """

    def __init__(
        self,
        policy_config: Keys = None,
        context_config: Keys = None,
        model_config: Keys = None,
        *,
        save_path: str | os.PathLike[str],
        vllm_server_url: str | None = None,
        openai_config: Keys = None,
    ) -> None:
        self.policy_config = policy_config
        self.context_config = context_config
        self.model_config = model_config
        self.save_path = Path(save_path)
        self.vllm_server_url = vllm_server_url
        self.openai_config = openai_config


class CollectedIteration(msgspec.Struct, frozen=True):
    """What `collect` returns: an iteration on disk, for reading."""

    number: int
    split: Split
    is_finished: bool
    """Whether every trajectory is accounted for. Where it is False, the same call resumes the iteration."""
    run: Run
    pt_file: Path
    """The trajectories as WebGym's trainers load them."""
    output_file: Path
    """The trajectories, one JSON object a line."""

    @property
    def trajectories(self) -> Trajectories:
        """All trajectories that are recorded, those of earlier calls included."""
        return self.run.trajectories

    def metrics(self) -> dict[str, float]:
        """The WebGym-compatible rates: success_rate, avg_steps, avg_chars_per_response, goback_rate, crashed_rate,
        blocked_rate, total_trajectories."""
        return webgym_rates(map(count_steps, read_pt(self.pt_file)))


class AsyncWebGym:
    """Where agents act: tasks, browsers and limits.

    `data_path` is the folder with the task files; it is not needed where `collect` is given tasks. `split` is train or
    test, by default what `env_config` says, else train. `keys` are the keys that stand by themselves in the Hydra files
    (`sites`, `seed`, `samples`, `resume`, `web`, `browsers`, `cluster`, `rank_weights`, …).
    """

    def __init__(
        self,
        env_config: Keys = None,
        *,
        data_path: str | os.PathLike[str] | None = None,
        split: Split | None = None,
        **keys: Any,
    ) -> None:
        self.env_config = env_config
        self.data_path = data_path
        self.split: Split = split or (env_config or {}).get("split") or "train"
        self.keys = keys
        if self.split not in ("train", "test"):
            raise ConfigError(f"split: expected train or test, got {self.split!r}")

    def collect(
        self,
        agent: WebAgent,
        tasks: Tasks = None,
        *,
        on_checkpoint: OnCheckpoint | None = None,
        progress: bool = True,
    ) -> CollectedIteration:
        """Roll out the next iteration, or resume the one that was not finished, and return it.

        `tasks` are taken as they are, all of them; without them a sample is drawn as `env_config` says. An iteration
        that is resumed keeps its tasks. `on_checkpoint` is called with the trajectories that were recorded since its
        last call, one call at a time, while others go on; when an iteration is resumed, the first call has those of
        earlier calls of `collect`. An attempt that failed and is retried comes again. It runs in another thread. If it
        raises, the run is paused and the error raised.

        The engine has a thread and an event loop of its own, so this also works in a notebook. Raises `ConfigError`
        where something is wrong with the configuration. Ctrl-C pauses the run, so that it can be resumed.
        """
        job = self.compose(agent, has_tasks=tasks is not None)
        with _task_file(tasks) as chosen, EngineThread(Timeouts().grace) as thread:
            return thread.run(lambda: _collect(job, chosen, on_checkpoint, progress, thread.watch))

    async def acollect(
        self,
        agent: WebAgent,
        tasks: Tasks = None,
        *,
        on_checkpoint: OnCheckpoint | None = None,
        progress: bool = True,
    ) -> CollectedIteration:
        """`collect` in the event loop of the caller. `on_checkpoint` may be an async function, which then runs in this
        loop. Where this is cancelled the run is paused, and can be resumed."""
        job = self.compose(agent, has_tasks=tasks is not None)
        with _task_file(tasks) as chosen:
            return await _collect(job, chosen, on_checkpoint, progress, lambda engine: None)

    def compose(self, agent: WebAgent, *, has_tasks: bool = False) -> Composed:
        """The configuration that an agent and this come to. Raises ConfigError that names every key that is wrong."""
        if agent.vllm_server_url is not None:
            address: Mapping[str, Any] = {"vllm_server_url": agent.vllm_server_url}
        else:
            address = {}
        data_path = "." if self.data_path is None and has_tasks else self.data_path
        given = {
            **self.keys,
            "save_path": agent.save_path,
            "data_path": data_path,
            "policy_config": agent.policy_config,
            "context_config": agent.context_config,
            "model_config": agent.model_config,
            "openai_config": agent.openai_config,
            "env_config": {**(self.env_config or {}), "split": self.split, **address},
        }
        return configure_web({key: value for key, value in given.items() if value is not None}, self.split)


async def _collect(
    job: Composed,
    tasks: Path | None,
    on_checkpoint: OnCheckpoint | None,
    progress: bool,
    watch: Callable[[Engine], None],
) -> CollectedIteration:
    for note in job.notes:
        log.warning("%s", note)
    console = SafeConsole(stderr=True) if progress else None
    with open_iteration(job, tasks=tasks) as prepared:
        iteration, run = prepared.iteration, prepared.run
        for note in prepared.notes:
            log.warning("%s", note)
        checkpoints = _Checkpoints(Run(iteration.paths.run_dir), on_checkpoint)
        observers = [checkpoints] if on_checkpoint is not None else []
        async with open_shown_run(
            run, iteration.paths.run_dir, resume=True, warn=log.warning, console=console, observers=observers
        ) as opened:
            watch(opened.engine)
            async with checkpoints.giving(opened.engine):
                await run_to_end(opened.engine)
    warn_of_rest(opened)
    assert opened.summary is not None
    is_over = opened.summary.total.unfinished == 0
    await asyncio.to_thread(_conclude, job, iteration, run, is_over)
    pt_file = iteration.folder / f"{iteration.split}_trajectories.pt.iteration{iteration.number}"
    return CollectedIteration(
        iteration.number, iteration.split, is_over, Run(iteration.paths.run_dir), pt_file, iteration.paths.output
    )


def _conclude(job: Composed, iteration: Iteration, run: Config, is_over: bool) -> None:
    for line in conclude(job.config, iteration, run, is_over=is_over):
        log.info("%s", line)


@contextlib.contextmanager
def _task_file(tasks: Tasks) -> Iterator[Path | None]:
    """The file that holds these tasks."""
    if tasks is None or isinstance(tasks, str | os.PathLike):
        yield None if tasks is None else Path(tasks)
        return
    rows = [row if isinstance(row, Mapping) else getattr(row, "__dict__", row) for row in tasks]
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ConfigError(f"tasks[{place}]: expected a row of a task file (a dict), got {row!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        yield path


class _Checkpoints:
    """Gives trajectories to a function as they are recorded: an observer that notes them, and a task that reads them
    from the journal, because what is given must not be lost by a kill."""

    def __init__(self, run: Run, function: OnCheckpoint | None) -> None:
        self._run = run
        self._function = function
        self._ended: list[tuple[str, str]] = []
        self._is_new = asyncio.Event()
        self._is_over = False

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        pass

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        if head is not None:
            self._ended.append((dataset, trajectory))
            self._is_new.set()

    @contextlib.asynccontextmanager
    async def giving(self, engine: Engine) -> AsyncIterator[None]:
        """Give what is recorded, from before and from inside the block. Leaving it waits for the last call."""
        if self._function is None:
            yield
            return
        giving = asyncio.create_task(self._give(engine))
        giving.add_done_callback(lambda task: None if task.cancelled() else _pause_after(task, engine))
        try:
            yield
        finally:
            self._is_over = True
            self._is_new.set()
            await giving

    async def _give(self, engine: Engine) -> None:
        earlier = self._run.trajectories
        if earlier:
            await self._call(list(earlier))
        while not self._is_over or self._ended:
            await self._is_new.wait()
            self._is_new.clear()
            ended, self._ended = self._ended, []
            if ended:
                await engine.flush()
                await self._call([self._run.read_trajectory(*key) for key in dict.fromkeys(ended)])

    async def _call(self, trajectories: list[Trajectory]) -> None:
        assert self._function is not None
        if inspect.iscoroutinefunction(self._function):
            await self._function(trajectories)
        else:
            await asyncio.to_thread(self._function, trajectories)


def _pause_after(giving: asyncio.Task[None], engine: Engine) -> None:
    if giving.exception() is not None:
        engine.pause("on_checkpoint failed")
