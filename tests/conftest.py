"""What tests build with: real config files, real run directories, a real stub server."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
import yaml

from rollout.cli import main
from rollout.config.schema import Config
from rollout.core.messages import Message
from rollout.distributed.link import Machines
from rollout.engine.engine import Engine
from rollout.engine.observer import Observer, Progress
from rollout.pipelines.run import Opened, open_run
from rollout.testing import StubServer
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody

# LiteLLM asks the network for prices when it is imported, unless it is told not to.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# How long an example takes says more about the machine than about us.
hypothesis.settings.register_profile("rollout", deadline=None)
hypothesis.settings.load_profile("rollout")
SLOW_FOLDERS = ("docs", "web", "distributed", "suites", "cli", "models", "environments", "testing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no core waits for the last of them."""
    folders = {folder: rank for rank, folder in enumerate(SLOW_FOLDERS)}
    items.sort(key=lambda item: folders.get(item.path.parent.name, len(folders)))


@pytest.fixture(scope="session", autouse=True)
def _with_temporary_files_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs without a `run_dir`, and what killed programs leave behind, are removed at the end of the session."""
    tmp_path_factory.getbasetemp()  # what tests write is kept, as pytest does
    with tempfile.TemporaryDirectory(prefix="rollout-tests-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        tempfile.tempdir = None
        del os.environ["TMPDIR"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a test writes by a relative path lands in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def stub() -> AsyncIterator[StubServer]:
    """A stub server without latency, in this process."""
    async with StubServer(keep_requests=True) as server:
        yield server


def skip_without(package: str, reason: str) -> None:
    """Skip the module where a package is not installed. Unlike `pytest.importorskip` it does not import it: every
    worker collects every file, and importing some packages takes seconds.
    """
    if importlib.util.find_spec(package) is None:
        pytest.skip(reason, allow_module_level=True)


def write_tasks(path: Path, *tasks: dict[str, Any] | str) -> Path:
    """A task file. A bare string is a task with that first message and an id made of its number."""
    with path.open("w") as file:
        for number, task in enumerate(tasks):
            if isinstance(task, str):
                task = {"id": f"task{number}", "messages": [{"role": "user", "content": task}]}
            file.write(json.dumps(task) + "\n")
    return path


def write_yaml(path: Path, document: Any) -> Path:
    """A YAML file."""
    path.write_text(yaml.safe_dump(document))
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The trajectories of an output file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class PauseWhen:
    """An observer that pauses the run as soon as its numbers fit."""

    def __init__(self, fits: Callable[[Progress], bool]) -> None:
        self._fits = fits
        self.engine: Engine | None = None

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        assert self.engine is not None
        if self._fits(self.engine.progress):
            self.engine.control.pause("test")

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass


async def roll_out(
    config: dict[str, Any] | Config,
    run_dir: Path = Path("run"),
    *,
    resume: bool = True,
    pause_when: Callable[[Progress], bool] | None = None,
    observers: Sequence[Observer] = (),
    machines: Machines | None = None,
) -> Opened:
    """Run a configuration to its end, or until its numbers fit `pause_when`."""
    checked = config if isinstance(config, Config) else Config.model_validate(config)
    pausing = PauseWhen(pause_when or (lambda progress: False))
    async with open_run(checked, run_dir, resume=resume, observers=[pausing, *observers], machines=machines) as opened:
        pausing.engine = opened.engine
        await opened.engine.run()
    return opened


def stub_config(url: str, path: Path, **dataset: Any) -> dict[str, Any]:
    """A config whose agent is the stub server's and whose tool is `echo`."""
    return {
        "enable_monitor": False,
        "retries": {"first_wait": 0.001, "max_wait": 0.01},
        "models": {"agent": {"api_base": url}, "user": {"api_base": url, "model": "user"}},
        "datasets": {
            "data": {
                "path": path,
                "output_path": "out.jsonl",
                "tools": ["tests.tools:echo"],
                "agent": {"model": "agent"},
                **dataset,
            }
        },
    }


class Done(msgspec.Struct):
    """What a command did."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def rollout(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`rollout("score", "run")`: a command in this process, so that dozens of them take seconds."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = 0
        try:
            main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call
