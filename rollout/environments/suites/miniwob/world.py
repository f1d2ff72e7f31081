"""A MiniWoB++ page as a world: a browser at that page, with the page's own goal, end and reward.

The script in page.js is injected before the page's own scripts. It seeds the page's randomness, removes the time limit
and begins the episode, so the same task has the same goal, and the same actions show the same page, in every run. So
the calls of a lost browser can be replayed in a new one.

The goal is a note in every observation, so that an agent which is shown only the last ones still has it. After each
step the page is asked whether the task is over. Later calls are refused.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.errors import WorldError
from rollout.core.messages import JSON, Toolset
from rollout.core.task import Task
from rollout.core.world import Opening
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.session import BrowserSession
from rollout.environments.web.sites import Sites
from rollout.environments.web.world import BrowserWorld

_GOAL = "globalThis.miniwob || Promise.reject(new Error('this is no page of MiniWoB++'))"
_OUTCOME = (
    "typeof WOB_DONE_GLOBAL === 'undefined' || !WOB_DONE_GLOBAL ? null"
    " : {reward: Number(WOB_RAW_REWARD_GLOBAL) || 0, reason: WOB_REWARD_REASON ? String(WOB_REWARD_REASON) : null}"
)
OVER = "The task is over."
GOAL = "Goal: "
"""The beginning of the note with the goal."""


class Outcome(msgspec.Struct, frozen=True):
    """How a task ended, as its page says."""

    reward: float
    """Raw: from -1 to 1, without the decay by time."""
    reason: str | None = None
    """In the page's own words; few pages give one."""


class MiniwobWorld(BrowserWorld):
    """One episode of a MiniWoB++ task."""

    def __init__(
        self, pool: BrowserPool, settings: WebSettings, sites: Sites, toolset: Toolset, data_mode: str
    ) -> None:
        super().__init__(pool, settings, sites, toolset)
        self.outcome: Outcome | None = None
        """None as long as the task is not over."""
        self._data_mode = data_mode
        self._script = ""

    async def open(self, task: Task, seed: int) -> Opening:
        """Begin the task. Its seed is its own, in its id: the same goal in every run, whatever the run's seed."""
        options = {"seed": task.info["miniwob"]["seed"], "dataMode": self._data_mode}
        self._script = f"{_page_script()}({msgspec.json.encode(options).decode()})"
        return await super().open(task, seed)

    async def before_pages(self, session: BrowserSession) -> None:
        session.requests.awaited |= {"image"}  # some pages have things to click that are as large as their icon
        await session.active.page.add_init_script(self._script)

    async def after_visit(self, session: BrowserSession) -> None:
        said = await _evaluate(session, _GOAL)
        goal = said["utterance"] if isinstance(said, dict) else str(said)
        session.reminders = (GOAL + " ".join(goal.splitlines()),)

    async def after_step(self, session: BrowserSession) -> str | None:
        found = await _evaluate(session, _OUTCOME)
        if found is None:
            return None
        self.outcome = msgspec.convert(found, Outcome)
        return OVER


def task_type_of(task: Task) -> str:
    """The task type: the name of the page."""
    return str(task.info["miniwob"]["task_type"])


@functools.cache
def _page_script() -> str:
    return resources.files("rollout.environments.suites.miniwob").joinpath("page.js").read_text().strip()


async def _evaluate(session: BrowserSession, expression: str) -> Any:
    """The value of an expression in the page's own world, of a promise when it is kept."""
    options: JSON = {"expression": expression, "returnByValue": True, "awaitPromise": True}
    reply: JSON = await session.active.cdp.send("Runtime.evaluate", options)
    if "exceptionDetails" in reply:
        details = reply["exceptionDetails"]
        text = details.get("exception", {}).get("description") or details.get("text")
        raise WorldError(f"{session.active.page.url}: {text}")
    return reply["result"].get("value")
