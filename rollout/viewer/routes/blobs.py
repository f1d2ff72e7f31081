"""Images of a run."""

from __future__ import annotations

import re

from anyio import to_thread
from starlette.responses import Response

from rollout.store.blobs import find_image
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.errors import not_found
from rollout.viewer.open_runs import OpenRun

MEDIA = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
    "bmp": "image/bmp", "avif": "image/avif", "ico": "image/x-icon", "svg": "image/svg+xml",
}  # fmt: skip
"""The types of images. Other files in the folder, such as prompts, are not served."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.([a-z]+)")
SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For an image opened on its own: an SVG may contain a script."""


async def show_blob(call: ApiCall) -> Response:
    """An image."""
    run, name = call.run, call.path["name"]
    content = await to_thread.run_sync(_read, run, name)
    media = MEDIA[name.rpartition(".")[2]]
    return Response(content, media_type=media, headers={"content-security-policy": SANDBOX})


def _read(run: OpenRun, name: str) -> bytes:
    found = _NAME.fullmatch(name)
    if found is not None and found[1] in MEDIA:
        for folder in (run.path, run.people_path):
            if (path := find_image(folder, name)) is not None:
                return path.read_bytes()
    raise not_found(f"{run.name}: there is no image {name[:100]!r}")


ENDPOINTS = (
    Endpoint(path="runs/{run}/blobs/{name}", summary="An image", handle=show_blob, answer=None, media="image/*"),
)
