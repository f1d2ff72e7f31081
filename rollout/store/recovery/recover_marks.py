"""Saving the marks of people when a damaged run is saved as a new one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollout.core.errors import JournalError
from rollout.store.marks import MARKS_SCHEMA, MarksFile, create_marks
from rollout.store.recovery.salvage import read_shapes, salvage_rows
from rollout.store.run_dir import MARKS
from rollout.trajectories.person_marks import PersonMark


class RecoveredMarks(msgspec.Struct, frozen=True):
    """The marks that a new run has of the old one."""

    count: int = 0
    is_damaged: bool = False
    """Whether the old file could only be read in parts."""


def recover_marks(run_dir: Path, target: Path) -> RecoveredMarks:
    """Copy the marks of a run into another directory; of a damaged file, those that are readable. Numbers stay."""
    source = run_dir / MARKS
    if not source.is_file():
        return RecoveredMarks()
    is_damaged = False
    try:
        marks = MarksFile(run_dir).all()
    except JournalError:
        is_damaged = True
        marks = list(_readable(source))
    if marks:
        create_marks(target / MARKS)
        names = ", ".join("?" * len(PersonMark.__struct_fields__))
        with contextlib.closing(sqlite3.connect(target / MARKS)) as database, database:
            database.executemany(f"INSERT INTO marks VALUES ({names})", map(msgspec.structs.astuple, marks))
    return RecoveredMarks(len(marks), is_damaged)


def _readable(source: Path) -> Iterator[PersonMark]:
    """The marks in every page that can be read, without those that a readable row calls removed."""
    marks: dict[int, PersonMark] = {}
    removed: set[int] = set()
    shapes = {shape.table: shape for shape in read_shapes(MARKS_SCHEMA)}
    for raw in salvage_rows(source):
        if (row := shapes["removed"].read(raw)) is not None:
            removed.add(row["number"])
        elif (row := shapes["marks"].read(raw)) is not None:
            with contextlib.suppress(msgspec.ValidationError):
                mark = msgspec.convert(dict(zip(PersonMark.__struct_fields__, row.values(), strict=True)), PersonMark)
                marks[mark.number] = mark
    return (mark for number, mark in sorted(marks.items()) if number not in removed)
