"""Consoles that are safe to print untrusted text on, and messages of one line.

Most of what is printed holds text of models, tools, servers and data files. `SafeConsole` takes no string for markup
and removes control sequences from whatever is rendered, so only our own styles colour the output.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rollout.core.errors import RolloutError
from rollout.core.printable import printable, printable_json
from rollout.core.secrets import excerpt, redact

_WORD = re.compile(r"\S+")
MOST_SHOWN = 2000
"""Characters of one message on the terminal."""


class SafeConsole(Console):
    """A console that untrusted text cannot command: no markup, no emoji codes, no control sequences."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "markup": False, "emoji": False})

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """As rich does it. On a terminal, a line that is not to be cut goes on with a whole word; paths and addresses
        stay in one piece, so that they can be copied. A file or a pipe gets the line as it is."""
        if soft_wrap and self.is_terminal and len(objects) == 1 and isinstance(objects[0], (str, Text)):
            objects = (in_whole_words(objects[0], self.width),)
        super().print(*objects, soft_wrap=soft_wrap, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text on its way to the terminal comes through here; rich's own control codes are marked as such."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                clean = printable(segment.text)
                yield segment if clean is segment.text else Segment(clean, segment.style)
            else:
                yield segment


def in_whole_words(text: str | Text, width: int) -> Text:
    """A text in lines of at most this width. A word that is wider has a line of its own, whole."""
    whole = Text(text) if isinstance(text, str) else text
    lines: list[Text] = []
    for line in whole.split("\n", allow_blank=True):
        breaks, begin = [], 0
        for word in _WORD.finditer(line.plain):
            if word.end() - begin > width and word.start() > begin and line.plain[begin : word.start()].strip():
                begin = word.start()
                breaks.append(begin)
        parts = line.divide(breaks)
        for part in parts[:-1]:
            part.rstrip()
        lines += parts
    return Text("\n").join(lines)


def make_console(no_colors: bool = False) -> Console:
    """The console of this process: standard output, without colours where asked or where it is no terminal."""
    return SafeConsole(no_color=True, force_terminal=False) if no_colors else SafeConsole()


def print_json(document: Any) -> None:
    """What a command found, for programs: JSON on standard output, without secrets and control characters."""
    text = msgspec.json.format(msgspec.json.encode(document, enc_hook=_as_text), indent=2).decode()
    sys.stdout.write(f"{printable_json(redact(text))}\n")


def _as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def show_warning(text: str) -> None:
    """Something that a person should know and that stops nothing, on standard error."""
    SafeConsole(stderr=True).print(
        Text.assemble(("warning ", "yellow"), excerpt(text, MOST_SHOWN)), soft_wrap=True, highlight=False
    )


def show_error(console: Console, error: RolloutError) -> None:
    """One error, in words, on standard error."""
    stderr = SafeConsole(stderr=True, no_color=console.no_color)
    stderr.print(
        Text.assemble(("error ", "bold red"), excerpt(str(error), MOST_SHOWN)), soft_wrap=True, highlight=False
    )
