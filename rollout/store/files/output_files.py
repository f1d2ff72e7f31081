"""Output files: a JSONL file for each dataset, to which whole lines are appended.

The journal decides which lines belong in a file (`output_repair`). A run locks the files that it writes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rollout.core.errors import JournalError
from rollout.store.file_watch import Change, find_change
from rollout.store.locks import take_lock
from rollout.store.private import PRIVATE_FILE, make_private_folder

log = logging.getLogger(__name__)
READ_BYTES = 1 << 26


class Output:
    """An open JSONL file that only grows. `open_output` opens one."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self.is_altered = False
        """Whether another program changed, moved or deleted the file while it was open."""
        self.is_suspect = False
        """Whether another program may have."""
        self._file = file
        self._status = os.fstat(file)
        self.size = self._status.st_size

    def append(self, data: bytes) -> None:
        """Add whole lines. A partial write is continued."""
        self.look_for_changes()
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._file, view)
                self.size += written
                view = view[written:]
        except OSError as error:
            raise JournalError(
                f"output_path: {self.path} cannot be written: {error.strerror or error}. The missing lines are in "
                "the journal: make room, then run again with --resume"
            ) from error
        finally:
            self._status = os.fstat(self._file)

    def look_for_changes(self) -> None:
        """Check whether another program changed, moved or deleted the file; warn once."""
        if self.is_altered:
            return
        change = find_change(self.path, self._status)
        if change is Change.TOUCHED:
            self.is_suspect = True
        elif change is not None:
            self.warn(change)

    def warn(self, change: Change) -> None:
        """Remember that another program changed the file, and warn."""
        self.is_altered = True
        log.warning(
            "%s %s while this run was writing it. No trajectory is lost: the journal has them all, and the next run "
            "with --resume writes the file again (lines of other programs are moved to a file beside it)",
            self.path,
            change.value,
        )

    def read(self, place: int, length: int) -> bytes:
        """A part of the file; shorter at the end of the file."""
        pieces = []
        while length > 0 and (piece := os.pread(self._file, min(length, READ_BYTES), place)):
            pieces.append(piece)
            place, length = place + len(piece), length - len(piece)
        return b"".join(pieces)

    def cut(self, size: int, *, is_ours: bool) -> None:
        """Shorten the file to `size`. What is cut off and is not ours is first saved in a file beside it."""
        if size < self.size:
            if not is_ours:
                aside = free_name(self.path, "extra")
                aside.write_bytes(self.read(size, self.size - size))
                log.warning("%s held lines that this run did not write; they are now in %s", self.path, aside)
            os.ftruncate(self._file, size)
            self.size = size
            self._status = os.fstat(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def open_output(path: Path, *, is_private: bool = False) -> Output:
    """Open or create an output file and the folders above it. `is_private`: for its owner only, whatever the umask."""
    try:
        if is_private:
            make_private_folder(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            mode = PRIVATE_FILE if is_private else 0o666
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
            _lock_output(path, file)
            # The previous holder of the lock may have moved the file in the meantime.
            if _is_at(path, file):
                return Output(path, file)
            os.close(file)
    except OSError as error:
        raise JournalError(f"output_path: {path} cannot be written: {error.strerror or error}") from error


def _lock_output(path: Path, file: int) -> None:
    take_lock(file, f"output_path: {path} is being written by another run")


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked_outputs(paths: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of the output files that exist, so that none is moved while a run writes it."""
    with contextlib.ExitStack() as held:
        for path in paths:
            try:
                file = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise JournalError(f"output_path: {path} cannot be read: {error.strerror or error}") from error
            _lock_output(path, file)
            held.callback(os.close, file)
        yield


def output_problems(files: Mapping[str, tuple[Path, Sequence[Path]]]) -> list[tuple[str, str]]:
    """Outputs that would overwrite something, as (dataset, problem). `files`: each dataset's output and task files."""
    problems = []
    owners: dict[Path, str] = {}
    inputs = {path.resolve(): name for name, (_, tasks) in files.items() for path in tasks}
    for name, (output, _) in files.items():
        path = output.resolve()
        if path in owners:
            problems.append((name, f"{output} is also that of {owners[path]!r}"))
        if path.exists() and not path.is_file():
            problems.append((name, f"{output} exists and is not a file; choose another name"))
        if path in inputs:
            problems.append((name, f"{output} holds the tasks of {inputs[path]!r}; choose another file"))
        owners[path] = name
    return problems


def free_name(path: Path, word: str = "") -> Path:
    """An unused name beside `path`, made of its name, a word and the time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base = f"{path.name}.{word + '-' if word else ''}{stamp}"
    candidate = path.with_name(base)
    number = 1
    while candidate.exists():
        candidate = path.with_name(f"{base}-{number}")
        number += 1
    return candidate


def move_aside(path: Path) -> Path | None:
    """Rename the file or folder at `path`, if there is one, so that a new start overwrites nothing. Returns its new
    name."""
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return None
    aside = free_name(path)
    path.rename(aside)
    return aside
