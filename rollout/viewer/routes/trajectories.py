"""Endpoints about trajectories: the table, and one of them."""

from __future__ import annotations

import msgspec
from anyio import to_thread

from rollout.viewer.answers.pages import TrajectoryPage
from rollout.viewer.answers.rows import RowError, TrajectoryList, TrajectoryRow
from rollout.viewer.endpoint import Call, Endpoint
from rollout.viewer.trajectory_page import make_page, read_trajectory


class OneTrajectory(msgspec.Struct, frozen=True, kw_only=True):
    """Which trajectory is asked for."""

    dataset: str
    id: str


class TableQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the table is asked for."""

    offset: int = 0
    limit: int = 100


async def list_trajectories(call: Call) -> TrajectoryList:
    """A part of the table."""
    run, query = call.run, call.query

    def read() -> TrajectoryList:
        with run.reading() as journal:
            keys = journal.keys()
            rows = []
            for key in keys[query.offset : query.offset + query.limit]:
                trajectory = journal.trajectory(key.dataset, key.id)
                assert trajectory is not None
                error = trajectory.error
                rows.append(
                    TrajectoryRow(
                        dataset=key.dataset, id=key.id, task_id=key.task_id, author=None, status=key.status,
                        stop_reason=key.stop_reason, success=key.success, scored=trajectory.scored,
                        reward=trajectory.reward, turns=trajectory.turns, steps=trajectory.generations or 0,
                        tool_calls=trajectory.tool_calls, tool_errors=sum(trajectory.tool_errors.values()),
                        tokens=sum(u.prompt_tokens + u.completion_tokens for u in trajectory.usage.values()),
                        cost=trajectory.cost, seconds=trajectory.timings.seconds, finished=0.0,
                        model=trajectory.model, rank=None,
                        error=None if error is None else RowError(error.kind, error.text[:200]),
                        marks=(), snippet=None, hit=None,
                        first=next((m.content or "" for m in trajectory.messages if m.role == "user"), "")[:200],
                    )
                )  # fmt: skip
            return TrajectoryList(len(keys), query.offset, tuple(rows))

    return await to_thread.run_sync(read)


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
        path="runs/{run}/trajectory",
        summary="One trajectory",
        handle=show_trajectory,
        answer=TrajectoryPage,
        query=OneTrajectory,
    ),
)
