"""The help of a command out of its docstring, for a terminal of any width.

Paragraphs are wrapped by typer, so here each becomes one line. An indented paragraph is a command, and has to be pasted
as it stands: where it is too long, it goes on behind a backslash.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable

INDENT = "    "
EDGE = 2
"""The columns that typer leaves free beside a text."""
LEAST_WIDTH = 40


def help_of(function: Callable[..., object], width: int | None = None) -> str:
    """The docstring of a command, laid out for a terminal of this width (by default, the one there is)."""
    columns = max(LEAST_WIDTH, (width or shutil.get_terminal_size().columns) - EDGE)
    parts: list[str] = []
    for part in (inspect.getdoc(function) or "").split("\n\n"):
        is_command = part.startswith(INDENT)
        if is_command and len(parts) == 1:
            parts.append("For example:")  # typer takes the indent of what follows the summary away
        words = part.split()
        parts.append(_as_command(words, columns) if is_command else " ".join(words))
    return "\n\n".join(parts)


def _as_command(words: list[str], columns: int) -> str:
    kept: list[str] = []
    for word in words:
        if kept and kept[-1].startswith("--") and " " not in kept[-1] and not word.startswith("-"):
            kept[-1] += f" {word}"  # an option and its value stay together
        elif word != "\\":
            kept.append(word)
    lines, line = [], INDENT + kept[0]
    for word in kept[1:]:
        if len(line) + len(word) + 3 > columns:
            lines.append(f"{line} \\")
            line = INDENT * 2 + word
        else:
            line += f" {word}"
    return "\n".join([*lines, line])
