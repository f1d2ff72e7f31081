"""A process that gives up its rights, without the audit hook, and then tries everything it should not be able to do.

    python hostile.py SETTINGS

SETTINGS is JSON: the reach, files to read, a foreign file to change, a UNIX socket and a port to connect to. For each
attempt it prints what came of it, as JSON: the name of the error, or "done".
"""

from __future__ import annotations

import _posixsubprocess
import ctypes
import errno
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from rollout.worlds.tools.sandbox import Reach, give_up_rights

sys.addaudithook = lambda hook: None  # type: ignore[assignment]
libc = ctypes.CDLL(None, use_errno=True)


def attempt(act: Callable[[], Any]) -> str:
    ctypes.set_errno(0)
    try:
        result = act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return errno.errorcode[ctypes.get_errno()] if result == -1 else "done"


def fork_exec() -> Any:
    """As `subprocess` does it; Python raises no audit event for it."""
    pipes = [*[-1] * 7, os.dup(1)]
    arguments = [[b"true"], [b"/bin/true"], True, (pipes[-1],), None, None, *pipes, False, False]
    arguments += [-1, None, None, None, -1, None]
    try:
        return _posixsubprocess.fork_exec(*arguments, True)
    except TypeError:  # newer Pythons decide about vfork themselves
        return _posixsubprocess.fork_exec(*arguments)


def in_a_thread() -> str:
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append("ran"))
    thread.start()
    thread.join()
    return seen[0]


def attempts(settings: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    foreign = settings["foreign"].encode()
    plain, parent = ctypes.c_void_p(None), os.getppid()
    return {
        "fork_exec": fork_exec,
        "fork": libc.fork,
        "vfork": lambda: libc.syscall(58 if os.uname().machine == "x86_64" else 1079),
        "clone3": lambda: libc.syscall(435, ctypes.create_string_buffer(88), 88),
        "execve": lambda: libc.execl(b"/bin/true", b"true", plain),
        "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "chmod": lambda: libc.chmod(foreign, 0o777),
        "fchmodat": lambda: libc.fchmodat(-100, foreign, 0o777, 0),
        "fchmodat2": lambda: libc.syscall(452, -100, foreign, 0o777, 0),
        "chown": lambda: libc.chown(foreign, os.getuid(), os.getgid()),
        "lchown": lambda: libc.lchown(foreign, os.getuid(), os.getgid()),
        "setxattr": lambda: libc.setxattr(foreign, b"user.x", b"y", 1, 0),
        "removexattr": lambda: libc.removexattr(foreign, b"user.x"),
        "setxattrat": lambda: libc.syscall(463, -100, foreign, 0, b"user.x", plain, 0),
        "utime": lambda: libc.utimes(foreign, plain),
        "truncate": lambda: libc.truncate(foreign, 0),
        "unlink": lambda: libc.unlink(foreign),
        "link": lambda: libc.link(foreign, foreign + b"2"),
        "mkdir": lambda: libc.mkdir(foreign + b"3", 0o777),
        "unix socket": lambda: socket.socket(socket.AF_UNIX).connect(settings["socket"]),
        "socketpair": socket.socketpair,
        "tcp": lambda: socket.create_connection(("127.0.0.1", settings["port"]), 2),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "shmget": lambda: libc.shmget(0, ctypes.c_size_t(4096), 0o1666),
        "msgget": lambda: libc.msgget(0, 0o1666),
        "semget": lambda: libc.semget(0, 1, 0o1666),
        "memfd_create": lambda: libc.memfd_create(b"x", 0),
        "pipe": os.pipe,
        "ptrace": lambda: libc.ptrace(16, parent, plain, plain),
        "kill": lambda: libc.kill(parent, 0),
        "tgkill": lambda: libc.tgkill(parent, parent, 0),
        "pidfd_open": lambda: libc.syscall(434, parent, 0),
        "prlimit": lambda: libc.prlimit(parent, 7, plain, ctypes.create_string_buffer(16)),
        "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, plain),
        "unshare": lambda: libc.unshare(0x10000000),
        "setns": lambda: libc.setns(0, 0),
        "chroot": lambda: libc.chroot(b"/"),
        "setuid": lambda: libc.setuid(0),
        "setsid": libc.setsid,
        "setpriority": lambda: libc.setpriority(0, 0, 19),
        "io_uring": lambda: libc.syscall(425, 1, ctypes.create_string_buffer(120)),
        "openat2": lambda: libc.syscall(437, -100, foreign, ctypes.create_string_buffer(24), 24),
        "write": lambda: open(settings["own"] + ".new", "w"),
        **{f"read {name}": lambda path=path: open(path).read() for name, path in settings["read"].items()},  # type: ignore[misc]
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    in_force = give_up_rights(msgspec.convert(settings["reach"], Reach), 1 << 30)
    came_of_it = {name: attempt(act) for name, act in attempts(settings).items()}
    print(json.dumps({"in_force": in_force, "came_of_it": came_of_it, "thread": in_a_thread()}))  # noqa: T201


if __name__ == "__main__":
    main()
