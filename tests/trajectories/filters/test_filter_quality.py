"""How well each filter does on its labelled set, and that the documentation says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.filters import row
from tests.trajectories.filters.labelled import labelled_sets, measure, split

FLOORS = {
    "void_turns": (0.95, 0.93),
    "malformed_calls": (0.95, 0.85),
    "length_truncated": (1.0, 1.0),
    "premature_end": (0.94, 0.99),
    "repetition": (0.98, 0.97),
    "unknown_tools": (1.0, 1.0),
    "leaked_markers": (0.97, 0.87),
    "infrastructure_errors": (1.0, 1.0),
    "overlong": (1.0, 1.0),
    "near_duplicates": (0.99, 0.85),
}


@pytest.mark.parametrize("name", FLOORS)
def test_filter_keeps_its_precision_and_recall(name: str) -> None:
    cases = list(labelled_sets()[name]())
    whole = measure(name, cases)
    assert whole.faults + whole.near_misses >= 300
    assert whole.near_misses >= 0.45 * (whole.faults + whole.near_misses)
    for part in (whole, measure(name, split(name, cases)[1])):
        assert part.precision >= FLOORS[name][0]
        assert part.recall >= FLOORS[name][1]


def test_documentation_has_the_measured_figures() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "filters.md").read_text().splitlines()
    assert set(FLOORS) == set(labelled_sets())
    for name in FLOORS:
        assert row(name) in page
