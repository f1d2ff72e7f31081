"""pass@k and pass^k: what k attempts at a task are worth, from the n that were made.

Both are estimated without bias from all n attempts, of which c solved the task: draw k of the n without putting back;
pass@k is the chance that at least one of them solved it, pass^k the chance that all did. A task with fewer than k
scored attempts says nothing about k and is left out, so each figure comes with the number of tasks behind it. Most
tasks of a run have the same few pairs of n and c, so their figures are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from math import comb

import msgspec


class PassK(msgspec.Struct, frozen=True):
    """The figures for one k, over the tasks that have at least k scored attempts."""

    k: int
    tasks: int
    at: float
    """pass@k: some attempt of k solves it."""
    all: float
    """pass^k: every attempt of k solves it."""


@functools.lru_cache(4096)
def pass_at(n: int, c: int, k: int) -> float:
    """The chance that at least one of k attempts, drawn from n of which c solved the task, solved it."""
    _check(n, c, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


@functools.lru_cache(4096)
def pass_all(n: int, c: int, k: int) -> float:
    """The chance that all of k attempts, drawn from n of which c solved the task, solved it."""
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def pass_table(groups: Iterable[tuple[int, int]]) -> list[PassK]:
    """The figures for k = 1, 2, … from each task's (scored attempts, solved attempts)."""
    counted = [(n, c) for n, c in groups if n > 0]
    table = []
    for k in range(1, max((n for n, _ in counted), default=0) + 1):
        enough = [(n, c) for n, c in counted if n >= k]
        table.append(
            PassK(
                k,
                len(enough),
                sum(pass_at(n, c, k) for n, c in enough) / len(enough),
                sum(pass_all(n, c, k) for n, c in enough) / len(enough),
            )
        )
    return table


def _check(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"expected 0 <= solved <= attempts and 1 <= k <= attempts, got {c}, {n} and k={k}")
