"""The checks of a task, as far as they need no browser: what may stand in them, and when one holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rollout.core.errors import ConfigError, WorldError
from rollout.core.messages import NO_TOOLS
from rollout.environments.empty import EmptyWorld
from rollout.environments.web.inspection import Finding, Probe
from rollout.environments.web.scoring.checks import read_checks
from rollout.environments.web.scoring.pages import CheckScorer
from rollout.tasks.jsonl import parse_task
from rollout.trajectories.score import Score
from rollout.trajectories.stop import StopReason
from tests.trajectories.lines import trajectory

START = "http://shop.test/"


class Pages(EmptyWorld):
    """A world that answers what it is told to, page by page."""

    def __init__(self, **pages: list[Finding] | WorldError) -> None:
        super().__init__(NO_TOOLS)
        self._pages = pages
        self.asked: list[str | None] = []

    async def inspect(self, probes: Sequence[Probe], url: str | None = None) -> list[Finding]:
        self.asked.append(url)
        answer = self._pages["left" if url is None else url.strip("/")]
        if isinstance(answer, WorldError):
            raise answer
        return answer


async def scored(checks: Any, world: EmptyWorld) -> Score:
    info = {"website": START, "checks": checks}
    task = parse_task({"id": "t", "messages": [], "task_info": info})
    score = await CheckScorer().score(task, trajectory(reason=StopReason.ANSWERED), world)
    assert score is not None
    return score


def elements(*texts: str, count: int | None = None) -> dict[str, Any]:
    found = [{"text": text, "value": text, "isVisible": True, "isCut": False} for text in texts]
    return {"count": len(texts) if count is None else count, "elements": found}


@pytest.mark.parametrize(
    ("check", "url", "holds"),
    [
        ({"equals": "/cart"}, "http://shop.test/cart", True),
        ({"equals": "/cart"}, "http://shop.test/cart#top", True),
        ({"equals": "/cart#top"}, "http://shop.test/cart", False),
        ({"equals": "/cart"}, "http://other.test/cart", False),
        ({"equals": "/cart"}, "http://shop.test/cart/2", False),
        ({"equals": "http://SHOP.test:80/find?b=2&a=1"}, "http://shop.test/find?a=1&b=2", True),
        ({"equals": "/find?q=tea"}, "http://shop.test/find?q=teapot", False),
        ({"contains": "/orders/"}, "http://shop.test/orders/7", True),
        ({"matches": r"/orders/\d+$"}, "http://shop.test/orders/7", True),
        ({"matches": r"/orders/\d+$"}, "http://shop.test/orders/new", False),
    ],
)
async def test_address(check: dict[str, str], url: str, holds: bool) -> None:
    score = await scored([{"kind": "url", **check}], Pages(left=[Finding(url)]))
    assert score.value == float(holds)
    assert score.evidence["checks"][0]["found"] == url


@pytest.mark.parametrize(
    ("check", "found", "value"),
    [
        ({"text": "Blue  mug"}, elements("Red mug", "BLUE MUG"), 1.0),
        ({"text": "mug"}, elements("Blue mug"), 0.0),
        ({"contains": "mug"}, elements("Blue mug"), 1.0),
        ({"contains": "mug"}, elements(), 0.0),
        ({"contains": "mug"}, elements("Cup", count=300), None),
        ({"value": "a b"}, elements("a b"), 1.0),
        ({"value": "A b"}, elements("a b"), 0.0),
        ({"value": ""}, elements(""), 1.0),
        ({"count": 2}, elements("x", count=2), 1.0),
        ({"count": 0}, elements(), 1.0),
        ({"exists": True}, elements(), 0.0),
        ({"exists": False}, elements(), 1.0),
        ({"exists": False}, elements("x"), 0.0),
    ],
)
async def test_elements(check: dict[str, Any], found: dict[str, Any], value: float | None) -> None:
    score = await scored([{"kind": "dom", "selector": "p", **check}], Pages(left=[Finding(START, found)]))
    assert score.value == value


@pytest.mark.parametrize(
    ("wanted", "found", "holds"),
    [
        (1, 1.0, True),
        (1, True, False),
        (None, None, True),
        (None, False, False),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("", "", True),
    ],
)
async def test_script_is_compared_as_json(wanted: Any, found: Any, holds: bool) -> None:
    check = {"kind": "script", "script": "it()", "equals": wanted}
    assert (await scored([check], Pages(left=[Finding(START, found)]))).value == float(holds)


async def test_broken_page_or_script_is_neither_a_pass_nor_a_0() -> None:
    fine = {"kind": "url", "contains": "shop"}
    broken = {"kind": "script", "script": "nope()", "equals": 1}
    apart = {"kind": "dom", "url": "/cart", "selector": "p", "exists": True}
    found = [Finding(START), Finding(START, problem="the script failed: ReferenceError")]
    score = await scored([fine, broken], Pages(left=found))
    assert score.value is None
    assert "ReferenceError" in score.reason
    assert [each["holds"] for each in score.evidence["checks"]] == [True, None]
    world = Pages(left=found[:1], cart=WorldError("/cart cannot be inspected: its status is 500"))
    score = await scored([apart, fine], world)
    assert score.value is None
    assert "status is 500" in score.reason
    assert world.asked == [None, "/cart"], "the page as it was left comes first"
    unmet = {"kind": "url", "contains": "elsewhere"}
    score = await scored([apart, unmet], world)
    assert score.value == 0.0, "what surely does not hold is a 0 all the same"


async def test_world_without_a_browser_is_unscored() -> None:
    score = await scored([{"kind": "url", "contains": "shop"}], EmptyWorld(NO_TOOLS))
    assert score.value is None


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ("x", "task_info.checks: Expected `array`"),
        ([{"kind": "css"}], "task_info.checks[0].kind: Invalid value 'css'"),
        ([{"kind": "url"}], "task_info.checks[0]: expected exactly one of equals, contains, matches; it has none"),
        ([{"kind": "url", "equals": "a", "contains": "b"}], "it has equals and contains"),
        ([{"kind": "url", "equals": 5}], "task_info.checks[0].equals: Expected `str`"),
        ([{"kind": "url", "matches": "("}], "task_info.checks[0].matches: is no regular expression"),
        ([{"kind": "url", "contains": ""}], "task_info.checks[0].contains: expected a text of 1 to 2000"),
        ([{"kind": "url", "equals": "/", "url": "javascript:x"}], "task_info.checks[0].url: 'javascript:x'"),
        ([{"kind": "dom", "exists": True}], "missing required field `selector`"),
        ([{"kind": "dom", "selector": "p"}], "it has none"),
        ([{"kind": "dom", "selector": "p", "count": -1}], "task_info.checks[0].count"),
        ([{"kind": "dom", "selector": "p", "exists": "yes"}], "task_info.checks[0].exists: Expected `bool`"),
        ([{"kind": "dom", "selector": "p", "exist": True}], "unknown field `exist`"),
        ([{"kind": "script", "script": "1"}], "expected exactly one of equals"),
        ([{"kind": "script", "script": "x" * 20_001, "equals": 1}], "task_info.checks[0].script"),
        ([{"kind": "url", "equals": "/"}] * 51, "has 51 entries; at most 50"),
    ],
)
async def test_what_is_wrong_with_a_check_is_named(checks: Any, told: str) -> None:
    task = parse_task({"id": "t7", "messages": [], "task_info": {"website": START, "checks": checks}})
    with pytest.raises(ConfigError) as caught:
        read_checks(task)
    assert told in str(caught.value)
    assert str(caught.value).startswith("task t7: task_info.checks")
