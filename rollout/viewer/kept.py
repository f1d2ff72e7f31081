"""Answers that are kept until what they are made of changes.

One that several ask for at once is made once: the others wait for it. While its run goes on, an answer that is dear to
make is made again only now and then, so that pages that ask after every change take a tenth of a core at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
DEAR = 0.05
"""CPU seconds. Whatever takes less is made after every change."""
REST = 10.0
"""How many times as long as it took an answer is shown before it is made again, while its run goes on."""


class _KeptAnswer(msgspec.Struct):
    version: object
    value: Any
    made: float
    took: float


class Kept:
    """Answers by name."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._answers: dict[str, _KeptAnswer] = {}
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, version: object, make: Callable[[], T], *, is_moving: bool = False) -> T:
        """The answer of this name, made again if its version has changed. `is_moving`: it will go on changing, so one
        that is dear to make may be some seconds old."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            known = self._answers.get(name)
            if known is None or (known.version != version and not (is_moving and self._is_recent(known))):
                began = self._cpu_clock()
                value = make()
                known = _KeptAnswer(version, value, self._clock(), self._cpu_clock() - began)
                self._answers[name] = known
            found: T = known.value
            return found

    def _is_recent(self, known: _KeptAnswer) -> bool:
        return known.took > DEAR and self._clock() - known.made < REST * known.took
