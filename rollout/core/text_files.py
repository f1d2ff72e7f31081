"""Text files that a user names: configurations, policies, prompts, templates."""

from __future__ import annotations

import errno
from pathlib import Path

MAX_CHARS = 32 << 20
"""Files written by hand are shorter, and some files (`/dev/zero`) never end."""


def read_text(path: Path) -> str:
    """The text of a UTF-8 file. Raises OSError, also where it is longer than `MAX_CHARS`, and UnicodeDecodeError."""
    with path.open(encoding="utf-8") as file:
        text = file.read(MAX_CHARS + 1)
    if len(text) > MAX_CHARS:
        raise OSError(errno.EFBIG, f"longer than {MAX_CHARS >> 20} MB")
    return text
