"""The worker processes: mock servers run here, away from the engine's keys, files and network.

    python -m rollout.environments.domains.worker_main CONTROL

This starts the *template*: a process that has imported everything a worker needs and never runs code of a server. On
request it forks a worker, which takes milliseconds where a new interpreter takes a good part of a second, and shares
its memory until written to. A worker gives up its rights (`sandbox`), loads the servers of one domain and answers
requests (`frames`) one after the other, in the order in which they arrive, so the oldest unanswered one is at any time
the one that runs. The engine's side is `rollout.environments.domains.worker_template` and `worker_process`.
"""

from __future__ import annotations

import fcntl
import gc
import os
import random
import socket
import sys
from typing import Any

import msgspec

from rollout.core.errors import ConfigError, WorldError, describe_error, text_of
from rollout.core.results import failed_result, to_result
from rollout.core.threads import ToolFault, run_guarded
from rollout.environments.domains.frames import (
    MAX_RESULT,
    MAX_SNAPSHOT,
    FrameError,
    FrameReader,
    RequestFrame,
    read_request,
    write_answer,
)
from rollout.environments.domains.host import Host, ServerFile
from rollout.environments.domains.sandbox import MAX_OPEN, Reach, die_with_parent, give_up_rights
from rollout.environments.domains.stand_ins import install_stand_ins

OUT_OF_MEMORY = 77
"""The exit code after a server used up the memory: what is left in the process is not to be trusted."""


class ServerWorker:
    """The servers of this process: those of one domain."""

    def __init__(self) -> None:
        self._host: Host

    def answer(self, what: str, args: list[Any]) -> Any:
        """Do one thing. Raises ConfigError or WorldError."""
        match what:
            case "confine":
                in_force = give_up_rights(msgspec.convert(args[0], Reach), args[1])
                install_stand_ins()
                return in_force
            case "load":
                self._host = Host(tuple(msgspec.convert(args[0], list[ServerFile])))
                return None
            case "open":
                return self._host.open(*args)
            case "call":
                return self._call(*args)
            case "changes":
                return self._host.sessions(args[0]).changes()
            case "state_key":
                return self._host.sessions(args[0]).state_key()
            case "snapshot":
                sessions = self._host.sessions(args[0])
                data = sessions.snapshot()
                is_kept = data is not None and len(data) <= MAX_SNAPSHOT
                return (data, sessions.state_key()) if is_kept else None
            case "restore":
                sessions = self._host.sessions(args[0])
                sessions.restore(args[1])
                return sessions.state_key()
            case "close":
                return self._host.close(args[0])
        raise AssertionError(what)

    def _call(self, world: int, name: str, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        try:
            value = run_guarded(lambda: self._host.sessions(world).call(server, tool, arguments))
            if isinstance(value, ToolFault):
                if isinstance(value.original, MemoryError):
                    os._exit(OUT_OF_MEMORY)
                result = failed_result("", "crash", f"{name} raised {value}")
            else:
                result = to_result("", value)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        if len(result.content) > MAX_RESULT:
            result = failed_result("", "crash", f"{name} returned more than {MAX_RESULT} characters")
        return result.content, result.is_error, result.error_kind


def main() -> None:
    """The template: fork a worker for each descriptor that arrives, and report how workers ended."""
    die_with_parent()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        del sys.argv[1:]
        gc.freeze()
        while True:
            message, descriptors, *_ = socket.recv_fds(control, 4, 1)
            if not message:
                return
            if not descriptors:
                _, status = os.waitpid(int.from_bytes(message, "little"), 0)
                control.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
                continue
            pid = os.fork()
            if pid == 0:
                break
            os.close(descriptors[0])
            control.sendall(pid.to_bytes(4, "little", signed=True))
    serve(descriptors[0])


def serve(connection: int) -> None:
    """A worker: answer requests until the engine closes the connection."""
    template = os.getppid()
    os.setsid()
    die_with_parent()
    if os.getppid() != template:
        return  # it died before the kernel knew that we should, too
    # A number that is not hit by accident, and nothing else inherited.
    hidden = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(64, MAX_OPEN - 64))
    os.closerange(3, hidden)
    os.closerange(hidden + 1, MAX_OPEN)
    # Whatever servers print goes nowhere: the connection is the only way out.
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    sys.stdout = sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - open for as long as the process lives
    worker, frames = ServerWorker(), FrameReader()
    while piece := os.read(hidden, 1 << 16):
        for frame in frames.feed(piece):
            answer = memoryview(_answer(worker, read_request(frame)))
            while answer:
                answer = answer[os.write(hidden, answer) :]


def _answer(worker: ServerWorker, request: RequestFrame) -> bytes:
    how, value = _attempt(worker, request)
    try:
        return write_answer(request, how, value)
    except FrameError as error:
        return write_answer(request, "world", f"{request.what}: the answer is too large: {error}")
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _attempt(worker: ServerWorker, request: RequestFrame) -> tuple[str, Any]:
    try:
        return "ok", worker.answer(request.what, request.args)
    except ConfigError as error:
        return "config", text_of(error)
    except WorldError as error:
        return "world", text_of(error)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - a server's code may raise anything; the engine is informed
        return "world", describe_error(error)


if __name__ == "__main__":
    main()
