"""MiniWoB++ in real browsers: every kind of page, its goal, its end and its reward; solved, failed, cut and resumed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rollout.core.calls import CallReader, answer_calls
from rollout.core.messages import Message, ToolCall, ToolResult
from rollout.environments.suites.miniwob.environment import SITE, Miniwob
from rollout.environments.suites.miniwob.package import MiniwobPackage
from rollout.environments.suites.miniwob.scorer import MiniwobScorer
from rollout.environments.suites.miniwob.scripted import PLANS, Scripted, goal_of
from rollout.environments.suites.miniwob.world import MiniwobWorld
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.shown import read_page
from rollout.environments.web.sites import Sites
from rollout.models.model import Generation, Request
from rollout.pipelines.saved_config import saved_config
from rollout.pipelines.score import open_scoring, rescore
from rollout.store.reading.reader import open_reader
from tests.conftest import read_lines, roll_out

AT_ONCE = 6
OUT = Path("out.jsonl")


class Play:
    """One task under way."""

    def __init__(self, suite: Miniwob, world: MiniwobWorld, number: int) -> None:
        self.suite = suite
        self.world = world
        self.task = suite.tasks.read(number)
        self.text = ""
        self.goal = ""
        self._reader = CallReader(suite.toolset)

    async def open(self) -> Play:
        opening = await self.world.open(self.task, 0)
        assert opening.observation is not None
        self.text = opening.observation.content or ""
        self.goal = goal_of([opening.observation])
        return self

    async def do(self, name: str, **arguments: Any) -> ToolResult:
        return (await self.do_all((name, arguments)))[-1]

    async def do_all(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult]:
        asked = [ToolCall(f"call{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(calls)]
        results = await answer_calls(asked, self._reader, self.world)
        if "URL:" in results[-1].content:
            self.text = results[-1].content
        return results

    def number(self, line: str) -> int:
        """The number of the first element whose line in the observation begins so."""
        found = re.search(rf"\[(\d+)\] {re.escape(line)}", self.text)
        assert found is not None, self.text
        return int(found[1])

    async def ask(self, expression: str) -> Any:
        """What the page itself says."""
        assert self.world._session is not None
        return await self.world._session.active.page.evaluate(expression)

    async def middle(self, css: str) -> tuple[float, float]:
        """The point in the middle of an element."""
        x, y = await self.ask(
            "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector('{css}').getBoundingClientRect())"
        )
        return x, y

    async def score(self) -> tuple[float | None, float | None]:
        scorer = MiniwobScorer(self.suite.threshold)
        score = await scorer.score(self.task, None, self.world)  # type: ignore[arg-type]
        assert score is not None
        return score.value, score.partial


Begin = Callable[..., Any]


@pytest.fixture
def pool(_shared_pool: BrowserPool) -> BrowserPool:
    return _shared_pool


@pytest_asyncio.fixture(loop_scope="session")
async def begin(pool: BrowserPool) -> AsyncIterator[Begin]:
    """Begins tasks that the test's end closes: `await begin("click-test", number=3, mode="text")`."""
    plays: list[Play] = []
    closing: list[Callable[[], Any]] = []

    async def start(kind: str, number: int = 0, browsers: BrowserPool = pool, **params: Any) -> Play:
        suite = Miniwob(tasks=[kind], **params)
        sites = Sites({SITE: MiniwobPackage().folder})
        closing.append(sites.close)
        plays.append(Play(suite, suite.make_world(browsers, sites), number))
        return await plays[-1].open()

    yield start
    for play in plays:
        await play.world.close()
    for close in closing:
        await close()


# ---- every kind of page ----------------------------------------------------------------------------------------------


