"""Endpoints about trajectories: the table, and one of them."""

from __future__ import annotations

import msgspec
from anyio import to_thread

from rollout.viewer.answers.pages import TrajectoryPage
from rollout.viewer.answers.rows import Neighbours, Queue, TrajectoryList
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.errors import RequestRefused
from rollout.viewer.index.queries import TableQuery, TrajectoryQuery
from rollout.viewer.index.table import QueueKind, find_neighbours, make_queue, read_table
from rollout.viewer.pages.trajectory_page import make_page, read_trajectory


class OneTrajectory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trajectory."""

    dataset: str
    id: str


class NeighboursQuery(TrajectoryQuery, frozen=True, kw_only=True):
    """A trajectory and a query."""

    id: str
    of: str | None = None
    """The trajectory's dataset. Without it, the first `dataset` is used for this, and only further ones filter."""


class QueueQuery(TrajectoryQuery, frozen=True, kw_only=True):
    """The choice of trajectories to review."""

    kind: QueueKind = "sample"
    n: int = 50
    seed: int = 0


async def list_trajectories(call: ApiCall) -> TrajectoryList:
    """A page of the table."""
    run, query = call.run, call.query
    return await to_thread.run_sync(read_table, run, query)


async def show_neighbours(call: ApiCall) -> Neighbours:
    """The trajectories before and after one in the order of a query."""
    run, query = call.run, call.query
    dataset = query.of
    if dataset is None:
        if not query.dataset:
            raise RequestRefused(400, "of: expected the dataset of the trajectory")
        dataset, *others = query.dataset
        query = msgspec.structs.replace(query, dataset=tuple(others))
    return await to_thread.run_sync(find_neighbours, run, dataset, query.id, query)


async def show_queue(call: ApiCall) -> Queue:
    """Trajectories to review."""
    run, query = call.run, call.query
    return await to_thread.run_sync(make_queue, run, query.kind, query.n, query, query.seed)


async def show_trajectory(call: ApiCall) -> TrajectoryPage:
    """One trajectory."""
    run, query = call.run, call.query
    is_reader = call.viewer.read_only
    return await to_thread.run_sync(
        lambda: make_page(run, read_trajectory(run, query.dataset, query.id), is_reader=is_reader)
    )


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/trajectories",
        summary="A page of the table of trajectories",
        handle=list_trajectories,
        answer=TrajectoryList,
        query=TableQuery,
    ),
    Endpoint(
        path="runs/{run}/neighbours",
        summary="The trajectories before and after one in the order of a query",
        handle=show_neighbours,
        answer=Neighbours,
        query=NeighboursQuery,
    ),
    Endpoint(
        path="runs/{run}/queue",
        summary="Trajectories to review",
        handle=show_queue,
        answer=Queue,
        query=QueueQuery,
    ),
    Endpoint(
        path="runs/{run}/trajectory",
        summary="One trajectory",
        handle=show_trajectory,
        answer=TrajectoryPage,
        query=OneTrajectory,
    ),
)
