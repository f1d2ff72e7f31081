"""pass@k and pass^k: what k attempts at a task are worth, from the n that were made.

Both are estimated without bias from all n attempts, of which c solved the task: draw k of the n without putting back;
pass@k is the chance that at least one of them solved it, pass^k the chance that all did. A task with fewer than k
scored attempts says nothing about k and is left out, so each figure comes with the number of tasks behind it.

Most tasks of a run have the same few pairs of n and c, so the chances of a pair are computed once. The numbers of draws
follow from those for k - 1: computing each by itself takes minutes where one task has ten thousand attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec


class PassK(msgspec.Struct, frozen=True):
    """The figures for one k, over the tasks that have at least k scored attempts."""

    k: int
    tasks: int
    at: float
    """pass@k: some attempt of k solves it."""
    all: float
    """pass^k: every attempt of k solves it."""


def pass_table(groups: Iterable[tuple[int, int]]) -> list[PassK]:
    """The figures for k = 1, 2, … from each task's (scored attempts, solved attempts)."""
    counted = Counter((n, c) for n, c in groups if n > 0)
    most = max((n for n, _ in counted), default=0)
    tasks, at, every = [0] * most, [0.0] * most, [0.0] * most
    for (n, c), times in counted.items():
        for place, (some_solve, all_solve) in enumerate(_chances(n, c)):
            tasks[place] += times
            at[place] += times * some_solve
            every[place] += times * all_solve
    return [PassK(place + 1, number, at[place] / number, every[place] / number) for place, number in enumerate(tasks)]


def _chances(n: int, c: int) -> Iterator[tuple[float, float]]:
    """pass@k and pass^k of a task for each k up to n, of which c solved it."""
    if not 0 <= c <= n:
        raise ValueError(f"expected 0 <= solved <= attempts, got {c} of {n}")
    # In how many ways k can be drawn: of all, of those that did not solve it, and of those that did.
    draws = unsolved = solved = 1
    for k in range(1, n + 1):
        draws = draws * (n - k + 1) // k
        unsolved = unsolved * (n - c - k + 1) // k
        solved = solved * (c - k + 1) // k
        yield (draws - unsolved) / draws, solved / draws
