"""The files of a world's folder, as part of its snapshots: contents, executability, links and empty folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from rollout.core.errors import WorldError

Entry = bytes | tuple[str, bytes] | tuple[str, str]
"""The contents of a file. Else a pair: `executable` and the contents, `link` and its target, `folder` and nothing."""


def read_files(folder: Path) -> dict[str, Entry]:
    """What is in a folder, by relative path. Links are not followed."""
    found: dict[str, Entry] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                target = os.readlink(path)
                inside = os.path.isabs(target) and Path(target).is_relative_to(folder)
                found[_relative(path, folder)] = "link", os.path.relpath(target, place) if inside else target
            elif name in folders:
                if not any(path.iterdir()):
                    found[_relative(path, folder)] = "folder", ""
            elif path.is_file():
                is_executable = path.stat().st_mode & stat.S_IXUSR
                found[_relative(path, folder)] = (
                    ("executable", path.read_bytes()) if is_executable else path.read_bytes()
                )
    return dict(sorted(found.items()))


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))


def write_files(folder: Path, files: Mapping[str, Entry]) -> None:
    """Make a folder hold this and nothing else. Raises WorldError where an entry would be outside of it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    links = {}
    for name, file in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise WorldError(f"a snapshot names a file outside of the world's folder: {name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        kind, content = ("file", file) if isinstance(file, bytes) else file
        if kind == "folder":
            path.mkdir(exist_ok=True)
        elif isinstance(content, bytes):
            path.write_bytes(content)
            path.chmod(path.stat().st_mode | (stat.S_IXUSR if kind == "executable" else 0))
        else:
            links[path] = content
    # Last, so that no file is written through one.
    for path, target in links.items():
        path.symlink_to(target)
