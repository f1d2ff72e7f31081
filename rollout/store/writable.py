"""Whether files and folders can be written, found out by doing it and leaving nothing behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rollout.store.blobs import write_atomic

PROBE = b"\0" * 4096
"""A full disk still takes an empty file."""


def file_problem(path: Path) -> str | None:
    """Why nothing can be appended to a file at this path; None where something can."""
    if path.is_dir():
        return f"{path} is a folder; expected a file, such as {path / 'log.txt'}"
    if (problem := folder_problem(path.parent)) is not None:
        return problem
    if path.exists() and not os.access(path, os.W_OK):
        return f"{path} cannot be written: permission denied; change its permissions or choose another file"
    return None


def folder_problem(folder: Path) -> str | None:
    """Why no file can be written into a folder, which may not exist yet; None where one can."""
    missing = []
    place = folder.absolute()
    while not place.exists() and not place.is_symlink():
        missing.append(place)
        place = place.parent
    if not place.is_dir():
        return f"{place} is a file; expected a folder. Choose another path"
    made: list[Path] = []
    probe = (missing[0] if missing else place) / f".rollout-{os.urandom(6).hex()}"
    try:
        for one in reversed(missing):
            one.mkdir()
            made.append(one)
        write_atomic(probe, PROBE, is_private=True)
    except OSError as error:
        return f"{folder} cannot be written to: {error.strerror or error}; choose another folder, or make room there"
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
            for one in reversed(made):
                one.rmdir()
    return None
