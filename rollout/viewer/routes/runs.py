"""Endpoints about whole runs."""

from __future__ import annotations

import msgspec
from anyio import to_thread

from rollout.pipelines.runs.diff import RunDiff, compare_runs
from rollout.viewer.answers.pages import FirstDifference
from rollout.viewer.answers.runs import Me, RunPage, RunRow, Series
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.pages.first_difference import find_first_difference
from rollout.viewer.pages.run_page import read_run_page, read_series
from rollout.viewer.pages.trajectory_page import read_trajectory


async def me(call: ApiCall) -> Me:
    """The server and its user."""
    viewer = call.viewer
    runs = await to_thread.run_sync(viewer.runs.look)
    return Me(
        version=viewer.version,
        author=viewer.author,
        read_only=viewer.read_only,
        runs=len(runs),
        can_grow=not viewer.read_only,
    )


async def list_runs(call: ApiCall) -> list[RunRow]:
    """The runs, newest first."""

    def read() -> list[RunRow]:
        rows = [run.row() for run in call.viewer.runs.look()]
        return sorted(rows, key=lambda row: (-(row.started or 0.0), row.name))

    return await to_thread.run_sync(read)


async def show_run(call: ApiCall) -> RunPage:
    """One run."""
    return await to_thread.run_sync(read_run_page, call.run)


class SeriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of a series."""

    dataset: str | None = None


async def show_series(call: ApiCall) -> Series:
    """A run over time."""
    return await to_thread.run_sync(read_series, call.run, call.query.dataset)


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The two runs to compare."""

    first: str
    second: str


async def show_diff(call: ApiCall) -> RunDiff:
    """Two runs compared task by task."""
    runs, query = call.viewer.runs, call.query
    first, second = runs.get(query.first), runs.get(query.second)

    def read() -> RunDiff:
        with first.reading() as ours, second.reading() as theirs:
            return compare_runs(ours, theirs)

    return await to_thread.run_sync(
        lambda: first.read_once(f"diff {second.name}", read, (first.version(), second.version()))
    )


class PartingQuery(RunsQuery, frozen=True, kw_only=True):
    """The two attempts to compare."""

    first_id: str
    second_id: str
    dataset: str
    """The dataset of the first, and of the second unless `second_dataset` is given."""
    second_dataset: str | None = None


async def show_parting(call: ApiCall) -> FirstDifference:
    """The first difference between two attempts."""
    runs, query = call.viewer.runs, call.query
    first, second = runs.get(query.first), runs.get(query.second)

    def read() -> FirstDifference:
        ours = read_trajectory(first, query.dataset, query.first_id)
        theirs = read_trajectory(second, query.second_dataset or query.dataset, query.second_id)
        return find_first_difference(ours.trajectory.messages, theirs.trajectory.messages)

    return await to_thread.run_sync(read)


ENDPOINTS = (
    Endpoint(path="me", summary="The server and its user", handle=me, answer=Me),
    Endpoint(path="runs", summary="The runs, newest first", handle=list_runs, answer=list[RunRow]),
    Endpoint(path="runs/{run}", summary="One run with its figures", handle=show_run, answer=RunPage),
    Endpoint(path="runs/{run}/series", summary="A run over time", handle=show_series, answer=Series, query=SeriesQuery),
    Endpoint(path="diff", summary="Two runs compared task by task", handle=show_diff, answer=RunDiff, query=RunsQuery),
    Endpoint(
        path="parting",
        summary="The first difference between two attempts",
        handle=show_parting,
        answer=FirstDifference,
        query=PartingQuery,
    ),
)
