"""Labelled turns for each filter: what it should find, and what only looks like it.

The labels follow the definitions in docs/reference/filters.md ("What counts"), not the code. About half of each set are
near misses. Cases are made from hand-written templates in several contexts; a third of the templates, chosen by hash,
is held out: filters were never adjusted on those. `measure` gives precision and recall on either part.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from rollout.config.filters import Filters
from rollout.config.schema import Config
from rollout.pipelines.wiring.active_filters import FiltersByDataset, make_filters
from rollout.trajectories.filters.filter import TrajectoryFilter
from rollout.trajectories.filters.filtering import ActiveFilter, Filtering
from rollout.trajectories.filters.turns import read_turns
from rollout.trajectories.trajectory import Trajectory

HELD_OUT = 3
"""One template in this many is held out."""
HARD = "hard "
"""Templates that begin so were written to break the filters, after these were adjusted: all of them are held out."""


class Case(msgspec.Struct, frozen=True):
    """A trajectory of which some turns are labelled."""

    template: str
    """What it is made from; decides whether it is held out."""
    trajectory: Trajectory
    labels: Mapping[int | None, bool]
    """Whether the filter should mark the turn; under None, whether it should mark the trajectory as a whole."""
    beside: tuple[Trajectory, ...] = ()
    """Trajectories that are filtered together with it, for filters that compare."""
    params: Mapping[str, Any] = {}
    """Parameters of the filter, where they are not the defaults."""


class Measured(msgspec.Struct, frozen=True):
    """What a filter did on a labelled set."""

    faults: int = 0
    near_misses: int = 0
    found: int = 0
    """Faults that it marked."""
    wrong: int = 0
    """Marks where there is no fault."""

    @property
    def precision(self) -> float:
        marked = self.found + self.wrong
        return self.found / marked if marked else 1.0

    @property
    def recall(self) -> float:
        return self.found / self.faults if self.faults else 1.0


def is_held_out(name: str, template: str) -> bool:
    """Whether a template belongs to the part that nothing was adjusted on."""
    if template.startswith(HARD):
        return True
    return hashlib.blake2b(f"{name}/{template}".encode("utf-8", "replace"), digest_size=2).digest()[0] % HELD_OUT == 0


def labelled_sets() -> dict[str, Callable[[], Iterable[Case]]]:
    """The sets by the names of the filters."""
    from tests.trajectories.filters.labelled import calls, duplicates, endings, hard, leaks, premature, repetition, void

    return {
        "void_turns": lambda: chain(void.cases(), hard.void()),
        "malformed_calls": lambda: chain(calls.malformed(), hard.malformed()),
        "length_truncated": endings.truncated,
        "premature_end": premature.cases,
        "repetition": lambda: chain(repetition.cases(), hard.repeated()),
        "unknown_tools": calls.unknown,
        "leaked_markers": lambda: chain(leaks.cases(), hard.leaked()),
        "infrastructure_errors": endings.broken,
        "overlong": endings.overlong,
        "near_duplicates": duplicates.cases,
    }


@functools.cache
def _filters(name: str) -> FiltersByDataset:
    return FiltersByDataset(Config.model_validate({"filters": {name: {}}}))


_made: dict[tuple[str, str], ActiveFilter[TrajectoryFilter]] = {}


def _active(name: str, key: str, params: Mapping[str, Any]) -> ActiveFilter[TrajectoryFilter]:
    if (name, key) not in _made:
        rules = make_filters(Filters.model_validate({name: dict(params)}))
        _made[name, key] = next(one for one in rules.own if one.name == name)
    return _made[name, key]


def marks_of(name: str, case: Case) -> set[int | None]:
    """The turns of a case that a filter marks."""
    if name == "near_duplicates":
        filtering = Filtering(_filters(name).of)
        for trajectory in (*case.beside, case.trajectory):
            filtering.add(trajectory)
        return {
            mark.turn
            for record in filtering.records()
            if record.id == case.trajectory.id
            for mark in record.marks
            if mark.filter == name
        }
    active = _active(name, repr(case.params), case.params)
    return {found.turn for found in active.filter.find(case.trajectory, read_turns(case.trajectory))}


def mistakes(name: str, cases: Iterable[Case]) -> Iterator[tuple[Case, int | None, bool]]:
    """The labels that a filter does not agree with, each with what the label says."""
    for case in cases:
        marked = marks_of(name, case)
        for turn, label in case.labels.items():
            if (turn in marked) != label:
                yield case, turn, label
        for turn in marked - set(case.labels):
            yield case, turn, False


def measure(name: str, cases: Iterable[Case]) -> Measured:
    """Count what a filter finds."""
    faults = near_misses = found = wrong = 0
    for case in cases:
        marked = marks_of(name, case)
        faults += sum(case.labels.values())
        near_misses += sum(not label for label in case.labels.values())
        found += sum(label and turn in marked for turn, label in case.labels.items())
        wrong += sum(not case.labels.get(turn, False) for turn in marked)
    return Measured(faults, near_misses, found, wrong)


def split(name: str, cases: Iterable[Case]) -> tuple[list[Case], list[Case]]:
    """The part that filters may be adjusted on, and the part held out."""
    parts: tuple[list[Case], list[Case]] = ([], [])
    for case in cases:
        parts[is_held_out(name, case.template)].append(case)
    return parts
