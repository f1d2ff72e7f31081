"""Files of a run that are written whole: under a name of their own, or under the hash of what is in them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from rollout.core.errors import ConfigError, JournalError
from rollout.core.messages import Image
from rollout.store.damage import damaged
from rollout.store.private import PRIVATE_FILE, make_private_folder

PUBLIC_FILE = 0o666
"""What the umask leaves of it."""


def write_atomic(path: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write a file so that at any instant its name means either the old content or the new. A private one is for its
    owner only, whatever the umask: the files of a run directory."""
    # Two machines that share a folder may have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    mode = PRIVATE_FILE if is_private else PUBLIC_FILE
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def writing(run_dir: Path) -> Iterator[None]:
    """Name the file that cannot be written: a full disk is an error of the run, not of one conversation."""
    try:
        yield
    except OSError as error:
        name = error.filename or run_dir
        raise JournalError(f"{name}: cannot be written: {error.strerror or error}") from error


def write_blob(run_dir: Path, data: bytes) -> str:
    """Keep a large text under its hash, once. Returns the name."""
    name = name_of(data)
    write_named(run_dir, f"{name}.json", data)
    return name


def write_image(run_dir: Path, image: Image) -> None:
    """Keep an image under its name, once."""
    write_named(run_dir, image.name, image.data)


def image_url(run_dir: Path, name: str) -> str:
    """A kept image as a `data:` URL, which any model's server takes."""
    try:
        data = _blob(run_dir, name).read_bytes()
    except OSError as error:
        raise damaged(run_dir / "journal.db", f"blobs/{name} cannot be read: {error.strerror or error}") from error
    return f"data:image/{name.rpartition('.')[2]};base64,{base64.b64encode(data).decode()}"


def file_url(run_dir: Path, name: str) -> str:
    """A kept image as a `file:` URL, for a server that sees the same files."""
    return _blob(run_dir, name).resolve().as_uri()


def _blob(run_dir: Path, name: str) -> Path:
    """Where a blob lies. A name comes out of a record or a task file and must not lead anywhere else."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ConfigError(f"an image has the name {name!r}; expected the name of a file in {run_dir / 'blobs'}")
    return run_dir / "blobs" / name


def write_named(run_dir: Path, name: str, data: bytes) -> None:
    """Keep a blob under a name that says what is in it, once."""
    path = run_dir / "blobs" / name
    if not path.exists():
        make_private_folder(path.parent)
        write_atomic(path, data, is_private=True)


def name_of(data: bytes) -> str:
    """The name under which a blob is kept."""
    return hashlib.sha256(data).hexdigest()[:16]
