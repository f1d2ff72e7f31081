"""The exit codes of all commands."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_PROBLEMS = 2
EXIT_UNFINISHED = 3
EXIT_CODES: dict[str, str] = {
    "0": "done",
    str(EXIT_FAILED): "done, but something failed or was found: failed attempts, unsolvable tasks, unreadable files",
    str(EXIT_PROBLEMS): "nothing was done: an option, a file or the machine is not as it must be",
    str(EXIT_UNFINISHED): "a run was paused; it goes on with --resume",
    "130, 143": "ended by Ctrl-C or SIGTERM; a run goes on with --resume",
}
"""Each exit code, and what it means."""
