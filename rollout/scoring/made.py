"""Values in changed rows that the world made at run time: they may be named otherwise without being wrong.

Two kinds count as made. *Keys of new rows*: the value that identifies a row that was not there before. *What depends on
the seed*: the reference is played in a second world with another seed, and what comes out otherwise there was drawn by
the world (an id, a confirmation code, also inside a text). Not made, whatever it looks like: a value that was there
before, one that was given (it stood in the arguments of a call before any tool had told it), and a key put together
from such. So a wrong phone number or a wrong user name is never taken for a mere name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rollout.core.changes import Changes, Row
from rollout.core.task import Task
from rollout.scoring.calls import Called
from rollout.scoring.renaming import Pattern, Value, make_pattern
from rollout.scoring.rules import Rules
from rollout.tasks.naming import fold

MARK = "\ue000"
_WORD = re.compile(r"\w[\w-]*")
_PIECE = re.compile(r"[^\W_]+")
Path = tuple[str | int, ...]


class DrawnValue(msgspec.Struct, frozen=True):
    """What the reference shows to depend on the seed: the values themselves, and where such values stand."""

    words: frozenset[str] = frozenset()
    texts: frozenset[tuple[str, Path, int, int]] = frozenset()
    """Words of texts: table, path, number of words in the text, which of them."""
    numbers: frozenset[float] = frozenset()
    cells: frozenset[tuple[str, Path]] = frozenset()
    """Numbers: table, path."""


class Made(msgspec.Struct, frozen=True):
    """The made values of one side of a comparison."""

    words: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    """Whole numbers that are ids: made only where an id may stand."""
    drawn: frozenset[float] = frozenset()
    """Other numbers: made only in `cells`."""
    cells: frozenset[tuple[str, Path]] = frozenset()

    def pattern(self, table: str, row: Row) -> Pattern:
        """A row with its made values taken out."""
        taken: list[Value] = []
        return make_pattern(table, self._take(table, (), row, taken), tuple(taken))

    def _take(self, table: str, path: Path, value: Any, taken: list[Value]) -> Any:
        if isinstance(value, dict):
            return {name: self._take(table, (*path, name), value[name], taken) for name in sorted(value)}
        if isinstance(value, list):
            return [self._take(table, (*path, place), inner, taken) for place, inner in enumerate(value)]
        if isinstance(value, str):
            return self._take_words(value, taken)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        is_drawn = value in self.drawn and (table, path) in self.cells
        if is_drawn or (value in self.numbers and _is_id_field(path)):
            taken.append(value)
            return MARK
        return value

    def _take_words(self, text: str, taken: list[Value]) -> str:
        if text in self.words:
            taken.append(text)
            return MARK

        def take(match: re.Match[str]) -> str:
            word = match.group()
            if word not in self.words:
                return word
            taken.append(word)
            return MARK

        return _WORD.sub(take, text)


def find_drawn(once: Changes, again: Changes) -> DrawnValue:
    """What the same actions give in one world and not in another of another seed."""
    common = _parts_of(_added(once)) & _parts_of(_added(again))
    words: set[str] = set()
    texts: set[tuple[str, Path, int, int]] = set()
    numbers: set[float] = set()
    cells: set[tuple[str, Path]] = set()
    for table, path, value in _cells(once):
        if isinstance(value, str):
            found = _WORD.findall(value)
            places = [at for at, word in enumerate(found) if word not in common]
            words.update(found[at] for at in places)
            texts.update((table, path, len(found), at) for at in places)
        elif _is_number(value) and value not in common:
            numbers.add(value)
            cells.add((table, path))
    return DrawnValue(frozenset(words), frozenset(texts), frozenset(numbers), frozenset(cells))


def find_made(
    task: Task, calls: Sequence[Called], wanted: Changes, got: Changes, drawn: DrawnValue, rules: Rules
) -> tuple[Made, Made]:
    """What was made in the reference's world and in the agent's, out of what they changed."""
    old = _parts_of(row for changes in (wanted, got) for change in changes.values() for row in change.removed)
    given_to_us = {str(value) for action in task.actions or () for value in _given(action.arguments)}
    given_to_them = _given_before_told(calls)
    ours = _unless(given_to_us, {*_new_keys(wanted, rules, given_to_us), *drawn.words} - old)
    theirs = _unless(given_to_them, {*_new_keys(got, rules, given_to_them), *_drawn_words(got, drawn)} - old)
    # What one side holds as a plain value cannot be a mere name on the other.
    plain_ours, plain_theirs = (_parts_of(_added(changes)) for changes in (wanted, got))
    while (common := ((plain_ours - ours) & theirs) | ((plain_theirs - theirs) & ours)) != set():
        ours, theirs = ours - common, theirs - common
    our_numbers = _unless(given_to_us, set(drawn.numbers) - old)
    their_numbers = _unless(given_to_them, set(_drawn_numbers(got, drawn)) - old)
    return _made(ours, our_numbers, drawn), _made(theirs, their_numbers, drawn)


def _unless(given: set[str], values: set[Any]) -> set[Any]:
    return {value for value in values if str(value) not in given}


def _added(changes: Changes) -> Iterator[Row]:
    return (row for change in changes.values() for row in change.added)


def _parts_of(rows: Iterable[Row]) -> set[Value]:
    """Every value in these rows, and every word of their texts."""
    return {part for row in rows for _, value in _leaves(row) for part in _parts(value)}


def _drawn_words(changes: Changes, drawn: DrawnValue) -> Iterator[str]:
    """The words that stand where the reference's world had drawn one."""
    for table, path, value in _cells(changes):
        if isinstance(value, str):
            words = _WORD.findall(value)
            yield from (word for at, word in enumerate(words) if (table, path, len(words), at) in drawn.texts)


