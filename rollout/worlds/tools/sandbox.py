"""What a worker process gives up before it runs code of mock servers.

Two layers. The kernel's, where it has them: limits on memory and files, a network of its own with nothing in it, and
Landlock, by which only Python itself and the servers' own folders can be read and nothing can be written. And Python's
own: an audit hook, which no Python code can take away again, refuses what a mock server has no use for. The second is
there on every system and gives errors that say what happened; only the first holds against code that means harm.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
EXECUTE, READ_FILE, READ_DIR = 1, 4, 8
MAX_WRITTEN = 1 << 20
"""Bytes that the process may write to a file that it has open: what it says when it crashes."""
SYSTEM = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/etc/localtime",
    "/dev/null",
    "/dev/urandom",
)

_REFUSED = (
    *("socket.", "subprocess.", "shutil.", "ctypes.", "tempfile.", "pty.", "syslog.", "ftplib.", "smtplib.", "urllib."),
    *("http.client.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "os.remove"),
    *("os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime"),
    *("os.setxattr", "os.removexattr", "os.putenv", "signal.pthread_kill", "resource."),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def die_with_parent() -> None:
    """Have the kernel end this process when the engine is gone, also while a server hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def give_up_rights(folders: Sequence[str], memory_bytes: int) -> dict[str, bool]:
    """From here on only `folders` and Python itself can be read. Says which of the kernel's means are in force."""
    readable = [*map(os.path.realpath, folders), *_python_folders(), *SYSTEM]
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
    ):
        _, most = resource.getrlimit(kind)
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        with contextlib.suppress(ValueError, OSError):  # macOS knows the name of some limits, but not their meaning
            resource.setrlimit(kind, (limit, limit))
    in_force = {"network": False, "files": False}
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        in_force["network"] = libc.unshare(CLONE_NEWNET) == 0 or libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
        in_force["files"] = _landlock(libc, readable)
    sys.addaudithook(_Guard(readable))
    return in_force


def _python_folders() -> list[str]:
    """Where Python's own files and the installed packages are."""
    package = Path(__file__).resolve().parents[3]
    found = [sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), str(package / "rollout")]
    return [os.path.realpath(path) for path in found + [path for path in sys.path if path.endswith("site-packages")]]


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _landlock(libc: ctypes.CDLL, readable: Sequence[str]) -> bool:
    """Whether the kernel now keeps this process to reading these paths."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    attr = _RulesetAttr(rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(attr), size, 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            if not os.path.exists(path):
                continue
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = EXECUTE | READ_FILE | (READ_DIR if os.path.isdir(path) else 0)
            rule = _PathAttr(allowed, handle)
            added = libc.syscall(LANDLOCK_ADD_RULE, rules, 1, ctypes.byref(rule), 0)
            os.close(handle)
            if added != 0:
                return False
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


class _Guard:
    """The audit hook."""

    def __init__(self, readable: Sequence[str]) -> None:
        self._readable = tuple(dict.fromkeys(readable))

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, int):
                return
            if flags & _WRITING:
                raise PermissionError(f"a mock server may not write files: {path}")
            self._check(path)
        elif event in ("os.listdir", "os.scandir"):
            self._check(args[0])
        elif event == "sqlite3.connect":
            if args[0] != ":memory:":
                raise PermissionError("a mock server may open no database but :memory:")
        elif event.startswith(_REFUSED):
            raise PermissionError(f"a mock server may not do this: {event}")

    def _check(self, path: Any) -> None:
        real = os.path.realpath(os.fsdecode(path) if path is not None else os.curdir)
        if not any(real == folder or real.startswith(folder + os.sep) for folder in self._readable):
            raise PermissionError(f"a mock server may read only its own folder: {real}")
