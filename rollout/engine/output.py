"""The output file of a dataset: whole lines, appended; the journal is the judge of what counts."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

log = logging.getLogger(__name__)


class Output:
    """An open JSONL file that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.size = os.fstat(self._file).st_size

    def append(self, data: bytes) -> None:
        """Add whole lines. A write that the system cuts short is continued."""
        view = memoryview(data)
        while view:
            written = os.write(self._file, view)
            self.size += written
            view = view[written:]

    def cut(self, size: int, *, is_ours: bool) -> None:
        """Shorten the file to `size`. What is cut off and is not ours is put beside it first, never thrown away."""
        if size < self.size:
            if not is_ours:
                aside = free_name(self.path, "extra")
                aside.write_bytes(os.pread(self._file, self.size - size, size))
                log.warning("%s held lines that this run did not write; they are now in %s", self.path, aside)
            os.ftruncate(self._file, size)
            self.size = size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def free_name(path: Path, word: str = "") -> Path:
    """A name beside `path`, with the time and a word in it, that nothing has yet."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base = f"{path.name}.{word + '-' if word else ''}{stamp}"
    candidate = path.with_name(base)
    number = 1
    while candidate.exists():
        candidate = path.with_name(f"{base}-{number}")
        number += 1
    return candidate


def move_aside(path: Path) -> Path | None:
    """Rename what is at `path`, if anything, so that a new start destroys nothing. Returns its new name."""
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return None
    aside = free_name(path)
    path.rename(aside)
    return aside
