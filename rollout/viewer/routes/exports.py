"""Endpoints that give files: exports of a selection, and reports."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.exporting import ExportSelection, ExportWish, export_selection, selected_keys
from rollout.viewer.report import make_report


async def export(call: ApiCall) -> Response:
    """A selection in the format of a trainer."""
    run, wish = call.run, call.body
    path: Path = await to_thread.run_sync(lambda: export_selection(run, wish, wish.format, per_turn=wish.per_turn))
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=f"{run.name}.{wish.format}{path.suffix}",
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


async def report(call: ApiCall) -> Response:
    """A selection as one HTML file."""
    run, selection, page = call.run, call.body, call.viewer.page
    content = await to_thread.run_sync(lambda: make_report(run, selected_keys(run, selection), page))
    # For saving: never shown as a page of this server.
    headers = {"content-disposition": f'attachment; filename="{run.name}.html"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/export",
        summary="A selection in the format of a trainer, as a file",
        handle=export,
        answer=None,
        method="POST",
        body=ExportWish,
        media="application/octet-stream",
    ),
    Endpoint(
        path="runs/{run}/report",
        summary="A selection as one HTML file",
        handle=report,
        answer=None,
        method="POST",
        body=ExportSelection,
        media="application/octet-stream",
    ),
)
