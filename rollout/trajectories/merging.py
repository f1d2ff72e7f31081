"""Trajectories of several runs in one export: each id once, each trajectory once, each task in one split.

Where two runs have trajectories of the same id, an equal one (same messages, prompt and tools) is a duplicate and left
out; a different one gets its run's name behind its id. The first to come keeps the plain id.

A split is chosen by a hash of the task's id, so that all attempts at a task are in the same one, adding runs moves no
task, and the same command makes the same files anywhere.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from rollout.core.errors import ConfigError
from rollout.trajectories.labels import Example

_encode = msgspec.msgpack.Encoder().encode
_SPLIT_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


class UniqueNames:
    """Names that were taken so far; a name that comes again gets its run's behind it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[tuple[str, str], int] = {}
        """The number to try next for a name and run: trying all from 1 would be quadratic in equal names."""

    def take(self, name: str, run: str) -> str:
        """The name, or a unique one derived from it."""
        chosen, number = name, self._next.get((name, run), 1)
        while chosen in self._taken:
            chosen = f"{name}@{run}" if number == 1 else f"{name}@{run}.{number}"
            number += 1
            self._next[name, run] = number
        self._taken.add(chosen)
        return chosen


class Merged:
    """What was taken so far. Keeps an id and a hash of each, nothing more."""

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._seen: set[tuple[str, int]] = set()

    def admit(self, example: Example, run: str) -> Example | None:
        """The example under an id of its own; None where it is there already."""
        # Python's own hash: only examples of the same id are compared, and only by this process.
        key = (example.id, hash(_encode((example.messages, example.tools))))
        if key in self._seen:
            return None
        self._seen.add(key)
        name = self._names.take(example.id, run)
        return example if name == example.id else msgspec.structs.replace(example, id=name)


class Splits(msgspec.Struct, frozen=True):
    """Named shares that add up to 1."""

    shares: tuple[tuple[str, float], ...]
    seed: int = 0

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.shares]

    def of(self, task_id: str) -> str:
        """The split of a task."""
        digest = hashlib.sha256(f"{self.seed}:{task_id}".encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in self.shares:
            if place < share:
                return name
            place -= share
        return self.shares[-1][0]


def parse_splits(text: str, seed: int = 0) -> Splits:
    """Read `train=0.9,validation=0.1`."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            value = float(share)
        except ValueError:
            value = -1
        if not _SPLIT_NAME.fullmatch(name) or not 0 < value <= 1 or name in shares:
            raise ConfigError(f"--split: {part.strip()!r} is not NAME=SHARE; expected such as train=0.9,validation=0.1")
        shares[name] = value
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise ConfigError(f"--split: the shares of {text!r} add up to {sum(shares.values()):g}; expected 1")
    return Splits(tuple(shares.items()), seed)
