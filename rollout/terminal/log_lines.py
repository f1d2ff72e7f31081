"""Log lines: to a file, to the terminal, without secrets and without control sequences."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler

from rollout.core.errors import ConfigError
from rollout.core.printable import printable
from rollout.core.secrets import RedactingFilter
from rollout.terminal.console import MOST_SHOWN, show_warning


class _PrintableFormatter(logging.Formatter):
    """Log lines without control sequences: a log file is read on a terminal, too."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _TerminalFormatter(_PrintableFormatter):
    """Log lines of a length that a person reads; the log file has all of them."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text):,} characters)"


class _LogFile(logging.FileHandler):
    """A log file that survives a full disk: the error is reported once, without tracebacks, and the run goes on."""

    is_reported = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by `logging` where a line cannot be written."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.is_reported:
            self.is_reported = True
            show_warning(
                f"log_file: {self.baseFilename} cannot be written: {error.strerror}; the run goes on without it"
            )

    def close(self) -> None:
        """What could not be written is not tried again."""
        with contextlib.suppress(OSError):
            super().close()


def set_up_logging(level: str, file: Path | None, console: Console) -> None:
    """Log lines of a command go to the file where there is one, and warnings to the terminal."""
    root = logging.getLogger("rollout")
    root.setLevel(level)
    root.handlers.clear()
    root.propagate = False
    if file is not None:
        root.addHandler(_open_log_file(file))
    to_terminal = RichHandler(
        console=console,
        show_path=False,
        show_time=False,
        rich_tracebacks=False,
        # Its patterns take quadratic time over a long word.
        highlighter=NullHighlighter(),
        keywords=[],
    )
    to_terminal.setLevel(logging.WARNING)
    to_terminal.setFormatter(_TerminalFormatter("%(message)s"))
    to_terminal.addFilter(RedactingFilter())
    root.addHandler(to_terminal)


@contextlib.contextmanager
def logging_to(file: Path, level: str) -> Iterator[None]:
    """Log lines also go to a file while the block lasts. Logging is otherwise left as the program set it up."""
    root = logging.getLogger("rollout")
    handler, before = _open_log_file(file), root.level
    handler.setLevel(level)
    root.addHandler(handler)
    if not root.isEnabledFor(handler.level):
        root.setLevel(handler.level)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


def _open_log_file(file: Path) -> logging.Handler:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # For its owner only, as the files of a run directory are.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = _LogFile(file, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"log_file: {file} cannot be written: {error.strerror or error}; choose another file"
        ) from error
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RedactingFilter())
    return handler
