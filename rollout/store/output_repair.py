"""Comparing an output file with the journal, and completing it.

A line is appended after its row was committed, so a process that is killed leaves a file that is too short. A person or
a program may also have edited the file. The journal decides what belongs in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rollout.store.output_files import Output
from rollout.store.reader import JournalReader, LinePosition


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
