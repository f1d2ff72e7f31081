"""Dividing whole things in proportion to weights, so that they add up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def share_out(size: int, weights: Sequence[float], capacities: Sequence[int]) -> list[int]:
    """Divide `size` in the proportion of weights, by largest remainders, none getting more than it can hold.

    What one cannot hold is divided among the others in the same way. The sum is `size`, or all that those with a
    weight can hold where that is less.
    """
    exact = [Fraction(str(weight)) for weight in weights]
    given = [0] * len(weights)
    left = min(size, sum(room for room, weight in zip(capacities, exact, strict=True) if weight > 0))
    while left:
        able = [index for index, weight in enumerate(exact) if weight > 0 and given[index] < capacities[index]]
        total = sum(exact[index] for index in able)
        quotas = {index: left * exact[index] / total for index in able}
        parts = {index: int(quota) for index, quota in quotas.items()}
        rest = left - sum(parts.values())
        for index in sorted(able, key=lambda index: parts[index] - quotas[index])[:rest]:
            parts[index] += 1
        for index, part in parts.items():
            taken = min(part, capacities[index] - given[index])
            given[index] += taken
            left -= taken
    return given
