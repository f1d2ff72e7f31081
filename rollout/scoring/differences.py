"""The rows by which two ends of the same beginning differ, and the words for it.

Both ends are given as changes, so after netting (`net_changes`) they are the same exactly where the same rows were
added and the same rows removed. Rows that were removed are compared as they stand; added rows either so, or as patterns
in which what was made at run time has no name (`rollout.scoring.renaming`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from rollout.core.changes import Changes, Row, TableChange, encode_row
from rollout.scoring.made import Made
from rollout.scoring.renaming import unmatched
from rollout.scoring.rules import Rules

SHOWN_ROWS = 5
T = TypeVar("T")


class Place(msgspec.Struct, frozen=True):
    """A row and its table."""

    table: str
    row: Row


class Differences(msgspec.Struct):
    """The rows by which two ends of the same beginning differ."""

    missing: list[Place] = msgspec.field(default_factory=list)
    """Rows that should be there and are not."""
    extra: list[Place] = msgspec.field(default_factory=list)
    """Rows that are there and should not be."""
    wanted: int = 0
    """Rows that the reference adds or removes."""
    undone: int = 0
    """Those of them that were not."""
    damage: int = 0
    """Rows that were added or removed besides."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    @property
    def partial(self) -> float:
        """The share of the reference's row changes that were made, less the damage."""
        if self.wanted == 0:
            return 0.0 if self else 1.0
        return max(0.0, (self.wanted - self.undone - self.damage) / self.wanted)


def net_changes(changes: Changes, rules: Rules) -> Changes:
    """Changes without the fields that may differ, without rows that are then as they were, numbers written one way."""
    found: Changes = {}
    for table, change in changes.items():
        ignored = rules.ignored(table)
        added, removed = ([_plain(row, ignored) for row in rows] for rows in (change.added, change.removed))
        new, old = list(map(encode_row, added)), list(map(encode_row, removed))
        added = _chosen(added, new, Counter(new) - Counter(old))
        removed = _chosen(removed, old, Counter(old) - Counter(new))
        if added or removed:
            found[table] = TableChange(tuple(added), tuple(removed))
    return found


def compare_strictly(wanted: Changes, got: Changes) -> Differences:
    """The differences between two net changes of one beginning, row by row as they stand."""
    missing: list[Place] = []
    extra: list[Place] = []
    for table in wanted.keys() | got.keys():
        ours = [Place(table, row) for row in wanted.get(table, TableChange()).added]
        theirs = [Place(table, row) for row in got.get(table, TableChange()).added]
        missing += _without(ours, theirs)
        extra += _without(theirs, ours)
    return _differences(wanted, got, missing, extra)


def compare_by_pattern(wanted: Changes, got: Changes, made_wanted: Made, made_got: Made) -> Differences:
    """The differences that no renaming of made values can remove. Raises `TooAlike`."""
    ours, theirs = _added(wanted), _added(got)
    our_patterns = [made_wanted.pattern(place.table, place.row) for place in ours]
    their_patterns = [made_got.pattern(place.table, place.row) for place in theirs]
    missing, extra = unmatched(our_patterns, their_patterns)
    # Rows hang together, but a wrong row should not drag those into the evidence that only point at it.
    mine = Counter(our_patterns[place].text for place in missing)
    its = Counter(their_patterns[place].text for place in extra)
    if mine != its:
        missing = _chosen(missing, [our_patterns[place].text for place in missing], mine - its)
        extra = _chosen(extra, [their_patterns[place].text for place in extra], its - mine)
    return _differences(wanted, got, [ours[place] for place in missing], [theirs[place] for place in extra])


def describe_differences(differences: Differences, rules: Rules) -> dict[str, Any]:
    """The evidence, by table: a few of the rows that are missing or extra, and which fields of which rows differ."""
    tables: dict[str, Any] = {}
    places = (*differences.missing, *differences.extra)
    for table in sorted({place.table for place in places}):
        missing = [place.row for place in differences.missing if place.table == table]
        extra = [place.row for place in differences.extra if place.table == table]
        changed = _same_rows(table, missing, extra, rules)
        found = {
            "missing": missing[:SHOWN_ROWS],
            "extra": extra[:SHOWN_ROWS],
            "differing": changed[:SHOWN_ROWS],
            "missing_rows": len(missing),
            "extra_rows": len(extra),
            "differing_rows": len(changed),
        }
        tables[table] = {name: value for name, value in found.items() if value}
    return tables


def _differences(wanted: Changes, got: Changes, unadded: list[Place], added: list[Place]) -> Differences:
    """Everything that differs, given which added rows do: what the reference removed has no names of its own."""
    should_go, went = _removed(wanted), _removed(got)
    stayed, lost = _without(should_go, went), _without(went, should_go)
    return Differences(
        missing=[*unadded, *lost],
        extra=[*added, *stayed],
        wanted=len(_added(wanted)) + len(should_go),
        undone=len(unadded) + len(stayed),
        damage=len(added) + len(lost),
    )


def _same_rows(table: str, missing: list[Row], extra: list[Row], rules: Rules) -> list[dict[str, Any]]:
    """Rows that are in both lists by their key, as the fields in which they differ. They leave the lists."""
    twins: dict[bytes, list[int]] = {}
    for place, row in enumerate(extra):
        if (key := rules.key_of(table, row)) is not None:
            twins.setdefault(encode_row([key, row[key]]), []).append(place)
    found = []
    alone, taken = [], set()
    for row in missing:
        key = rules.key_of(table, row)
        places = twins.get(encode_row([key, row.get(key or "")]))
        if key is None or not places:
            alone.append(row)
            continue
        place = places.pop(0)
        taken.add(place)
        twin = extra[place]
        fields = {
            name: {"wanted": row.get(name), "got": twin.get(name)}
            for name in sorted(row.keys() | twin.keys())
            if name not in row or name not in twin or row[name] != twin[name]
        }
        found.append({"key": {key: row[key]}, "fields": fields})
    missing[:] = alone
    extra[:] = [row for place, row in enumerate(extra) if place not in taken]
    return found


def _plain(row: Mapping[str, Any], ignored: frozenset[str]) -> Row:
    return {name: _one_way(value) for name, value in row.items() if name not in ignored}


def _one_way(value: Any) -> Any:
    """JSON has one kind of number: 5 and 5.0 are the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_one_way(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _one_way(inner) for name, inner in value.items()}
    return value


def _chosen(things: Iterable[T], keys: Iterable[Hashable], counts: Counter[Any]) -> list[T]:
    """So many of the things as their keys are counted."""
    left = Counter(counts)
    chosen = []
    for thing, key in zip(things, keys, strict=True):
        if left[key] > 0:
            left[key] -= 1
            chosen.append(thing)
    return chosen


def _without(places: list[Place], others: list[Place]) -> list[Place]:
    """The rows that are not among the others; a row that is there twice needs two."""
    keys = [(place.table, encode_row(place.row)) for place in places]
    return _chosen(places, keys, Counter(keys) - Counter((other.table, encode_row(other.row)) for other in others))


def _added(changes: Changes) -> list[Place]:
    return [Place(table, row) for table in sorted(changes) for row in changes[table].added]


def _removed(changes: Changes) -> list[Place]:
    return [Place(table, row) for table in sorted(changes) for row in changes[table].removed]
