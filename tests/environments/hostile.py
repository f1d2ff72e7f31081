"""A process that gives up its rights, without the audit hook, and then tries everything it should not be able to do.

    python hostile.py SETTINGS

SETTINGS is JSON: the reach, files to read, a foreign file to change, a UNIX socket and a port to connect to. For each
attempt it prints what came of it, as JSON: the name of the error, or "done".
"""

from __future__ import annotations

import _posixsubprocess
import _thread
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

from rollout.environments.domains.sandbox import Reach, give_up_rights

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


RAW = {
    # On x86-64 and on aarch64. Arguments do not matter: the filter sees the number first.
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "wait4": (61, 260), "setpgid": (109, 154),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "seccomp": (317, 277),
    "prctl": (157, 167), "landlock": (444, 444), "personality": (135, 92), "sched_setaffinity": (203, 122),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442), "unshare": (272, 97),
    "setns": (308, 268), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "openat2": (437, 437),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "socket": (41, 198), "socketpair": (53, 199),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "sendto": (44, 206), "pipe2": (293, 59), "eventfd2": (290, 19),
    "epoll_create1": (291, 20), "inotify_init1": (294, 26), "fanotify_init": (300, 262), "signalfd4": (289, 74),
    "timerfd_create": (283, 85), "timer_create": (222, 107), "splice": (275, 76), "vmsplice": (278, 75),
    "sendfile": (40, 71), "copy_file_range": (326, 285), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchown": (93, 55), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "mknodat": (259, 33), "symlinkat": (266, 36), "linkat": (265, 37), "renameat2": (316, 276),
    "unlinkat": (263, 35), "ftruncate": (77, 46), "fallocate": (285, 47), "utimensat": (280, 88), "flock": (73, 32),
    "setresuid": (117, 147), "capset": (126, 91), "setgroups": (116, 159), "sethostname": (170, 161),
    "x32 socket": (0x40000000 | 41, None),
}  # fmt: skip
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40}


def raw_attempts() -> dict[str, Callable[[], Any]]:
    """System calls by their numbers, as machine code would make them."""
    column = 0 if os.uname().machine == "x86_64" else 1
    numbers = {name: both[column] for name, both in RAW.items() if both[column] is not None}
    made = {
        f"raw {name}": lambda number=number: libc.syscall(number, 0, 0, 0, 0, 0, 0) for name, number in numbers.items()
    }
    socket_number = numbers["socket"]
    return made | {
        f"raw socket {name}": lambda family=family: libc.syscall(socket_number, family, 2, 0)
        for name, family in FAMILIES.items()
    }


def start_threads() -> int:
    """How many threads can be started, with stacks that cost next to no memory."""
    threading.stack_size(32 << 10)
    is_over = threading.Lock()
    is_over.acquire()
    count = 0
    try:
        while count < 1_000:
            _thread.start_new_thread(is_over.acquire, ())
            count += 1
    except RuntimeError:
        pass
    return count


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
    found = {"in_force": in_force, "came_of_it": came_of_it, "thread": in_a_thread()}
    if in_force["seccomp"]:
        found["raw"] = {name: attempt(act) for name, act in raw_attempts().items()}
    print(json.dumps(found | {"threads": start_threads()}), flush=True)  # noqa: T201
    os._exit(0)


if __name__ == "__main__":
    main()
