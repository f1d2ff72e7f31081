"""Endpoints about trajectories: the table, and one of them."""

from __future__ import annotations

import msgspec
from anyio import to_thread

from rollout.viewer.answers.pages import TrajectoryPage
from rollout.viewer.answers.rows import Neighbours, Queue, TrajectoryList
from rollout.viewer.endpoint import Call, Endpoint
from rollout.viewer.errors import Refused
from rollout.viewer.queries import TableQuery, TrajectoryQuery
from rollout.viewer.table import QueueKind, find_neighbours, make_queue, read_table
from rollout.viewer.trajectory_page import make_page, read_trajectory


class OneTrajectory(msgspec.Struct, frozen=True, kw_only=True):
    """Which trajectory is asked for."""

    dataset: str
    id: str


class NeighboursQuery(TrajectoryQuery, frozen=True, kw_only=True):
    """Beside which trajectory, in which query."""

    id: str
    of: str | None = None
    """Its dataset. Without it the first `dataset` is meant, and only further ones are a filter."""


class QueueQuery(TrajectoryQuery, frozen=True, kw_only=True):
    """Which trajectories are to be looked at."""

    kind: QueueKind = "sample"
    n: int = 50
    seed: int = 0


async def list_trajectories(call: Call) -> TrajectoryList:
    """A part of the table."""
    run, query = call.run, call.query
    return await to_thread.run_sync(read_table, run, query)


async def show_neighbours(call: Call) -> Neighbours:
    """What lies beside a trajectory in a query."""
    run, query = call.run, call.query
    dataset = query.of
    if dataset is None:
        if not query.dataset:
            raise Refused(400, "of: expected the dataset of the trajectory")
        dataset, *others = query.dataset
        query = msgspec.structs.replace(query, dataset=tuple(others))
    return await to_thread.run_sync(find_neighbours, run, dataset, query.id, query)


async def show_queue(call: Call) -> Queue:
    """Trajectories to be looked at."""
    run, query = call.run, call.query
    return await to_thread.run_sync(make_queue, run, query.kind, query.n, query, query.seed)


async def show_trajectory(call: Call) -> TrajectoryPage:
    """One trajectory."""
    run, query = call.run, call.query
    return await to_thread.run_sync(lambda: make_page(run, read_trajectory(run, query.dataset, query.id)))


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/trajectories",
        summary="A part of the table of trajectories",
        handle=list_trajectories,
        answer=TrajectoryList,
        query=TableQuery,
    ),
    Endpoint(
        path="runs/{run}/neighbours",
        summary="What lies beside a trajectory in a query",
        handle=show_neighbours,
        answer=Neighbours,
        query=NeighboursQuery,
    ),
    Endpoint(
        path="runs/{run}/queue",
        summary="Trajectories to be looked at",
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
