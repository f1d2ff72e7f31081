"""MinHash: sets that are nearly the same, found by equal hashes instead of by comparing all pairs.

A signature has `BINS` places. It is made by one permutation: a member falls into one bin, each bin keeps its smallest,
and an empty bin borrows from a full one. Two signatures agree in about the share of places that is the Jaccard
index of their sets. A signature is cut into bands; two sets are candidates if one of their bands is equal. Bands are as
long as they can be with less than `MOST_MISSED` of the pairs at the threshold having none in common.
"""

from __future__ import annotations

import functools
import random
from array import array
from collections.abc import Collection, Sequence, Set
from itertools import islice

BINS = 128
MOST_MISSED = 1e-3
MARGIN = 4
_PLACE = BINS - 1
_EMPTY = (1 << 64) - 1
"""More than every member, which are signed numbers of 64 bits."""


def sign(members: Collection[int]) -> list[int]:
    """The signature of a set: of each bin the smallest member, of an empty bin that of another one."""
    signature = [_EMPTY] * BINS
    if not members:
        return signature
    for member in members:
        place = member & _PLACE
        if member < signature[place]:
            signature[place] = member
    empty = [place for place, smallest in enumerate(signature) if smallest is _EMPTY]
    # All are found before the first is filled: what was borrowed is not lent.
    lent = [_borrow(signature, place) for place in empty]
    for place, smallest in zip(empty, lent, strict=True):
        signature[place] = smallest
    return signature


def _borrow(bins: Sequence[int], place: int) -> int:
    for lender in _lenders(place):
        if bins[lender] is not _EMPTY:
            return bins[lender]
    raise AssertionError("one bin is full")


@functools.cache
def _lenders(place: int) -> list[int]:
    """The bins that an empty one asks, in an order of its own: neighbours that all borrowed from the same bin would
    make equal bands of sets that have one member in common."""
    return random.Random(place).sample(range(BINS), BINS)


def band_hashes(members: Collection[int], rows: int) -> array[int]:
    """A hash of each band of the signature of a set."""
    signature = sign(members)
    starts = range(0, BINS - rows + 1, rows)
    return array("Q", [hash((start, *signature[start : start + rows])) & _EMPTY for start in starts])


def shared_hashes(bands: Sequence[bytes], owners: Sequence[int]) -> set[int]:
    """The hashes of bands that several owners have. Looks at one band of all sets at a time, so that what it holds does
    not grow with the number of bands."""
    packed = array("Q", b"".join(bands))
    width = len(packed) // len(bands) if bands else 0
    shared: set[int] = set()
    for column in range(width):
        first: dict[int, int] = {}
        for band, owner in zip(packed[column::width], owners, strict=True):
            if first.setdefault(band, owner) != owner:
                shared.add(band)
    return shared


def jaccard(one: Set[int], other: Set[int], least: float = 0.0) -> float:
    """Common members by all members; 1 for two empty sets. Not worked out (0) where it is plainly below `least`."""
    if not one and not other:
        return 1.0
    if min(len(one), len(other)) < least * max(len(one), len(other)):
        return 0.0
    # They have that many in common, or too few: then all but that many of one cannot all lie outside the other.
    needed = int(least * (len(one) + len(other)) / (1 + least))
    if needed and other.isdisjoint(islice(one, len(one) - needed + 1)):
        return 0.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)


@functools.cache
def band_rows(similarity: float) -> int:
    """The most rows of a band with which a pair this similar is still missed less often than `MOST_MISSED`.

    Bins of a small set are not independent, as the formula takes them to be, hence the margin.
    """
    fit = [rows for rows in range(1, 17) if (1 - similarity**rows) ** (BINS // rows) <= MOST_MISSED / MARGIN]
    return max(fit, default=1)
