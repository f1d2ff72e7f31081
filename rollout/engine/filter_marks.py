"""What `rollout filter` found, as training data keeps to it: `filters.jsonl` in a run directory."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rollout.errors import ConfigError

FILTERS = "filters.jsonl"


class _Mark(msgspec.Struct):
    policy: str
    turn: int | None = None


class _Line(msgspec.Struct):
    """The part of a line that matters here."""

    id: str
    dataset: str
    verdict: str
    why: list[str]
    masked: list[int]
    counts_in_group: bool
    marks: list[_Mark]


class Marks(msgspec.Struct, frozen=True):
    """What is not to be learnt of one trajectory."""

    refusal: str | None = None
    """Why it is left out as a whole; None where it is not."""
    masked: frozenset[int] = frozenset()
    """The steps whose answers are context only."""
    end: int | None = None
    """The first step that is cut off, with all after it."""
    counts_in_group: bool = True
    """Whether it is part of its group's statistics."""


def read_marks(run_dir: Path) -> dict[tuple[str, str], Marks]:
    """The marks of a run, by dataset and trajectory. Raises ConfigError where it was not filtered."""
    path = run_dir / FILTERS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        text = f"{path}: cannot be read: {error.strerror or error}; `rollout filter {run_dir}` writes it"
        raise ConfigError(text) from error
    found = {}
    decoder = msgspec.json.Decoder(_Line)
    for number, line in enumerate(lines, 1):
        try:
            entry = decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}:{number}: is not what `rollout filter` writes: {error}") from error
        found[entry.dataset, entry.id] = _marks(entry)
    return found


def _marks(line: _Line) -> Marks:
    refusal = f"filter {', '.join(line.why)}" if line.verdict == "drop" else None
    cuts = [mark.turn or 0 for mark in line.marks if mark.policy == "truncate_before"]
    end = min(cuts, default=None) if line.verdict == "truncate" else None
    return Marks(refusal, frozenset(line.masked), end, line.counts_in_group)
