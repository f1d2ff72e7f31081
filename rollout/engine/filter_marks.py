"""What `rollout filter` found, as training data keeps to it: `filters.jsonl` in a run directory."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rollout.errors import ConfigError
from rollout.messages import JSON

FILTERS = "filters.jsonl"


class Marks(msgspec.Struct, frozen=True):
    """What is not to be learnt of one trajectory."""

    refusal: str | None = None
    """Why it is left out as a whole; None where it is not."""
    masked: frozenset[int] = frozenset()
    """The steps whose answers are context only."""
    end: int | None = None
    """The first step that is cut off, with all after it."""


def read_marks(run_dir: Path) -> dict[str, Marks]:
    """The marks of a run, by trajectory. Raises ConfigError where it was not filtered."""
    path = run_dir / FILTERS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; `rollout filter {run_dir}` writes it") from error
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line)
            found[str(entry["id"])] = _marks(entry["marks"])
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}:{number}: not a line of marks: {error}") from error
    return found


def _marks(entries: list[JSON]) -> Marks:
    dropped = [f"filter {entry['filter']}" for entry in entries if entry["policy"] == "drop_trajectory"]
    masked = frozenset(int(entry["step"]) for entry in entries if entry["policy"] == "mask_turn")
    cuts = [int(entry["step"]) for entry in entries if entry["policy"] == "truncate_before"]
    return Marks(min(dropped, default=None), masked, min(cuts, default=None))
