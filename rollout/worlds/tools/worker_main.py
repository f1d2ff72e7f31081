"""The worker process: mock servers run here, away from the engine's keys, files and network.

    python -m rollout.worlds.tools.worker_main SOCKET MEMORY_BYTES FOLDER...

It answers messages (`frames`) one after the other, in the order in which they came, so the oldest unanswered one is at
any time the one that runs. The other side is `rollout.worlds.tools.worker_process`, which ends the process when that
takes too long.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import msgspec

from rollout.errors import ConfigError, WorldError
from rollout.worlds.results import failed_result, to_result
from rollout.worlds.threads import ToolFault, run_guarded
from rollout.worlds.tools.frames import FrameReader, write_frame
from rollout.worlds.tools.host import Host, ServerFile
from rollout.worlds.tools.sandbox import die_with_parent, give_up_rights
from rollout.worlds.tools.stand_ins import install_stand_ins

MAX_RESULT = 16 * 1024 * 1024
OUT_OF_MEMORY = 77
"""The exit code after a server used up the memory: what is left in the process is not to be trusted."""


class Worker:
    """The hosts of this process, one for each domain."""

    def __init__(self) -> None:
        self._hosts: dict[int, Host] = {}

    def answer(self, what: str, domain: int, args: list[Any]) -> Any:
        """Do one thing. Raises ConfigError or WorldError."""
        if what == "load":
            self._hosts[domain] = Host(tuple(msgspec.convert(args[0], list[ServerFile])))
            return None
        host = self._hosts[domain]
        match what:
            case "open":
                return host.open(*args)
            case "call":
                return self._call(host, *args)
            case "changes":
                return msgspec.to_builtins(host.sessions(args[0]).changes(), enc_hook=str)
            case "state_key":
                return host.sessions(args[0]).state_key()
            case "snapshot":
                sessions = host.sessions(args[0])
                data = sessions.snapshot()
                return None if data is None else (data, sessions.state_key())
            case "restore":
                sessions = host.sessions(args[0])
                sessions.restore(args[1])
                return sessions.state_key()
            case "close":
                return host.close(args[0])
        raise AssertionError(what)

    def _call(self, host: Host, world: int, name: str, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        try:
            value = run_guarded(lambda: host.sessions(world).call(server, tool, arguments))
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
    die_with_parent()
    connection = socket.socket(fileno=int(sys.argv[1]))
    nowhere = open(os.devnull, "w")  # noqa: SIM115 - open for as long as the process lives
    in_force = give_up_rights(sys.argv[3:], int(sys.argv[2]))
    install_stand_ins()
    # What servers print is nobody's: the socket is the only way out.
    sys.stdout = sys.stderr = nowhere
    worker = Worker()
    connection.sendall(write_frame(("ok", in_force)))
    frames = FrameReader()
    while piece := connection.recv(1 << 16):
        for what, domain, args in frames.feed(piece):
            connection.sendall(write_frame(_answer(worker, what, domain, args)))


def _answer(worker: Worker, what: str, domain: int, args: list[Any]) -> tuple[str, Any]:
    try:
        return "ok", worker.answer(what, domain, args)
    except ConfigError as error:
        return "config", str(error)
    except WorldError as error:
        return "world", str(error)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - a server's code may raise anything; the engine is told
        return "world", f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
