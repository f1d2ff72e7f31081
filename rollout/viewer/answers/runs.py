"""Answers about whole runs: the list, one run, its series over time, and what its table can be filtered by."""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON
from rollout.pipelines.runs.stats import DatasetStats
from rollout.viewer.answers.people import Growth


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The server, and who looks."""

    version: str
    author: str
    """The login name, the default for who marks and corrects."""
    read_only: bool
    runs: int
    can_grow: bool


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as the list shows it."""

    name: str
    """Its short name in addresses."""
    path: str
    title: str
    """Its name below the folder that was given."""
    config: str | None
    started: float | None
    updated: float | None
    """When its last trajectory ended."""
    is_live: bool
    model: str | None
    """The models of its agents, separated by commas."""
    user_model: str | None
    planned: int | None
    finished: int
    failed: int
    scored: int
    solved: int
    mean_reward: float | None
    cost: float
    datasets: tuple[str, ...]
    problem: str | None
    """Why it cannot be read, where it is damaged."""


class CauseCount(msgspec.Struct, frozen=True):
    """Attempts that failed for the same reason."""

    key: str
    """What `cause=` in a query of trajectories takes."""
    text: str
    hint: str | None
    count: int


class RankCount(msgspec.Struct, frozen=True):
    """What one rank of a cluster made."""

    rank: int
    finished: int
    failed: int
    solved: int
    scored: int
    cost: float
    mean_reward: float | None


class IndexState(msgspec.Struct, frozen=True):
    """How far the index of a run has come."""

    rows: int
    of: int
    is_ready: bool
    problem: str | None = None
    """Why there is none, or why it is not brought up to date."""


class FacetValue(msgspec.Struct, frozen=True):
    """A value that trajectories have, and how many have it."""

    value: str
    count: int


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """What the table of trajectories can be filtered by, the most frequent first."""

    datasets: tuple[FacetValue, ...] = ()
    statuses: tuple[FacetValue, ...] = ()
    stop_reasons: tuple[FacetValue, ...] = ()
    models: tuple[FacetValue, ...] = ()
    tools: tuple[FacetValue, ...] = ()
    scores: tuple[FacetValue, ...] = ()
    marks: tuple[FacetValue, ...] = ()
    """Kinds of people's marks, and remarks that were made while attempts were live."""
    labels: tuple[FacetValue, ...] = ()
    authors: tuple[FacetValue, ...] = ()
    filters: tuple[FacetValue, ...] = ()


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    row: RunRow
    total: DatasetStats
    datasets: tuple[DatasetStats, ...]
    sampled: int | None
    """Of how many attempts the steps were read; None: of all."""
    causes: tuple[CauseCount, ...]
    filters: dict[str, int]
    """What `rollout filter` found, by filter."""
    ranks: tuple[RankCount, ...]
    index: IndexState
    facets: Facets
    config: JSON
    growths: tuple[Growth, ...] = ()


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A run over time: what it had come to at each of up to 200 moments."""

    t: tuple[float, ...]
    finished: tuple[int, ...]
    """Trajectories that had ended without failing."""
    failed: tuple[int, ...]
    solved: tuple[float | None, ...]
    """The share of the scored ones that were solved."""
    mean_reward: tuple[float | None, ...]
    turns: tuple[float | None, ...]
    """The mean, as of the next two."""
    tool_calls: tuple[float | None, ...]
    tokens: tuple[float | None, ...]
    cost: tuple[float, ...]
    """Dollars so far."""
    latency_p50: tuple[float | None, ...]
    """Seconds of an answer of the model, over the last 2,000 answers; None where they were not measured."""
    latency_p90: tuple[float | None, ...]
    latency_p99: tuple[float | None, ...]
