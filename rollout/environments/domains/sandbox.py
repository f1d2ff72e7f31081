"""The rights that a worker process gives up before it runs code of mock servers.

Two layers. The kernel's, where it has them:

- limits on memory, files, open descriptors and threads (`resource`);
- a user namespace with a network and IPC of its own, in which nothing is, and no capabilities, also as root;
- Landlock: only Python and the domain's own files can be read, nothing can be written (`landlock`);
- seccomp: the system calls of an interpreter and no others, so no other process, socket or IPC (`seccomp`).

And Python's own: an audit hook, which no Python code can remove, refuses what a mock server has no use for. The second
is there on every system and gives errors that say what happened; only the first holds against code that means harm.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import sys
from typing import Any

import msgspec

from rollout.environments.domains.landlock import restrict_files
from rollout.environments.domains.seccomp import allow_only_the_interpreter

CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
CAPSET = {"x86_64": 126, "aarch64": 91}
CAPABILITY_VERSION = 0x20080522
PIECES = {
    "user_namespace": "user namespaces",
    "capabilities": "a way to drop root's capabilities",
    "network": "a closed network (a network namespace or seccomp)",
    "landlock": "Landlock, which keeps other files closed",
    "seccomp": "seccomp filters, which keep out other processes, sockets and IPC",
    "threads": "a limit on the threads of one process",
}
"""What the kernel does, and how to say that it does not."""
MAX_WRITTEN = 1 << 20
"""Bytes that the process may write to a file that it has open: what it says when it crashes."""
MAX_OPEN = 256
MAX_THREADS = 64
"""Threads of the process. Their stacks in the kernel are no part of its memory."""
OWN_USER, NOBODY = 1 << 30, 65534
"""Real user ids for root's processes: from the first on one for each, or the second where a container has few."""
COUNTED_BY_NAMESPACE = (5, 14)
"""The first Linux that counts RLIMIT_NPROC in each user namespace apart."""

_REFUSED = (
    *("socket.", "subprocess.", "shutil.", "ctypes.", "tempfile.", "pty.", "syslog.", "ftplib.", "smtplib.", "urllib."),
    *("http.client.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "os.remove"),
    *("os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime"),
    *("os.setxattr", "os.removexattr", "os.putenv", "signal.pthread_kill", "resource."),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Reach(msgspec.Struct, frozen=True):
    """What a process may read: real paths, of files or of whole folders."""

    readable: tuple[str, ...]
    listable: tuple[str, ...] = ()
    """Folders of which only the names of what is in them can be read, below them as well."""


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone, also while a server hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def give_up_rights(reach: Reach, memory_bytes: int) -> dict[str, bool]:
    """Confine this process for good. Says which of the kernel's means are in force, by what each takes away."""
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, MAX_WRITTEN)
    _limit(resource.RLIMIT_NOFILE, MAX_OPEN)
    in_force = dict.fromkeys(PIECES, False)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        is_root = os.geteuid() == 0
        user = _leave_root(libc) if is_root else 0
        alone = libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0
        offline = alone or libc.unshare(CLONE_NEWNET) == 0
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        in_force["user_namespace"] = alone
        in_force["landlock"] = restrict_files(libc, reach.readable, reach.listable)
        in_force["capabilities"] = _drop_capabilities(libc)
        die_with_parent()  # again: a change of credentials may have cleared it
        in_force["seccomp"] = allow_only_the_interpreter(libc)
        in_force["network"] = offline or in_force["seccomp"]
        is_counted = alone and _release() >= COUNTED_BY_NAMESPACE and (user or not is_root)
        in_force["threads"] = bool(is_counted or user > OWN_USER)
    if not in_force["seccomp"]:
        _limit(resource.RLIMIT_NPROC, 0)  # no processes; the kernel counts threads as such
    elif in_force["threads"]:
        _limit(resource.RLIMIT_NPROC, MAX_THREADS)
    sys.addaudithook(_Guard(reach))
    return in_force


def _limit(kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    with contextlib.suppress(ValueError, OSError):  # macOS knows the name of some limits, but not their meaning
        resource.setrlimit(kind, (limit, limit))


def _leave_root(libc: ctypes.CDLL) -> int:
    """Give this process of root's another real user id, best one that no other process has; 0 where that fails.

    The kernel counts processes and threads by the real user id, and lets root have any number of them. Who may read a
    file depends on the effective one, which stays.
    """
    return next((user for user in (OWN_USER + os.getpid(), NOBODY) if libc.setresuid(user, -1, -1) == 0), 0)


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def _drop_capabilities(libc: ctypes.CDLL) -> bool:
    """Whether this process has none of root's powers left, and no way to get them back."""
    number = CAPSET.get(os.uname().machine)
    if number is None:
        return os.geteuid() != 0
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    return bool(libc.syscall(number, header, nothing) == 0)


class _Guard:
    """The audit hook."""

    def __init__(self, reach: Reach) -> None:
        self._readable = frozenset(reach.readable)
        self._listable = self._readable | frozenset(reach.listable)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, int):
                return
            if flags & _WRITING:
                raise PermissionError(f"a mock server may not write files: {path}")
            _check(path, self._readable)
        elif event in ("os.listdir", "os.scandir"):
            _check(args[0], self._listable)
        elif event == "sqlite3.connect":
            if args[0] != ":memory:":
                raise PermissionError("a mock server may open no database but :memory:")
        elif event.startswith(_REFUSED):
            raise PermissionError(f"a mock server may not do this: {event}")


def _check(path: Any, allowed: frozenset[str]) -> None:
    real = place = os.path.realpath(os.fsdecode(path) if path is not None else os.curdir)
    while place not in allowed:
        above = os.path.dirname(place)
        if above == place:
            raise PermissionError(f"a mock server may read only its own files: {real}")
        place = above
