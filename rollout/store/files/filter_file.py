"""The file of marks (`filters.jsonl`) that `rollout filter` writes beside a run: a JSON line for each trajectory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.store.run_dir import find_run
from rollout.trajectories.exports.writing import replaced_together
from rollout.trajectories.filters.filtering import digest_of
from rollout.trajectories.filters.marks import Filtered

READ_AHEAD = 64
"""Records that are read from the file at once."""
T = TypeVar("T")


class _Key(msgspec.Struct):
    """The part of a record that it is looked up by."""

    dataset: str
    id: str


class _NamedMark(msgspec.Struct):
    filter: str


class _NamedMarks(_Key):
    """The part of a record that says which filters found something."""

    marks: tuple[_NamedMark, ...] = ()


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Filtered)
_named_decoder = msgspec.json.Decoder(_NamedMarks)
_key_decoder = msgspec.json.Decoder(_Key)


def write_records(path: Path, records: Iterable[Filtered]) -> None:
    """Write the records to a file, which replaces the old one when it is complete."""
    is_private = find_run(path.parent) == path.parent
    with replaced_together([path], is_private=is_private) as [temporary], temporary.open("wb") as file:
        for record in records:
            file.write(_encode(record) + b"\n")


def read_records(path: Path) -> dict[tuple[str, str], Filtered]:
    """All records of a file, by dataset and id. Raises ConfigError if it cannot be read."""
    records = (_decode(_decoder, line, path, number) for number, _, line in _read_lines(path))
    return {(record.dataset, record.id): record for record in records}


def read_filter_names(path: Path) -> Iterator[tuple[str, str, str]]:
    """Which filters have a mark on which trajectories: filter, dataset and id of each. Nothing where there is no file.
    Raises ConfigError if it cannot be read."""
    if not path.is_file():
        return
    for number, _, line in _read_lines(path):
        record = _decode(_named_decoder, line, path, number)
        for name in {mark.filter for mark in record.marks}:
            yield name, record.dataset, record.id


class RecordFile:
    """Looks up records in a file. Only their positions are kept in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._positions: dict[tuple[str, str], tuple[int, int]] = {}
        """The number of the line, and the offset of its first byte."""
        self._cached: dict[tuple[str, str], Filtered] = {}
        for number, begin, line in _read_lines(path):
            key = _decode(_key_decoder, line, path, number)
            self._positions[key.dataset, key.id] = (number, begin)

    def get(self, dataset: str, name: str, messages: Sequence[Message]) -> Filtered | None:
        """The record of a trajectory with these messages. None if it has none, or one of what it was before it was made
        again."""
        key = (dataset, name)
        if key not in self._cached and key in self._positions:
            # Callers go through the trajectories in the order of the file.
            number, begin = self._positions[key]
            lines = itertools.islice(_read_lines(self._path, begin, number), READ_AHEAD)
            ahead = [_decode(_decoder, line, self._path, at) for at, _, line in lines]
            self._cached = {(record.dataset, record.id): record for record in ahead}
        record = self._cached.get(key)
        return record if record is not None and record.digest == digest_of(messages) else None


def _read_lines(path: Path, begin: int = 0, number: int = 1) -> Iterator[tuple[int, int, bytes]]:
    """The lines from an offset on, each with its number and its own offset."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is not a file; `rollout filter {path.parent}` makes one")
    try:
        with path.open("rb") as file:
            file.seek(begin)
            for line in file:
                yield number, begin, line
                number, begin = number + 1, begin + len(line)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}; `rollout filter {path.parent}` makes it"
        ) from error


def _decode(decoder: msgspec.json.Decoder[T], line: bytes, path: Path, number: int) -> T:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}:{number}: is not what `rollout filter` writes: {error}") from error