def _drawn_numbers(changes: Changes, drawn: DrawnValue) -> Iterator[float]:
    """The numbers that stand where the reference's world had drawn one."""
    for table, path, value in _cells(changes):
        if (table, path) in drawn.cells and _is_number(value):
            yield value


def _cells(changes: Changes) -> Iterator[tuple[str, Path, Any]]:
    """Every value of an added row, with where it stands."""
    for table, change in changes.items():
        for row in change.added:
            yield from ((table, path, value) for path, value in _leaves(row))


def _made(values: set[Value], numbers: set[float], drawn: DrawnValue) -> Made:
    return Made(
        frozenset(value for value in values if isinstance(value, str)),
        frozenset(value for value in values if isinstance(value, int)),
        frozenset(numbers),
        drawn.cells,
    )


def _new_keys(changes: Changes, rules: Rules, given: set[str]) -> Iterator[Value]:
    """The values that identify rows which were not there before, but for those that are made of what was given."""
    for table, change in changes.items():
        before = {row[key] for row in change.removed if (key := rules.key_of(table, row)) and _is_name(row[key])}
        for row in change.added:
            key = rules.key_of(table, row)
            if key is None or not _is_name(row[key]) or row[key] in before:
                continue
            if given.isdisjoint(_PIECE.findall(str(row[key]))):
                yield row[key]


def _given_before_told(calls: Sequence[Called]) -> set[str]:
    """What the agent put into a call before any tool had told it."""
    given: set[str] = set()
    told: list[str] = []
    for called in calls:
        for value in map(str, _given(called.arguments or {})):
            if value not in given and not any(value in text for text in told):
                given.add(value)
        told.append(called.answer.content or "")
    return given


def _given(arguments: Any) -> Iterator[Value]:
    """Every value in arguments but those that are read from an earlier result."""
    if isinstance(arguments, dict):
        if set(arguments) != {"$from"}:
            for inner in arguments.values():
                yield from _given(inner)
    elif isinstance(arguments, list):
        for inner in arguments:
            yield from _given(inner)
    else:
        yield from _parts(arguments)


def _parts(value: Any) -> Iterator[Value]:
    """A value and, of a text, its words."""
    if _is_number(value):
        yield value
    elif isinstance(value, str) and value:
        yield value
        yield from _WORD.findall(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return (isinstance(value, str) and value != "") or (isinstance(value, int) and not isinstance(value, bool))


def _is_id_field(path: Path) -> bool:
    """Whether a number at this path may be an id; elsewhere an equal number is just a number."""
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    return fold(name).endswith(("id", "ids"))


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    else:
        yield path, value
