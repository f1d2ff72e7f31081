"""Files of a run that are written whole: under a name of their own, or under the hash of what is in them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that at any instant its name means either the old content or the new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def write_blob(run_dir: Path, data: bytes) -> str:
    """Keep a large text under its hash, once. Returns the name."""
    name = name_of(data)
    path = run_dir / "blobs" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return name


def name_of(data: bytes) -> str:
    """The name under which a blob is kept."""
    return hashlib.sha256(data).hexdigest()[:16]
