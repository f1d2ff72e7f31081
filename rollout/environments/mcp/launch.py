"""Starts a stdio server so that it ends with us: run as a script, it becomes the server's program.

A server reads the end of its input when we die in any way, and most end then. One that hangs does not look at its
input, so on Linux the kernel is asked to kill it with its parent. Run by path, with nothing of this package loaded.
"""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
