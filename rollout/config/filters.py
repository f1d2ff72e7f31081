"""The keys under `filters`: a filter's name, and its parameters.

A filter brings its own parameters: its class *is* a section of the configuration. So a configuration holds the keys of
each filter as they were given, and the class checks them. It is found by name: a built-in filter of the table below, an
entry point of the group `rollout.filters`, or `module:Name`. Classes are loaded when their names are met.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from rollout.config.problems import describe_problems, shown_key
from rollout.config.section import Section
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from rollout.core.spelling import suggest

GROUP: Literal["rollout.filters"] = "rollout.filters"
BUILT_IN = {
    "void_turns": "rollout.trajectories.filters.faults:VoidTurns",
    "premature_end": "rollout.trajectories.filters.faults:PrematureEnd",
    "repetition": "rollout.trajectories.filters.faults:Repetition",
    "malformed_calls": "rollout.trajectories.filters.faults:MalformedCalls",
    "unknown_tools": "rollout.trajectories.filters.faults:UnknownTools",
    "length_truncated": "rollout.trajectories.filters.faults:LengthTruncated",
    "leaked_markers": "rollout.trajectories.filters.leaks:LeakedMarkers",
    "infrastructure_errors": "rollout.trajectories.filters.endings:InfrastructureErrors",
    "overlong": "rollout.trajectories.filters.endings:Overlong",
    "person": "rollout.trajectories.filters.people:MarkedByPeople",
    "near_duplicates": "rollout.trajectories.filters.duplicates:NearDuplicates",
    "constant_groups": "rollout.trajectories.filters.groups:ConstantGroups",
    "accuracy_band": "rollout.trajectories.filters.groups:AccuracyBand",
}
"""The filters that are on by default, in the order in which they are listed. Others are on where they are named."""


def _shorthand(value: Any) -> Any:
    """`name: false` is `name: {enabled: false}`; `name: keep` is `name: {policy: keep}`."""
    if isinstance(value, bool):
        return {"enabled": value}
    return {"policy": value} if isinstance(value, str) else value


class Filters(Section):
    """What is not to be learnt: marks over finished trajectories, made by `rollout filter`.

    A filter of your own is a key, too: the name of its entry point, or `module:Name`.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[Any, BeforeValidator(_shorthand)]]

    counts_in_group: bool = True
    """Whether a trajectory that is dropped still counts in the statistics of its group (SimpleTIR)."""

    @property
    def given(self) -> Mapping[str, Any]:
        """What was given for each filter that was named: its keys, unless that is a mistake."""
        return self.__pydantic_extra__

    def over(self, base: Filters) -> Filters:
        """These keys, as far as they were given; the rest is the other's."""
        merged = {name: _merged(base.given.get(name), keys) for name, keys in self.given.items()}
        own = {"counts_in_group": self.counts_in_group} if "counts_in_group" in self.model_fields_set else {}
        return Filters.model_validate({**base.model_dump(), **merged, **own})

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A default must not become a choice by being saved."""
        saved: dict[str, Any] = handler(self)
        return {name: value for name, value in saved.items() if name in self.model_fields_set}


def _merged(base: Any, keys: Any) -> Any:
    return {**base, **keys} if isinstance(base, dict) and isinstance(keys, dict) else keys


def find_filter(name: str) -> type[Section]:
    """The class of a filter, which holds its parameters. Raises ConfigError."""
    found = find_plugin(GROUP, BUILT_IN.get(name, name))
    if found is None:
        known = sorted(["counts_in_group", *filter_names()])
        raise ConfigError(f"there is no such key; {suggest(name, known, 'known keys', cutoff=0.5)}")
    if not (isinstance(found, type) and issubclass(found, Section) and {"enabled", "policy"} <= {*found.model_fields}):
        raise ConfigError("is no filter; expected a subclass of a class of rollout.trajectories.filters.filter")
    return found


def filter_names() -> list[str]:
    """The built-in filters, and those that installed packages offer."""
    return [*BUILT_IN, *(point.name for point in entry_points(group=GROUP))]


def filter_problems(filters: Filters, under: str | None = None) -> list[str]:
    """What is wrong with the keys that were given, each with the key, which lies `under` another."""
    problems: list[str] = []
    for name, keys in filters.given.items():
        key = shown_key(name) if under is None else f"{under}.{shown_key(name)}"
        try:
            section = find_filter(name)
        except ConfigError as error:
            problems.append(f"{key}: {error}")
            continue
        try:
            section.model_validate(keys)
        except ValidationError as error:
            problems += describe_problems(error, section, key)
    return problems


def read_filters(filters: Filters) -> dict[str, Section]:
    """Every filter with its parameters, those that are off included: the built-in ones, then the others that are named.
    Raises ConfigError."""
    problems = filter_problems(filters, "filters")
    if problems:
        raise ConfigError("; ".join(problems))
    names = dict.fromkeys([*BUILT_IN, *filters.given])
    return {name: find_filter(name).model_validate(filters.given.get(name, {})) for name in names}
