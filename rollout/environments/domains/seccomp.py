"""A filter in the kernel that leaves a worker process the system calls of a Python interpreter and no others.

The filter is a small BPF program. The kernel runs it before every system call of the process, and no code of the
process can remove it. It is a list of what is allowed, because a list of what is forbidden grows with every kernel:
reading files and directories (which Landlock narrows down), memory, clocks, waiting, and threads of this process. The
rest fails with EPERM, which Python raises as PermissionError: new processes and programs, sockets of any kind, SysV
and POSIX IPC, changing files or their owners, modes, times and attributes, signals to others, tracing, mounting,
namespaces, keys, io_uring. Four calls are allowed by their arguments only: `clone` for threads, `tgkill` for the
process itself (`abort`), `prlimit64` for its own limits, `fcntl` and `ioctl` for what `open` and `isatty` need.
`clone3` hides its flags behind a pointer, which BPF cannot follow, so it fails with ENOSYS and libc falls back to
`clone`. System calls of another architecture (32-bit ones on x86-64) end the process.

It is written by hand because no library fits: `pyseccomp` has not been released since 2021 and needs libseccomp from
the operating system, and what writes filters in pure Python is too young to carry a security boundary. What is needed
is a page long.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

PR_SET_SECCOMP, MODE_FILTER = 22, 2
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, JUMP_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel puts what a filter looks at; each argument has eight bytes, the low half first."""
CLONE_THREAD = 0x10000
FCNTL = (0, 1, 2, 3, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC."""
IOCTL = (0x5401, 0x5450, 0x5451)
"""TCGETS (`isatty`), FIONCLEX and FIOCLEX."""

_X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "dup": 32, "nanosleep": 35, "getpid": 39, "exit": 60, "uname": 63, "getcwd": 79,
    "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100,
    "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getgroups": 115,
    "sigaltstack": 131, "arch_prctl": 158, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
    "getdents64": 217, "set_tid_address": 218, "restart_syscall": 219, "fadvise64": 221, "clock_gettime": 228,
    "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "getcpu": 309,
    "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
_AARCH64 = {
    "getcwd": 17, "dup": 23, "faccessat": 48, "openat": 56, "close": 57, "getdents64": 61, "lseek": 62, "read": 63,
    "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pselect6": 72, "ppoll": 73, "readlinkat": 78,
    "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "set_tid_address": 96, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
    "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getgroups": 158, "uname": 160, "getrlimit": 163,
    "getrusage": 165, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174,
    "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "sysinfo": 179, "brk": 214, "munmap": 215,
    "mremap": 216, "mmap": 222, "fadvise64": 223, "mprotect": 226, "madvise": 233, "getrandom": 278,
    "membarrier": 283, "statx": 291, "rseq": 293, "faccessat2": 439,
}  # fmt: skip
_MACHINES = {
    # Audit number of the architecture, what is allowed, and the numbers of clone, tgkill, prlimit64, fcntl, ioctl.
    "x86_64": (0xC000003E, _X86_64, (56, 234, 302, 72, 16)),
    "aarch64": (0xC00000B7, _AARCH64, (220, 131, 261, 25, 29)),
}
CLONE3 = 435


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def allow_only_the_interpreter(libc: ctypes.CDLL) -> bool:
    """Install the filter in this process, for good; whether the kernel took it. Needs `no_new_privs`."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    code = _assemble(*machine, os.getpid())
    program = _Program(len(code) // 8, code)
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _assemble(architecture: int, allowed: dict[str, int], special: tuple[int, ...], pid: int) -> bytes:
    clone, tgkill, prlimit64, fcntl, ioctl = special
    code = [
        _step(LOAD, ARCHITECTURE),
        _step(JUMP_EQUAL, architecture, 1, 0),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER),
    ]
    for number in allowed.values():
        code += [_step(JUMP_EQUAL, number, 0, 1), _step(RETURN, ALLOW)]
    code += [_step(JUMP_EQUAL, CLONE3, 0, 1), _step(RETURN, REFUSE | errno.ENOSYS)]
    code += _when(clone, 0, JUMP_ANY_BIT, [CLONE_THREAD])
    code += _when(tgkill, 0, JUMP_EQUAL, [pid])
    code += _when(prlimit64, 0, JUMP_EQUAL, [0, pid])
    code += _when(fcntl, 1, JUMP_EQUAL, FCNTL)
    code += _when(ioctl, 1, JUMP_EQUAL, IOCTL)
    code.append(_step(RETURN, REFUSE | errno.EPERM))
    return b"".join(code)


def _when(number: int, argument: int, test: int, values: Iterable[int]) -> list[bytes]:
    """Allow one system call where the low half of an argument passes the test with one of these values."""
    code = [_step(LOAD, FIRST_ARGUMENT + 8 * argument)]
    for value in values:
        code += [_step(test, value, 0, 1), _step(RETURN, ALLOW)]
    code.append(_step(RETURN, REFUSE | errno.EPERM))
    return [_step(JUMP_EQUAL, number, 0, len(code)), *code]


def _step(what: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", what, if_true, if_false, value)
