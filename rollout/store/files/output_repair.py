"""Comparing an output file with the journal, and completing it.

A line is appended after its row was committed, so a process that is killed leaves a file that is too short. A person or
a program may also have edited the file. The journal decides what belongs in it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import JournalError
from rollout.store.damage import DATA_ERRORS
from rollout.store.files.output_files import Output
from rollout.store.reading.reader import JournalReader, LinePosition

COMPARED = 32
"""About how many lines of a file are compared where not all are."""


class _Line(msgspec.Struct):
    """What makes a line that of a trajectory."""

    id: str
    messages: list[Any]


_decode = msgspec.json.Decoder(_Line).decode


class OutputComparison(msgspec.Struct, frozen=True):
    """An output file beside the lines that the journal wants in it."""

    size: int
    """Bytes from the beginning that hold exactly the journal's lines."""
    missing: Sequence[LinePosition]
    """The lines that come after them."""


def compare_output(reader: JournalReader, dataset: str, output: Output) -> OutputComparison:
    """Compare every line of an output file with the journal, up to the first that differs."""
    positions = reader.line_positions(dataset)
    size = 0
    for number, position in enumerate(positions):
        line = reader.line(dataset, position.trajectory)
        is_in_place = position.place == size and len(line) == position.length
        if not is_in_place or output.read(position.place, position.length) != line:
            return OutputComparison(size, positions[number:])
        size += position.length
    return OutputComparison(size, ())


def holds_lines(reader: JournalReader, dataset: str, path: Path) -> bool:
    """Whether an output file holds lines of the journal, as far as it goes. False where another run or program wrote
    the file. Some lines are compared, the first and the last included.

    A line has times in it, so one that is the journal's byte for byte was written by this run, and others that differ
    are damaged or edited. Where there is none, all must have the same messages: what an earlier version wrote may
    differ in the metadata. What a damaged journal does not know is not compared.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        positions = [one for one in reader.line_positions(dataset) if _is_inside(one, size)]
        step = max(1, len(positions) // COMPARED)
        are_alike = True
        for position in (*positions[::step], *positions[-1:]):
            try:
                line = reader.line(dataset, position.trajectory)
            except (JournalError, *DATA_ERRORS):
                continue
            file.seek(position.place)
            found = file.read(position.length)
            if line.startswith(found):  # the last line of a file that was cut off is whole in the journal
                return True
            are_alike = are_alike and _is_alike(found, line)
    return are_alike


def _is_inside(position: LinePosition, size: int) -> bool:
    """Whether a line begins in a file of this size, and the journal's record of it makes sense."""
    is_sound = isinstance(position.place, int) and isinstance(position.length, int) and position.length > 0
    return is_sound and 0 <= position.place < size


def _is_alike(found: bytes, line: bytes) -> bool:
    """Whether two lines are of the same attempt with the same messages."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        return _decode(found) == _decode(line)
    return False


def repair_output(reader: JournalReader, dataset: str, output: Output, record: Callable[[LinePosition], None]) -> int:
    """Make an output file hold exactly the journal's lines. Returns how many were written again, at least 1.

    Other content is moved to a file beside it. `record` is given each new position before the line is written there.
    """
    found = compare_output(reader, dataset, output)
    following = reader.line(dataset, found.missing[0].trajectory) if found.missing else b""
    rest = output.read(found.size, output.size - found.size)
    output.cut(found.size, is_ours=following.startswith(rest))
    for position in found.missing:
        line = reader.line(dataset, position.trajectory)
        record(LinePosition(position.trajectory, output.size, len(line)))
        output.append(line)
    return max(1, len(found.missing))
