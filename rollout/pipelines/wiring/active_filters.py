"""The filters that a configuration switches on, for each dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rollout.config.filters import BUILT_IN, Filters, read_filters
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.section import Section
from rollout.trajectories.filters.faults import PrematureEnd, Repetition
from rollout.trajectories.filters.filter import ComparingFilter, Filter, GroupFilter, TrajectoryFilter
from rollout.trajectories.filters.filtering import ActiveFilter, ActiveFilters
from rollout.trajectories.filters.marks import Policy

F = TypeVar("F", bound=Filter)


def make_filters(filters: Filters) -> ActiveFilters:
    """The filters that are on, with their parameters. Raises ConfigError."""
    sections = read_filters(filters)
    for name, section in sections.items():
        if not isinstance(section, TrajectoryFilter | ComparingFilter | GroupFilter):
            expected = "TurnFilter, WholeFilter, ComparingFilter or GroupFilter of rollout.trajectories.filters.filter"
            raise ConfigError(f"filters.{name}: is no filter; expected a subclass of {expected}")
    end, repetition = sections["premature_end"], sections["repetition"]
    assert isinstance(end, PrematureEnd)
    assert isinstance(repetition, Repetition)
    return ActiveFilters(
        _active(sections, TrajectoryFilter),
        _active(sections, ComparingFilter),
        _active(sections, GroupFilter),
        filters.counts_in_group,
        end.min_tokens,
        repetition.n,
    )


def _active(sections: Mapping[str, Section], kind: type[F]) -> tuple[ActiveFilter[F], ...]:
    return tuple(
        ActiveFilter(name, section)
        for name, section in sections.items()
        if isinstance(section, kind) and section.enabled
    )


class FiltersByDataset:
    """The filters of each dataset: its own, over those of the whole configuration."""

    def __init__(self, config: Config, wished: Filters | None = None) -> None:
        """`wished`: what goes over all of them, such as options of a command."""
        wished = Filters() if wished is None else wished
        self._whole = make_filters(wished.over(config.filters))
        self._own = {
            name: make_filters(wished.over(dataset.filters.over(config.filters)))
            for name, dataset in config.datasets.items()
            if dataset.filters is not None
        }

    def of(self, dataset: str) -> ActiveFilters:
        return self._own.get(dataset, self._whole)

    def listed(self) -> list[tuple[str, Policy]]:
        """Every filter that is on somewhere, with its policy: the built-in ones first, in their order."""
        found = {
            (active.name, active.policy)
            for filters in (self._whole, *self._own.values())
            for active in (*filters.own, *filters.comparing, *filters.groups)
        }
        order = {name: place for place, name in enumerate(BUILT_IN)}
        return sorted(found, key=lambda entry: (order.get(entry[0], len(order)), *entry))


def named_filters(config: Config) -> list[str]:
    """The built-in filters, and all others that a configuration names."""
    datasets = (dataset.filters for dataset in config.datasets.values() if dataset.filters is not None)
    return list(dict.fromkeys([*BUILT_IN, *config.filters.given, *(name for own in datasets for name in own.given)]))
