"""Blobs: images and large texts of a run, each in a file named by the hash of its content. Also atomic writes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from rollout.core.errors import ConfigError, JournalError
from rollout.store.damage import damaged
from rollout.store.private import PRIVATE_FILE, make_private_folder
from rollout.store.run_dir import BLOBS, JOURNAL

PUBLIC_FILE = 0o666
"""Reduced by the umask."""


def write_atomic(path: Path, data: bytes, *, is_private: bool = False, is_synced: bool = False) -> None:
    """Write a file so that its name leads to the old content or to the new one at any instant. A private file is
    readable by its owner only, whatever the umask, as the files of a run directory are. A synced file is on the disk
    when this returns, so it outlives the machine."""
    # Machines that share a folder may have processes with the same number.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    mode = PRIVATE_FILE if is_private else PUBLIC_FILE
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if is_synced:
            _sync_folder(path.parent)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk. Not every file system can do it."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


@contextlib.contextmanager
def writing(run_dir: Path) -> Iterator[None]:
    """Convert an OSError to a JournalError that names the file: a full disk is an error of the run, not of one
    conversation."""
    try:
        yield
    except OSError as error:
        name = error.filename or run_dir
        raise JournalError(f"{name}: cannot be written: {error.strerror or error}") from error


def write_blob(run_dir: Path, data: bytes) -> str:
    """Write a large text under the hash of its content, unless it is there. Returns the name."""
    name = name_of(data)
    write_named(run_dir, f"{name}.json", data)
    return name


def read_blob(run_dir: Path, name: str) -> bytes:
    """A large text by its name. Raises OSError if the run does not have it."""
    return (run_dir / BLOBS / f"{name}.json").read_bytes()


def image_url(run_dir: Path, name: str) -> str:
    """An image as a `data:` URL, which every model server accepts."""
    try:
        data = image_path(run_dir, name).read_bytes()
    except OSError as error:
        raise damaged(run_dir / JOURNAL, f"{BLOBS}/{name} cannot be read: {error.strerror or error}") from error
    return f"data:image/{name.rpartition('.')[2]};base64,{base64.b64encode(data).decode()}"


def file_url(run_dir: Path, name: str) -> str:
    """An image as a `file:` URL, for a server that has access to the same files."""
    return image_path(run_dir, name).resolve().as_uri()


def image_path(run_dir: Path, name: str) -> Path:
    """The file of an image, whether it is there or not. Names come from records and task files, and must not lead out
    of the folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ConfigError(f"an image has the name {name!r}; expected the name of a file in {run_dir / BLOBS}")
    return run_dir / BLOBS / name


def find_image(run_dir: Path, name: str) -> Path | None:
    """The file of an image that is in a run directory. None if it is not there, or a symbolic link leads to it."""
    path = image_path(run_dir, name)
    return path if _is_own(path) else None


def _is_own(path: Path) -> bool:
    """Whether a blob is there and is a file of its run: a run that was received may link to other files."""
    return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()


def write_named(run_dir: Path, name: str, data: bytes, *, is_synced: bool = False) -> None:
    """Write a blob under a name that is derived from its content, unless it is there. One that was cut short when the
    machine died is written again."""
    path = run_dir / BLOBS / name
    if not path.exists() or path.stat().st_size != len(data):
        make_private_folder(path.parent)
        write_atomic(path, data, is_private=True, is_synced=is_synced)


def copy_blob(from_run: Path, to_run: Path, name: str) -> None:
    """Give another run a large text of a run. What the run does not have, or only links to, is left out."""
    _share(from_run / BLOBS / f"{name}.json", to_run)


def copy_image(from_run: Path, to_run: Path, name: str) -> None:
    """Give another run an image of a run. What the run does not have, or only links to, is left out."""
    _share(image_path(from_run, name), to_run)


def _share(path: Path, run_dir: Path) -> None:
    """Blobs never change, so both runs may have the same file."""
    copy = run_dir / BLOBS / path.name
    if copy.exists() or not _is_own(path):
        return
    make_private_folder(copy.parent)
    try:
        os.link(path, copy)
    except FileExistsError:
        return
    except OSError:
        # Another file system, or one without links.
        write_atomic(copy, path.read_bytes(), is_private=True)


def name_of(data: bytes) -> str:
    """The name of a blob with this content, without its suffix."""
    return hashlib.sha256(data).hexdigest()[:16]
