"""Ctrl-C and SIGTERM end every command, whatever it is doing: real processes that wait for a pipe nobody writes to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import write_tasks, write_yaml

ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]
PIPE = "in/pipe.jsonl"


@contextlib.contextmanager
def stuck(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is waiting for the next byte of `PIPE`."""
    Path(PIPE).parent.mkdir()
    os.mkfifo(PIPE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((os.getcwd(), *filter(None, sys.path)))}
    with subprocess.Popen(
        [*ROLLOUT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        try:
            pipe = _open_to_write(child)
            yield child
            os.close(pipe)
        finally:
            child.kill()


def _open_to_write(child: subprocess.Popen[str]) -> int:
    """Open the pipe as soon as the command has opened it to read."""
    while True:
        try:
            return os.open(PIPE, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert child.poll() is None, child.communicate()
            time.sleep(0.01)


def end_of(child: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal; what the command says until it is over."""
    child.send_signal(number)
    output, complaints = child.communicate(timeout=600)
    assert "Traceback" not in complaints
    return output + complaints


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGINT, ("export", "in", "--format", "trl", "-o", "out.jsonl")),
        (signal.SIGTERM, ("label", "in", "-o", "out.jsonl")),
        (signal.SIGINT, ("train-data", "in", "-o", "out", "--form", "sft")),
        (signal.SIGTERM, ("filter", "in", "-o", "out.jsonl")),
    ],
    ids=["export", "label", "train-data", "filter"],
)
def test_a_command_that_reads_files_ends_at_a_signal(number: signal.Signals, command: tuple[str, ...]) -> None:
    with stuck(*command) as child:
        said = end_of(child, number)
    assert child.returncode == 128 + number, said
    assert "stopping" in said
    assert not [path for path in Path().rglob("*") if path.is_file()], "nothing half-written is left"


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGINT, ()), (signal.SIGTERM, ("--dry-run",))], ids=["run", "dry-run"]
)
def test_a_run_that_is_being_made_ready_ends_at_a_signal(number: signal.Signals, options: tuple[str, ...]) -> None:
    agent = {"model": "builtin/oracle", "system_prompt_file": PIPE}
    write_tasks(Path("tasks.jsonl"), "Question")
    dataset = {"path": "tasks.jsonl", "output_path": "o.jsonl", "agent": agent}
    write_yaml(Path("c.yml"), {"run_dir": "run", "datasets": {"d": dataset}})
    with stuck("run", "c.yml", *options) as child:
        said = end_of(child, number)
    assert child.returncode == 128 + number, said
    assert "stopping" in said
    assert not Path("o.jsonl").exists()


def test_a_run_that_imports_a_plugin_ends_at_a_signal() -> None:
    Path("plugin.py").write_text(f"open({PIPE!r}).read()\n")
    write_tasks(Path("tasks.jsonl"), "Question")
    dataset = {"path": "tasks.jsonl", "output_path": "o.jsonl", "agent": "plugin:Model"}
    write_yaml(Path("c.yml"), {"run_dir": "run", "datasets": {"d": dataset}})
    with stuck("run", "c.yml") as child:
        said = end_of(child, signal.SIGTERM)
    assert child.returncode == 143, said


BLOCKING = f"""
from rollout.core.messages import Message, ToolCall
from rollout.trajectories.generation import Generation

async def block(text: str) -> str:
    "Keeps the event loop busy for ever."
    return open({PIPE!r}).read()

class Model:
    name = "plugin"
    capabilities = frozenset()
    async def generate(self, request):
        return Generation(Message(role="assistant", tool_calls=(ToolCall("a", "block", '{{"text": ""}}'),)))
    async def close(self):
        pass
"""


def write_blocked_run(grace: float) -> None:
    Path("plugin.py").write_text(BLOCKING)
    write_tasks(Path("tasks.jsonl"), "Question")
    dataset = {"path": "tasks.jsonl", "output_path": "o.jsonl", "agent": "plugin:Model", "tools": ["plugin:block"]}
    write_yaml(Path("c.yml"), {"run_dir": "run", "timeouts": {"grace": grace}, "datasets": {"d": dataset}})


def test_a_run_whose_event_loop_is_blocked_ends_with_its_grace() -> None:
    write_blocked_run(grace=0)
    with stuck("run", "c.yml") as child:
        said = end_of(child, signal.SIGINT)
    assert child.returncode == 130, said
    assert "the event loop is busy" in said


def test_a_tool_that_blocks_the_event_loop_keeps_no_signal_from_its_effect() -> None:
    write_blocked_run(grace=3600)
    with stuck("run", "c.yml") as child:
        child.send_signal(signal.SIGTERM)
        assert child.stderr is not None
        said = child.stderr.readline()
        assert "stopping" in said, "the first signal is acknowledged although the loop is busy"
        said = end_of(child, signal.SIGTERM)
    assert child.returncode == 143, said


LATE = """
import asyncio, os, signal
from rollout.cli.signals import listening

async def linger():
    try:
        await asyncio.sleep(3600)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.1)

async def main():
    lingering.append(asyncio.create_task(linger()))
    await asyncio.sleep(0)
    print("done", flush=True)

lingering = []
with listening() as signals:
    signals.run(main())
"""


def test_a_signal_while_the_event_loop_is_closed_ends_the_command_without_a_traceback() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 130, done.stderr
    assert done.stdout == "done\n"
    assert "stopping" in done.stderr
    assert "Traceback" not in done.stderr


UNNOTICED = """
import asyncio, os, signal, threading
from pathlib import Path
from rollout.cli.signals import listening

def interrupt():
    # A signal that another thread takes leaves the main thread in its system call, as one that came just before it.
    while CALL not in Path(f"/proc/self/task/{{os.getpid()}}/wchan").read_text():
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with listening() as signals:
    CALL, wait = {waiting}
    threading.Thread(target=interrupt, daemon=True).start()
    wait()
"""


@pytest.mark.parametrize(
    "waiting",
    [
        '"pipe_read", lambda: os.read(os.pipe()[0], 1)',
        '"poll", lambda: signals.run(asyncio.sleep(3600))',
    ],
    ids=["in a system call", "in an event loop"],
)
def test_a_signal_that_came_just_before_a_system_call_is_noticed(waiting: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = UNNOTICED.format(waiting=waiting)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 143, done.stderr
    assert done.stderr == "stopping\n"


LEAVING = """
import contextlib, os, signal
from rollout.cli.signals import listening

class Interrupted:
    # What a signal finds that comes after the last line of a command: code of `contextlib`, before ours.
    def __enter__(self):
        return self.inner.__enter__()
    def __exit__(self, *exception):
        for _ in range({signals}):
            os.kill(os.getpid(), signal.SIGTERM)
        return self.inner.__exit__(*exception)

leaving = Interrupted()
leaving.inner = listening()
with leaving:
    pass
"""


@pytest.mark.parametrize("signals", [1, 2])
def test_signals_that_come_while_a_command_is_left_end_it_without_a_traceback(signals: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = LEAVING.format(signals=signals)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 143, done.stderr
    assert done.stderr == "stopping\n"
