"""Names in a configuration that become names of files."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator

LONGEST = 200
"""Bytes of a name in UTF-8: file systems take 255, and an ending is added."""


def check_file_name(name: str) -> str:
    """A name that stays in its folder: no path, no hidden file, nothing that a terminal would act on. Raises
    ValueError."""
    if not name or name != name.strip():
        raise ValueError("expected a name, without spaces around it")
    if "/" in name or "\\" in name:
        raise ValueError("is a name, not a path; expected one without slashes")
    if name.startswith("."):
        raise ValueError("expected a name that does not begin with a dot")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        raise ValueError("expected a name without control characters")
    if len(name.encode()) > LONGEST:
        raise ValueError(f"expected a name of at most {LONGEST} bytes")
    return name


FileName = Annotated[str, AfterValidator(check_file_name)]