async def _press_on(play: Play) -> ToolResult | None:
    """Click at what may end the task, then at something else; the last result that was no error."""
    last = None
    for turn in range(2):
        listed = re.findall(r"^\[(\d+)\] (\w+.*)$", play.text, re.MULTILINE)
        lines = [entry for entry in listed if not entry[1].endswith("disabled)")]
        finals = [entry for entry in lines if re.search(r'"(submit|search|ok|login|buy)\b', entry[1], re.IGNORECASE)]
        ordered = finals + [entry for entry in lines if entry not in finals]
        if not ordered:
            result = await play.do("press", key="Tab")
        else:
            number, line = ordered[turn % len(ordered)]
            options = re.search(r"options: (.*?)(?: \||\)$)", line)
            if options:
                result = await play.do("select", element=int(number), option=options[1])
            else:
                result = await play.do("click", element=int(number))
        last = last if result.is_error else result
        if result.end is not None:
            return result
    return last


@pytest.mark.asyncio(loop_scope="session")
async def test_every_kind_of_page_is_begun_acted_on_and_rewarded(pool: BrowserPool) -> None:
    suite = Miniwob(seeds=1)
    sites = Sites({SITE: MiniwobPackage().folder})
    places = asyncio.Semaphore(AT_ONCE)
    rewards: dict[str, float | None] = {}

    async def play_one(number: int) -> None:
        async with places:
            play = Play(suite, suite.make_world(pool, sites), number)
            try:
                await play.open()
                assert len(play.goal) > 5, play.task.id
                result = await _press_on(play)
                assert result is not None, f"{play.task.id}: no action could be done\n{play.text}"
                done, reward = await play.ask("[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]")
                outcome = play.world.outcome
                assert (result.end == "world_done") == done == (outcome is not None), play.task.id
                assert reward == (outcome.reward if outcome is not None else 0)
                assert -1 <= reward <= 1
                rewards[play.task.id] = outcome.reward if outcome is not None else None
            finally:
                await play.world.close()

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(len(suite.tasks)):
                group.create_task(play_one(number))
    finally:
        await sites.close()
    assert len(rewards) >= 120
    ended = [reward for reward in rewards.values() if reward is not None]
    assert len(ended) >= 80
    assert {1.0, -1.0} <= set(ended)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("kind", ["click-link", "choose-date", "email-inbox-forward-nl", "book-flight", "click-pie"])
async def test_a_seed_fixes_goal_and_page_and_another_one_asks_for_something_else(begin: Begin, kind: str) -> None:
    first, again = await asyncio.gather(begin(kind), begin(kind))
    assert again.text == first.text
    others = await asyncio.gather(*(begin(kind, number) for number in range(1, 5)))
    assert len({play.goal for play in (first, *others)}) >= 3
    moved = await begin(kind, 0, first_seed=3)
    assert moved.task.id == f"{kind}/3"
    assert moved.goal == others[2].goal


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("kind", ["click-pie", "social-media", "click-collapsible-2", "email-inbox"])
async def test_the_same_clicks_show_the_same_page_however_it_moves(begin: Begin, kind: str) -> None:
    plays = await asyncio.gather(*(begin(kind, mode="text") for _ in range(3)))
    for number in (1, 2, 2):
        shown = [(await play.do("click", element=number)).content for play in plays]
        assert shown[1:] == shown[:-1]


# ---- what a task is --------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="session")
async def test_the_end_is_told_and_nothing_is_done_after_it(begin: Begin) -> None:
    play = await begin("click-test-2")
    assert play.text.startswith("URL: http://miniwob.test/miniwob/click-test-2.html\n")
    assert "\nNote: Goal: Click button ONE.\n" in play.text
    right, late = await play.do_all(
        ("click", {"element": play.number('button "ONE"')}), ("click", {"element": play.number('button "TWO"')})
    )
    assert right.end == "world_done"
    assert right.content.startswith("The task is over.\n")
    assert late.is_error
    assert late.end is None
    assert await play.score() == (1.0, 1.0)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("mode", ["coordinates", "set_of_marks", "text"])
