"""Responses about whole runs: the list, one run, its series over time, and the values to filter its table by."""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON
from rollout.pipelines.runs.stats import DatasetStats


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The server and its user."""

    version: str
    author: str
    """The login name, which is the default author of marks and corrections."""
    read_only: bool
    runs: int
    can_grow: bool


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the list."""

    name: str
    """Its short name in addresses."""
    path: str
    title: str
    """Its path below the folder that the server was given."""
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
    """Attempts that have ended without failing."""
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
    """The value for `cause=` in a query of trajectories."""
    text: str
    hint: str | None
    count: int


class RankCount(msgspec.Struct, frozen=True):
    """The trajectories of one rank of a cluster."""

    rank: int
    finished: int
    failed: int
    solved: int
    scored: int
    cost: float
    mean_reward: float | None


class IndexState(msgspec.Struct, frozen=True):
    """Progress of the index of a run."""

    rows: int
    of: int
    is_ready: bool
    problem: str | None = None
    """Why there is no index, or why it is not updated."""


class FacetValue(msgspec.Struct, frozen=True):
    """A value, and the number of trajectories with it."""

    value: str
    count: int


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """The values to filter the table of trajectories by, the most frequent first."""

    outcomes: tuple[FacetValue, ...] = ()
    """As `success` of a query: `1`, `0` or `none`."""
    datasets: tuple[FacetValue, ...] = ()
    statuses: tuple[FacetValue, ...] = ()
    stop_reasons: tuple[FacetValue, ...] = ()
    models: tuple[FacetValue, ...] = ()
    tools: tuple[FacetValue, ...] = ()
    scores: tuple[FacetValue, ...] = ()
    marks: tuple[FacetValue, ...] = ()
    """Kinds of people's marks, and marks that the engine set during attempts."""
    labels: tuple[FacetValue, ...] = ()
    authors: tuple[FacetValue, ...] = ()
    filters: tuple[FacetValue, ...] = ()


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    row: RunRow
    total: DatasetStats
    datasets: tuple[DatasetStats, ...]
    sampled: int | None
    """The number of attempts whose steps were read; None if all were."""
    causes: tuple[CauseCount, ...]
    filters: dict[str, int]
    """The number of trajectories that each filter of `rollout filter` marked."""
    ranks: tuple[RankCount, ...]
    index: IndexState
    facets: Facets
    config: JSON


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A run over time: its figures at up to 200 moments."""

    t: tuple[float, ...]
    finished: tuple[int, ...]
    """Trajectories that had ended without failing."""
    failed: tuple[int, ...]
    solved: tuple[float | None, ...]
    """The share of the scored ones that were solved."""
    mean_reward: tuple[float | None, ...]
    turns: tuple[float | None, ...]
    """The mean, like the next two."""
    tool_calls: tuple[float | None, ...]
    tokens: tuple[float | None, ...]
    cost: tuple[float, ...]
    """Dollars so far."""
    latency_p50: tuple[float | None, ...]
    """Seconds of an answer of the model, over the last 2,000 answers; None where they were not measured."""
    latency_p90: tuple[float | None, ...]
    latency_p99: tuple[float | None, ...]
