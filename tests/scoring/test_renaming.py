"""Rows compared up to the names of what was made: the same exactly where some renaming makes them so."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.scoring.renaming import Pattern, unmatched

NAMES = ("u1", "u2", "u3", "u4")
rows = st.builds(
    Pattern,
    st.sampled_from(("Booking x", "Booking y", "Guest")),
    st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
)


def some_renaming_makes_them_equal(wanted: list[Pattern], got: list[Pattern]) -> bool:
    ours = sorted({name for row in wanted for name in row.made}, key=str)
    theirs = sorted({name for row in got for name in row.made}, key=str)
    if len(ours) != len(theirs):
        return False
    target = Counter((row.text, row.made) for row in got)
    for order in itertools.permutations(theirs):
        rename = dict(zip(ours, order, strict=True))
        if Counter((row.text, tuple(rename[name] for name in row.made)) for row in wanted) == target:
            return True
    return False


def are_same(wanted: list[Pattern], got: list[Pattern]) -> bool:
    missing, extra = unmatched(wanted, got)
    return not missing and not extra


@settings(max_examples=600)
@given(st.lists(rows, max_size=5), st.lists(rows, max_size=5))
def test_same_exactly_where_some_renaming_exists(wanted: list[Pattern], got: list[Pattern]) -> None:
    assert are_same(wanted, got) == some_renaming_makes_them_equal(wanted, got)


@settings(max_examples=300)
@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 2**32), st.data())
def test_one_link_changed_after_renaming_is_seen_as_brute_force_sees_it(
    wanted: list[Pattern], seed: int, data: st.DataObject
) -> None:
    chance = random.Random(seed)
    rename = dict(zip(NAMES, chance.sample(("v1", "v2", "v3", "v4"), 4), strict=True))
    got = [Pattern(row.text, tuple(rename[str(name)] for name in row.made)) for row in wanted]
    chance.shuffle(got)
    assert are_same(wanted, got)
    linked = [place for place, row in enumerate(got) if row.made]
    if linked:
        place = data.draw(st.sampled_from(linked))
        spot = data.draw(st.integers(0, len(got[place].made) - 1))
        made = [*got[place].made]
        made[spot] = data.draw(st.sampled_from(("v1", "v2", "v3", "v4")))
        got[place] = Pattern(got[place].text, tuple(made))
        assert are_same(wanted, got) == some_renaming_makes_them_equal(wanted, got)


def test_rows_that_refinement_cannot_tell_apart_are_still_compared_exactly() -> None:
    """Two rings of three and one ring of six look alike from every row; they are not the same."""

    def ring(*names: str) -> list[Pattern]:
        return [Pattern("Next", pair) for pair in zip(names, (*names[1:], names[0]), strict=True)]

    # A common row ties each side into one cluster, so that clusters alone do not give the answer.
    tie = [Pattern("All", tuple("abcdef"))]
    split = [*ring("a", "b", "c"), *ring("d", "e", "f")]
    whole = ring("a", "b", "c", "d", "e", "f")
    hub = [Pattern("Of", ("hub", name)) for name in "abcdef"]
    assert not are_same([*split, *hub], [*whole, *hub])
    assert are_same([*whole, *hub], [*ring("c", "a", "e", "b", "f", "d"), *hub])
    assert not are_same([*split, *tie], [*whole, *tie])


def test_unmatched_rows_are_named_and_a_row_that_is_there_twice_needs_two() -> None:
    one, two = Pattern("Loan a", ("x",)), Pattern("Loan b", ("y",))
    assert unmatched([one, one, two], [Pattern("Loan b", ("q",)), Pattern("Loan a", ("r",))]) == ([0, 1], [1])
    assert unmatched([Pattern("Fee")] * 2, [Pattern("Fee")]) == ([1], [])


def test_many_rows_alike_are_compared_quickly() -> None:
    parents = [Pattern("Order", (f"o{number}",)) for number in range(400)]
    children = [Pattern("Item", (f"i{number}", f"o{number % 400}")) for number in range(800)]
    hub = [Pattern("Of", ("cart", f"o{number}")) for number in range(60)]
    wanted = [*parents, *children, *hub]
    got = [Pattern(row.text, tuple(f"z{name}" for name in row.made)) for row in reversed(wanted)]
    assert are_same(wanted, got)
    got[0] = Pattern("Of", ("zcart", "zo0"))
    assert not are_same(wanted, got)