async def test_every_observation_states_the_goal_and_is_a_page(begin: Begin, mode: str) -> None:
    play = await begin("click-test-2", mode=mode)
    wait, press, over = [
        await play.do("wait", seconds=0.01),
        await play.do("press", key="Tab"),
        await play.do("press", key="Enter"),
    ]
    for result in (wait, press, over):
        page = read_page(result.to_message(), result.data)
        assert page is not None
        assert page.url == "http://miniwob.test/miniwob/click-test-2.html"
        assert "Goal: Click button ONE." in page.notes
    assert over.end == "world_done"
    page = read_page(over.to_message(), over.data)
    assert page is not None
    assert "The task is over." in page.notes
    assert "Note: The task is over." in over.content
    assert "The task is over." not in page.body


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("mode", ["coordinates", "set_of_marks", "text"])
async def test_things_are_dragged_in_each_mode(begin: Begin, mode: str) -> None:
    play = await begin("drag-box", mode=mode)
    assert not {"navigate", "goback", "answer"} & play.suite.toolset.by_name.keys()
    if mode == "coordinates":
        (x, y), (to_x, to_y) = await play.middle("#draggableSmall"), await play.middle("#draggableLarge")
        await play.do("drag", x=x, y=y, to_x=to_x, to_y=to_y)
        x, y = await play.middle("#subbtn")
        result = await play.do("click", x=x, y=y)
    else:
        await play.do("drag", element=play.number('clickable "s"'), to_element=play.number('clickable "L"'))
        result = await play.do("click", element=play.number('button "Submit"'))
    assert result.end == "world_done"
    assert await play.score() == (1.0, 1.0)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_drag_without_a_target_is_refused(begin: Begin) -> None:
    play = await begin("drag-box")
    result = await play.do("drag", element=1)
    assert result.is_error
    assert "Give to_element, right or down" in result.content


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("off", "value"), [(1, 1.0), (12, 0.0)])
async def test_where_the_reward_is_a_distance_a_threshold_decides(begin: Begin, off: int, value: float) -> None:
    play = await begin("circle-center", mode="coordinates")
    x, y = await play.middle("svg circle")
    await play.do("click", x=x + off, y=y)
    x, y = await play.middle("#subbtn")
    assert (await play.do("click", x=x, y=y)).end == "world_done"
    scored, partial = await play.score()
    assert scored == value
    assert partial is not None
    assert 0 < partial < 1


@pytest.mark.asyncio(loop_scope="session")
async def test_partly_right_is_not_solved(begin: Begin) -> None:
    play = await begin("click-checkboxes-soft")
    await play.do("click", element=play.number('button "Submit"'))
    value, partial = await play.score()
    assert value == 0
    assert partial is not None
    assert 0 < partial < 1


@pytest.mark.asyncio(loop_scope="session")
async def test_a_lost_browser_costs_a_task_nothing(begin: Begin) -> None:
    async with BrowserPool() as doomed:
        play = await begin("enter-text", 1, doomed)
        await play.do("type", element=play.number("textbox"), text=play.goal.split('"')[1])
        assert play.world._lease is not None
        os.kill(play.world._lease.pid, signal.SIGKILL)
        assert (await play.do("click", element=play.number('button "Submit"'))).end == "world_done"
        assert await play.score() == (1.0, 1.0)
        await play.world.close()


# ---- through the engine ----------------------------------------------------------------------------------------------


def config(agent: type[Scripted], **params: Any) -> dict[str, Any]:
    return {
        "max_workers": AT_ONCE,
        "datasets": {
            "miniwob": {
                "suite": "miniwob",
                "suite_params": params,
                "agent": f"{agent.__module__}:{agent.__name__}",
                "output_path": OUT,
            }
        },
    }


class Mistaken(Scripted):
    """Clicks the wrong one of two buttons."""

    async def generate(self, request: Request) -> Generation:
        listed = request.messages[-1].content or ""
        number = re.findall(r'\[(\d+)\] button "TWO"', listed)[0]
        call = ToolCall("call", "click", f'{{"element": {number}}}')
        return Generation(Message(role="assistant", tool_calls=(call,)), finish_reason="tool_calls")


class Idle(Scripted):
    """Says that it is done, and has done nothing."""

    async def generate(self, request: Request) -> Generation:
        return Generation(Message(role="assistant", content="Done."), finish_reason="stop")


