"""Precision and recall of each filter on its labelled set: the table of docs/reference/filters.md.

python -m benchmarks.filters              # the table
python -m benchmarks.filters repetition   # what that filter gets wrong, too
"""

from __future__ import annotations

import sys

from tests.trajectories.filters.labelled import Case, labelled_sets, measure, mistakes, split

HEADER = """| filter | turns | faults | near misses | precision | recall | held out: turns | precision | recall |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""


def row(name: str) -> str:
    """A filter's line of the table."""
    cases = list(labelled_sets()[name]())
    _, held = split(name, cases)
    all_, kept = measure(name, cases), measure(name, held)
    numbers = [all_.faults + all_.near_misses, all_.faults, all_.near_misses, *_shares(all_.precision, all_.recall)]
    numbers += [kept.faults + kept.near_misses, *_shares(kept.precision, kept.recall)]
    return " | ".join([f"| `{name}`", *map(str, numbers)]) + " |"


def _shares(precision: float, recall: float) -> list[str]:
    return [f"{precision:.3f}", f"{recall:.3f}"]


def main() -> None:
    print(HEADER)
    for name in labelled_sets():
        print(row(name))
    for name in sys.argv[1:]:
        for case, turn, label in mistakes(name, labelled_sets()[name]()):
            print(f"{name}: {'missed' if label else 'wrongly marked'}: {_told(case, turn)!r}")


def _told(case: Case, turn: int | None) -> str:
    return f"{case.template} (turn {turn})"


if __name__ == "__main__":
    main()
