"""Endpoints about whole runs."""

from __future__ import annotations

from anyio import to_thread

from rollout.viewer.answers.runs import Me, RunPage, RunRow
from rollout.viewer.endpoint import Call, Endpoint
from rollout.viewer.run_page import read_run_page


async def me(call: Call) -> Me:
    """The server, and who looks."""
    viewer = call.viewer
    runs = await to_thread.run_sync(viewer.runs.look)
    return Me(version=viewer.version, author=viewer.author, read_only=viewer.read_only, runs=len(runs), can_grow=False)


async def list_runs(call: Call) -> list[RunRow]:
    """The runs, newest first."""

    def read() -> list[RunRow]:
        rows = [run.row() for run in call.viewer.runs.look()]
        return sorted(rows, key=lambda row: (-(row.started or 0.0), row.name))

    return await to_thread.run_sync(read)


async def show_run(call: Call) -> RunPage:
    """One run."""
    return await to_thread.run_sync(read_run_page, call.run)


ENDPOINTS = (
    Endpoint(path="me", summary="The server, and who looks", handle=me, answer=Me),
    Endpoint(path="runs", summary="The runs, newest first", handle=list_runs, answer=list[RunRow]),
    Endpoint(path="runs/{run}", summary="One run with its figures", handle=show_run, answer=RunPage),
)
