"""Processes of the campaign: those below a run, those that outlive it, and waits that end.

The campaign makes itself the parent of every orphan below it (`PR_SET_CHILD_SUBREAPER`), so a process that a killed run
leaves behind stays visible, whatever session or group it has moved to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator

import psutil

_PR_SET_CHILD_SUBREAPER = 36
POLL = 0.005
"""Seconds between two looks at something that sends no event, such as another process's progress."""


class Missed(Exception):
    """A deadline was missed."""


def adopt_orphans() -> None:
    """Become the parent of every process below us whose own parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """Look until something has come true. Raises Missed."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise Missed(f"{what}: not within {seconds:g} s")
        time.sleep(POLL)


def below(pid: int | None = None) -> list[psutil.Process]:
    """Every live process below one, or below us."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if is_live(process)]


def is_live(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def is_stopped(process: psutil.Process) -> bool:
    """Whether a process stands still, or is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_STOPPED
    return True


def command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return list(process.cmdline())
    return []


def strike(process: psutil.Process, number: signal.Signals) -> bool:
    """Send a signal; whether the process was alive to get it."""
    if not is_live(process):
        return False
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        process.send_signal(number)
        return True
    return False


def leftovers(known: Collection[int], seconds: float = 30.0) -> list[str]:
    """The processes below us that are not `known` and do not end within some seconds, by name; they are killed."""
    with contextlib.suppress(Missed):
        wait_until(lambda: not list(_strangers(known)), seconds, "orphans end")
    found = []
    for process in _strangers(known):
        found.append(f"process {process.pid} is left: {' '.join(command_line(process))[:200]}")
        strike(process, signal.SIGKILL)
    return found


def _strangers(known: Collection[int]) -> Iterator[psutil.Process]:
    for process in psutil.Process().children(recursive=True):
        if process.pid in known:
            continue
        if is_live(process):
            yield process
        else:
            # An orphan that ended is ours to reap.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
