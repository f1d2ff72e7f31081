"""A server in this process, and somebody who asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rollout.viewer.app import make_app
from rollout.viewer.open_runs import OpenRun, OpenRuns
from rollout.viewer.server import Viewer

TOKEN = "the-token-of-the-test"
Asker = Callable[..., Any]


@pytest.fixture
def open_run() -> Iterator[Callable[[Path], OpenRun]]:
    """Opens a run as the server does."""
    opened: list[OpenRun] = []

    def make(path: Path = Path("run")) -> OpenRun:
        opened.append(OpenRun("run", path, path.parent))
        return opened[-1]

    yield make
    for run in opened:
        run.close()


@pytest.fixture
def client() -> Iterator[Callable[..., TestClient]]:
    """A client of a server that shows these folders; it has the token."""
    viewers: list[Viewer] = []

    def make(*places: Path, read_only: bool = False, page: Path | None = None, **options: Any) -> TestClient:
        given = {} if page is None else {"page": page}
        viewer = Viewer(OpenRuns(places or [Path("run")]), token=TOKEN, read_only=read_only, **given)
        viewers.append(viewer)
        return TestClient(
            make_app(viewer, **options),
            base_url="http://127.0.0.1:7788",
            headers={"authorization": f"Bearer {TOKEN}"},
            follow_redirects=False,
        )

    yield make
    for viewer in viewers:
        viewer.close()
