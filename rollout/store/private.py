"""Permissions of the files of a run directory: for their owner only, whatever the umask.

A journal, a prompt or a log may hold what other users of the machine should not read. Outputs and exports are made to
be shared and follow the umask.
"""

from __future__ import annotations

from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner can enter. An existing one keeps its mode; parents follow the umask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
