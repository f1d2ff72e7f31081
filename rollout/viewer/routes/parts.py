"""Endpoints about parts of a trajectory: requests as sent, states, tokens; and its tree."""

from __future__ import annotations

import msgspec
from anyio import CapacityLimiter, to_thread

from rollout.viewer.answers.pages import Sent, States, StepTokens
from rollout.viewer.answers.trees import TreePage
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.pages.sent import read_sent
from rollout.viewer.pages.states import read_states
from rollout.viewer.pages.token_page import read_tokens
from rollout.viewer.pages.trajectory_page import read_trajectory
from rollout.viewer.pages.tree_page import read_tree_page
from rollout.viewer.routes.trajectories import OneTrajectory


class OneStep(OneTrajectory, frozen=True, kw_only=True):
    """A step of a trajectory."""

    step: int
    """Counted from 1."""


class OneTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    dataset: str
    task: str


async def show_sent(call: ApiCall) -> Sent:
    """A request as it was sent."""
    run, query = call.run, call.query
    return await to_thread.run_sync(lambda: read_sent(run, read_trajectory(run, query.dataset, query.id), query.step))


async def replay_states(call: ApiCall) -> States:
    """Make the calls of an attempt again, and return the state of the world before, during and after it. Only one
    replay runs at a time."""
    run, given = call.run, call.body
    limiter: CapacityLimiter = call.viewer.replaying
    return await to_thread.run_sync(
        lambda: read_states(run, read_trajectory(run, given.dataset, given.id)), limiter=limiter
    )


async def show_tokens(call: ApiCall) -> StepTokens:
    """The tokens of a trajectory."""
    run, query = call.run, call.query

    def read() -> StepTokens:
        found = read_trajectory(run, query.dataset, query.id)
        return read_tokens(found, run.filtered(query.dataset, found.trajectory))

    return await to_thread.run_sync(read)


async def show_tree(call: ApiCall) -> TreePage:
    """All attempts at a task."""
    run, query = call.run, call.query
    return await to_thread.run_sync(read_tree_page, run, query.dataset, query.task)


ENDPOINTS = (
    Endpoint(path="runs/{run}/sent", summary="A request as it was sent", handle=show_sent, answer=Sent, query=OneStep),
    Endpoint(
        path="runs/{run}/states",
        summary="Replay an attempt: the state of the world before, during and after it",
        handle=replay_states,
        answer=States,
        method="POST",
        body=OneTrajectory,
        # It runs code that the run names, and calls tools.
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/tokens",
        summary="The tokens of a trajectory",
        handle=show_tokens,
        answer=StepTokens,
        query=OneTrajectory,
    ),
    Endpoint(
        path="runs/{run}/tree", summary="All attempts at a task", handle=show_tree, answer=TreePage, query=OneTask
    ),
)
