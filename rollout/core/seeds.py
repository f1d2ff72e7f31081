"""Seeds: every random number is derived from the run's seed and the names of what it is for.

`derive(seed, "task", 3)` is the same on every machine, in every process and whatever ran before it, so a resumed run, a
second worker and a re-ordered queue all draw what the undisturbed run drew.
"""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, *names: str | int) -> int:
    """A 31-bit seed (servers take no more) for the thing that `names` name, under `seed`."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") & 0x7FFFFFFF


def stream(seed: int, *names: str | int) -> random.Random:
    """A generator of its own for the thing that `names` name."""
    return random.Random(derive(seed, *names))
