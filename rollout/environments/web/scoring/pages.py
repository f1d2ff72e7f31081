"""Scoring by the site itself: the checks of a task, looked up in the live browser when the agent is done.

Checks of one page are asked together. Where a page or a script is broken the checks on it are unscored: they say
nothing for the agent and nothing against it. One that surely does not hold is a 0, whatever became of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec

from rollout.core.errors import WorldError
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.web.inspection import Finding, Probe
from rollout.environments.web.scoring.checks import Check, Unknown, read_checks
from rollout.environments.web.world import start_url
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory


class Inspectable(Protocol):
    """A world whose pages can be looked into."""

    async def inspect(self, probes: Sequence[Probe], url: str | None = None) -> list[Finding]:
        """See `BrowserWorld.inspect`."""
        ...


class CheckScorer:
    """1 where every check of the task holds."""

    name = "checks"

    def applies(self, task: Task) -> bool:
        return bool(task.info.get("checks"))

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task):
            return None
        checks = read_checks(task)
        if not hasattr(world, "inspect"):
            return Score(self.name, None, "checks need a live browser, and this world has none")
        found = await _inspect(cast(Inspectable, world), checks)
        told = [_tell(check, one, start_url(task)) for check, one in zip(checks, found, strict=True)]
        untrue = [each["check"] for each in told if each["holds"] is False]
        unknown = [f"{each['check']}: {each['problem']}" for each in told if each["holds"] is None]
        share = round(sum(each["holds"] is True for each in told) / len(told), 4)
        evidence = {"checks": told}
        if untrue:
            return Score(self.name, 0.0, f"does not hold: {'; '.join(untrue)}", share, evidence=evidence)
        if unknown:
            return Score(self.name, None, f"could not be checked: {'; '.join(unknown)}", evidence=evidence)
        return Score(self.name, 1.0, "every check holds", share, evidence=evidence)


async def _inspect(world: Inspectable, checks: Sequence[Check]) -> list[Finding]:
    """What the checks ask about, page by page: first the one that the agent left, as it was left."""
    findings: dict[int, Finding] = {}
    for url in sorted({check.url for check in checks}, key=lambda url: (url is not None, url or "")):
        places = [place for place, check in enumerate(checks) if check.url == url]
        try:
            found = await world.inspect([checks[place].probe for place in places], url)
        except WorldError as error:
            found = [Finding(url or "", problem=str(error))] * len(places)
        findings.update(zip(places, found, strict=True))
    return [findings[place] for place in range(len(checks))]


def _tell(check: Check, found: Finding, start: str) -> dict[str, Any]:
    told: dict[str, Any] = {"check": check.describe(), "holds": None}
    try:
        if found.problem is not None:
            raise Unknown(found.problem)
        holds, there = check.holds(found, start)
        return told | {"holds": holds, "found": there}
    except Unknown as error:
        return told | {"problem": str(error)}
    except (KeyError, TypeError, msgspec.MsgspecError) as error:
        return told | {"problem": f"what the page told cannot be read: {error!r}"}