class Forgetful(Scripted):
    """Presses keys, and does what the goal says only when it has done so for a while: by what it is shown then."""

    async def generate(self, request: Request) -> Generation:
        if "Step 3" not in (request.messages[1].content or ""):
            call = ToolCall("call", "press", '{"key": "Tab"}')
        else:
            (name,) = re.findall(r"button (\w+)\.", goal_of(request.messages))
            number = re.findall(rf'\[(\d+)\] button "{name}"', request.messages[-1].content or "")[0]
            call = ToolCall("call", "click", f'{{"element": {number}}}')
        return Generation(Message(role="assistant", tool_calls=(call,)), finish_reason="tool_calls")


async def test_an_agent_that_is_shown_the_last_round_only_still_has_its_goal() -> None:
    given = config(Forgetful, tasks=["click-test-2"], seeds=1)
    dataset = given["datasets"]["miniwob"]
    dataset["agent"] = {"model": dataset["agent"], "max_rounds": 1}
    await roll_out(given)
    (line,) = read_lines(OUT)
    assert line["success"]
    assert line["metadata"]["generations"] == 5
    rates = json.loads(Path("run/metrics.json").read_bytes())["web"]["miniwob"]
    assert rates["by_status"]["success_rate"] == 1
    assert "seed" not in rates, "WebGym's rules would call an episode without an answer a crash"


@pytest.mark.parametrize(("mode", "seeds"), [("set_of_marks", 3), ("text", 1)])
async def test_scripted_policies_solve_their_kinds_in_every_seed(mode: str, seeds: int) -> None:
    await roll_out(config(Scripted, tasks=sorted(PLANS), seeds=seeds, mode=mode))
    lines = read_lines(OUT)
    assert len(lines) == seeds * len(PLANS)
    assert [line["id"] for line in lines if not line["success"]] == []
    for line in lines:
        metadata = line["metadata"]
        assert (metadata["status"], metadata["stop_reason"], metadata["scored"]) == ("completed", "world_done", True)
        (score,) = metadata["scores"]
        assert score["evidence"]["raw_reward"] == 1
    goals = {re.findall("^Note: Goal: (.*)", line["messages"][1]["content"], re.MULTILINE)[0] for line in lines}
    assert len(goals) > 0.6 * seeds * len(PLANS)


@pytest.mark.parametrize(
    ("agent", "stop", "evidence"),
    [
        (Mistaken, "world_done", {"done": True, "raw_reward": -1.0}),
        (Idle, "max_steps", {"done": False}),
    ],
)
async def test_a_wrong_click_and_no_click_are_failures_with_a_reason(
    agent: type[Scripted], stop: str, evidence: dict[str, Any]
) -> None:
    await roll_out(config(agent, tasks=["click-test-2"], seeds=1))
    (line,) = read_lines(OUT)
    assert not line["success"]
    assert line["metadata"]["scored"]
    assert line["metadata"]["stop_reason"] == stop
    (score,) = line["metadata"]["scores"]
    assert (score["name"], score["value"]) == ("miniwob", 0.0)
    assert score["evidence"] == evidence
    assert score["reason"]


async def test_a_run_that_was_cut_goes_on_by_replay_and_keeps_its_scores() -> None:
    tasks = ["click-option", "enter-password", "login-user"]
    whole = config(Scripted, tasks=tasks, seeds=2)
    await roll_out(whole, pause_when=lambda progress: progress.tool_calls >= 7)
    done = {line["id"] for line in read_lines(OUT)}
    assert len(done) < 6
    opened = await roll_out(whole)
    assert opened.engine.replay_mismatches == 0
    lines = {line["id"]: line for line in read_lines(OUT)}
    assert sorted(lines) == sorted(f"{task}/{number}" for task in tasks for number in range(2))
    assert all(line["success"] for line in lines.values())
    # What was paid for before the cut was not asked for again.
    asked = {"click-option": 2, "enter-password": 3, "login-user": 3}
    assert all(line["metadata"]["generations"] == asked[name.partition("/")[0]] for name, line in lines.items())
    async with open_scoring(saved_config(Path("run")), ["miniwob"]) as (scoring,):
        with open_reader(Path("run")) as reader:
            again = [one async for one in rescore(reader, scoring)]
    assert len(again) == 6
    assert all(one.success and [score.value for score in one.verdict.scores] == [1.0] for one in again)
