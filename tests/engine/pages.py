"""A world that looks like a browser's and needs none: pages in a row, each with a screenshot of its own.

`click` opens the next page (an element beyond 10 is not there), `goback` the one before, `scroll` changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollout.config.browsing import WebSettings
from rollout.core.messages import Image, Message, ToolResult
from rollout.core.results import failed_result
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening
from rollout.environments.empty import EmptyWorld
from rollout.environments.web.actions import toolset_of
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.environment import OpenWeb
from rollout.environments.web.interaction import NOTHING_BEFORE
from rollout.environments.web.observe import Element, Observation, Seen, ShownPage, shown_page


class Pages(EmptyWorld):
    """One episode's pages."""

    def __init__(self, settings: WebSettings) -> None:
        super().__init__(toolset_of(settings))
        self._settings = settings
        self._number = 0

    async def open(self, task: Task, seed: int) -> Opening:
        opening = await super().open(task, seed)
        page, images = self._seen()
        names = tuple(image.name for image in images)
        message = Message(role="user", content=page.describe(), images=names)
        return Opening(opening.tools, message, images, page.to_data())

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [self._do(call) for call in calls]

    def _do(self, call: Invocation) -> ToolResult:
        if call.name == "answer":
            return ToolResult(call.call_id, "The answer was taken down.", end="answered")
        if call.name == "click":
            if call.arguments["element"] > 10:
                return failed_result(call.call_id, "tool", "click: there is no such element.")
            self._number += 1
        if call.name == "goback":
            if self._number == 0:
                return failed_result(call.call_id, NOTHING_BEFORE, "goback: there is no page before this one.")
            self._number -= 1
        page, images = self._seen()
        return ToolResult(call.call_id, page.describe(), images=images, data=page.to_data())

    def _seen(self) -> tuple[ShownPage, tuple[Image, ...]]:
        number = self._number
        seen = Seen(
            f"http://pages.test/{number}", f"Page {number}", True, 0, 0, (Element("link", "Next", "", (0,) * 4),)
        )
        image = Image("image/png", b"\x89PNG of page %d" % number) if self._settings.mode != "text" else None
        observation = Observation(seen, image=image)
        return shown_page(observation, self._settings), observation.images


def use_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let web datasets act on these pages instead of in browsers."""
    monkeypatch.setattr(OpenWeb, "make_world", lambda opened, task: Pages(opened.settings))
    monkeypatch.setattr(BrowserPool, "check", lambda pool: None)
