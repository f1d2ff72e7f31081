"""Are two sets of rows the same but for the names of what was made at run time?

An agent that creates the same two bookings in the other order gets other ids for them, and every row that points at
them differs. So each row is read as a *pattern*: its text with every made value taken out, and the made values in
order. Two sets of rows are the same if some one-to-one renaming of made values turns one into the other.

Rows that share a made value hang together; each such cluster is compared on its own. Within one, made values are
distinguished by their places (colour refinement: a value's colour is the set of its places and the colours beside it).
Values of one colour that are in a single row each may be named either way; where others are still alike, one is
singled out on either side and the rest refined again, trying all partners. That search is exact: a renaming is only
claimed where it exists, and only denied where none does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rollout.core.changes import encode_row

Value = str | int | float
Colours = dict[Value, int]
MAX_TRIES = 2_000


class TooAlike(Exception):
    """So many rows are alike that no answer was found within `MAX_TRIES`."""


class Pattern(msgspec.Struct, frozen=True):
    """A row with its made values taken out."""

    text: str
    """The table and the row, with a mark at each place from which a value was taken."""
    made: tuple[Value, ...] = ()


def make_pattern(table: str, row: Any, made: tuple[Value, ...]) -> Pattern:
    """A pattern of a row in which the made values have been replaced by marks already."""
    return Pattern(f"{table}\n{encode_row(row).decode()}", made)


def unmatched(wanted: Sequence[Pattern], got: Sequence[Pattern]) -> tuple[list[int], list[int]]:
    """The places of the rows on either side that have no counterpart on the other. Raises `TooAlike`."""
    intern = _Intern()
    ours = [_Cluster(wanted, places, intern) for places in _clusters(wanted)]
    theirs: dict[Hashable, list[_Cluster]] = defaultdict(list)
    for places in _clusters(got):
        cluster = _Cluster(got, places, intern)
        theirs[cluster.shape()].append(cluster)
    missing: list[int] = []
    for cluster in ours:
        candidates = theirs[cluster.shape()]
        # Being the same is transitive, so the first partner is as good as any.
        partner = next((number for number, other in enumerate(candidates) if _is_same(cluster, other)), None)
        if partner is None:
            missing += cluster.places
        else:
            del candidates[partner]
    extra = [place for clusters in theirs.values() for cluster in clusters for place in cluster.places]
    return sorted(missing), sorted(extra)


class _Intern:
    """Small numbers for whatever is equal; the same for both sides of a comparison."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, thing: Hashable) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))


class _Cluster:
    """Rows that hang together, and the colours of their made values."""

    def __init__(
        self, rows: Sequence[Pattern], places: list[int], intern: _Intern, colours: Colours | None = None
    ) -> None:
        self.places = places
        self.edges = [(intern(_label(rows[place])), rows[place].made) for place in places]
        self._rows = rows
        self._intern = intern
        self.spots: dict[Value, list[tuple[int, int]]] = defaultdict(list)
        """Where each value stands: number of the row, place in its `made`."""
        for number, (_, made) in enumerate(self.edges):
            for spot, value in enumerate(made):
                self.spots[value].append((number, spot))
        self.colours = self._refined(colours or dict.fromkeys(self.spots, intern("uncoloured")))

    def _refined(self, colours: Colours) -> Colours:
        while True:
            beside = [(text, tuple(colours[value] for value in made)) for text, made in self.edges]
            finer = {
                value: self._intern((colours[value], tuple(sorted((*beside[number], spot) for number, spot in spots))))
                for value, spots in self.spots.items()
            }
            if len(set(finer.values())) == len(set(colours.values())):
                return finer
            colours = finer

    def shape(self) -> Hashable:
        """Equal for clusters that may be the same."""
        return tuple(sorted((text, tuple(self.colours[value] for value in made)) for text, made in self.edges))

    def single_out(self, value: Value) -> _Cluster:
        """The same cluster with this value distinguished from all others."""
        colours = {**self.colours, value: self._intern(("singled out", self.colours[value]))}
        return _Cluster(self._rows, self.places, self._intern, colours)

    def alike(self) -> list[Value]:
        """The values of one colour that are in more than one row, of the fewest such; none: all are distinguished."""
        classes: dict[int, list[Value]] = defaultdict(list)
        for value, colour in self.colours.items():
            classes[colour].append(value)
        open_ = [values for values in classes.values() if len(values) > 1 and not self._is_private(values[0])]
        return min(open_, key=len, default=[])

    def _is_private(self, value: Value) -> bool:
        return len({number for number, _ in self.spots[value]}) == 1

    def of_colour(self, colour: int) -> list[Value]:
        return [value for value, its in self.colours.items() if its == colour]


def _label(row: Pattern) -> Hashable:
    """What must be equal in two rows whatever their made values are called: the text, and which of them are equal."""
    return row.text, tuple(row.made.index(value) for value in row.made)


def _is_same(ours: _Cluster, theirs: _Cluster) -> bool:
    """Whether some renaming turns one cluster, of the same shape, into the other."""
    # Depth first, without recursion, because clusters can be big: pairs of equal shape that are still to be decided.
    open_ = [iter([(ours, theirs)])]
    tries = 0
    while open_:
        pair = next(open_[-1], None)
        if pair is None:
            open_.pop()
            continue
        if not (alike := pair[0].alike()):
            return True
        tries += 1
        if tries > MAX_TRIES:
            raise TooAlike
        open_.append(_told_further_apart(*pair, alike[0]))
    return False


def _told_further_apart(one: _Cluster, other: _Cluster, value: Value) -> Iterator[tuple[_Cluster, _Cluster]]:
    single = one.single_out(value)
    shape = single.shape()
    for candidate in other.of_colour(one.colours[value]):
        partner = other.single_out(candidate)
        if partner.shape() == shape:
            yield single, partner


def _clusters(rows: Sequence[Pattern]) -> Iterable[list[int]]:
    """The places of rows that hang together by a made value, cluster by cluster."""
    home: dict[Value, int] = {}
    parent = list(range(len(rows)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place, row in enumerate(rows):
        for value in row.made:
            parent[root(place)] = root(home.setdefault(value, place))
    clusters: dict[int, list[int]] = defaultdict(list)
    for place in range(len(rows)):
        clusters[root(place)].append(place)
    return clusters.values()
