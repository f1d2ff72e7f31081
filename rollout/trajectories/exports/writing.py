"""Files of records, written so that a name never means half a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON

BUFFER = 1 << 20
_encode = msgspec.json.Encoder().encode


class Writer(Protocol):
    """An open file of records."""

    def write(self, record: JSON) -> None:
        """Add a record."""
        ...

    def close(self) -> None:
        """Write what is left and let go of the file."""
        ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=BUFFER)

    def write(self, record: JSON) -> None:
        self._file.write(_encode(record) + b"\n")

    def write_line(self, line: bytes) -> None:
        """Add a line that is encoded already."""
        self._file.write(line)

    def close(self) -> None:
        self._file.close()


@contextlib.contextmanager
def replaced_together(paths: Sequence[Path], *, is_private: bool = False) -> Iterator[list[Path]]:
    """Temporary names beside these. On leaving they take the place of `paths`; on an error they are removed.

    `is_private`: readable by their owner only, as the files of a run directory are. By default the umask decides.
    """
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths]
    try:
        for path in paths:
            if path.is_dir():
                raise ConfigError(f"{path}: is a folder; expected the name of a file to write")
            path.parent.mkdir(parents=True, exist_ok=True)
        for path in temporary if is_private else ():
            path.touch(mode=0o600)
        yield temporary
        for made, path in zip(temporary, paths, strict=True):
            made.replace(path)
    except OSError as error:
        name = error.filename or paths[0]
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            raise ConfigError(f"{name}: is a file; expected a folder to write into") from error
        raise ConfigError(f"{name}: cannot be written: {error.strerror or error}") from error
    finally:
        for path in temporary:
            with contextlib.suppress(NotADirectoryError):
                path.unlink(missing_ok=True)
