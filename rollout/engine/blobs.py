"""Files of a run that are written whole: under a name of their own, or under the hash of what is in them."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from rollout.messages import Image


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that at any instant its name means either the old content or the new."""
    # Two machines that share a folder may have processes of the same number.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


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
    data = (run_dir / "blobs" / name).read_bytes()
    return f"data:image/{name.rpartition('.')[2]};base64,{base64.b64encode(data).decode()}"


def file_url(run_dir: Path, name: str) -> str:
    """A kept image as a `file:` URL, for a server that sees the same files."""
    return (run_dir / "blobs" / name).resolve().as_uri()


def write_named(run_dir: Path, name: str, data: bytes) -> None:
    """Keep a blob under a name that says what is in it, once."""
    path = run_dir / "blobs" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)


def name_of(data: bytes) -> str:
    """The name under which a blob is kept."""
    return hashlib.sha256(data).hexdigest()[:16]
