"""How a process of `benchmarks.web` talks with the one that measures it. Needs nothing but the standard library.

It holds its first contexts open ("held"), ends those episodes ("ready"), and plays the rest; each time it waits for a
word to go on. Then it tells how long resets and steps took, and ends.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def say(**told: Any) -> None:
    """Tell the process that measures."""
    print(json.dumps(told), flush=True)


def wait_for_word() -> None:
    """Until it says to go on. Ends this process where it is gone."""
    if not sys.stdin.readline():
        raise SystemExit(1)
