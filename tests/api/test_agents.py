"""Agents of one's own: what they do is recorded like the work of the chat agent, and resumed from the record."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.trajectories.line import comparable
from tests.api.shop import Cart, busy_shop, filled, order, plan_first, seller, shop
from tests.conftest import read_lines, roll_out

BUSY = {"environment": "tests.api.shop:busy_shop", "output_path": "out.jsonl", "samples": 2}
PLANNING = {"agent": {"model": "tests.api.shop:seller", "program": "tests.api.shop:plan_first"}}


def run(agent: Any, **more: Any) -> rollout.Run:
    return rollout.run(shop, model=more.pop("model", seller), agent=agent, progress=False, **more)


def only(result: rollout.Run) -> rollout.Trajectory:
    (trajectory,) = result.trajectories
    return trajectory


def in_order(path: Path) -> list[dict[str, Any]]:
    return sorted((comparable(line) for line in read_lines(path)), key=lambda line: str(line["id"]))


def test_a_plan_is_part_of_the_record_and_the_attempt_is_scored() -> None:
    attempt = only(run(plan_first))
    assert [(message.role, message.content) for message in attempt.messages] == [
        ("user", "Two mugs and a lamp, please."),
        ("user", "Before you act, write down a plan in a few lines."),
        ("assistant", "Plan: a mug, then a lamp."),
        ("user", "Now carry it out."),
        ("assistant", None),
        ("tool", "1 × mug"),
        ("assistant", None),
        ("tool", "1 × lamp"),
        ("assistant", "Done."),
    ]
    assert (attempt.stop_reason, attempt.success, attempt.reward) == ("agent_done", True, 1.0)


def test_the_same_agent_works_over_a_shipped_domain_with_a_user() -> None:
    result = rollout.run(
        mcp_domain="HotelReservations",
        tools=["HotelReservations"],
        model="builtin/oracle",
        user="builtin/user",
        agent=plan_first,
        limit=3,
        progress=False,
    )
    assert (result.finished, result.solved) == (3, 3)
    assert {trajectory.stop_reason for trajectory in result.trajectories} == {"user_stop"}
    for trajectory in result.trajectories:
        (actions,) = (score for score in trajectory.scores if score.name == "actions")
        assert actions.value == 1, "what was declined while planning is called later"


def test_the_user_does_not_hear_a_plan() -> None:
    heard: list[list[str | None]] = []

    async def customer(request: rollout.Request) -> str:
        heard.append([message.content for message in request.messages if message.role != "system"])
        return "Thank you. ###STOP###"

    attempt = only(run(plan_first, user=customer))
    assert attempt.stop_reason == "user_stop"
    assert "Plan: a mug, then a lamp." not in heard[0]
    assert "Done." in heard[0]


async def test_paused_attempts_go_on_as_undisturbed_ones() -> None:
    settings = {"datasets": {"data": BUSY | PLANNING}}
    await roll_out(settings)
    calm = in_order(Path("out.jsonl"))
    Path("out.jsonl").unlink()
    for done in (3, 5, 7, 11):
        await roll_out(settings, Path("other"), pause_when=lambda progress, done=done: progress.generations >= done)
    assert len(read_lines(Path("out.jsonl"))) < len(calm)
    await roll_out(settings, Path("other"))
    assert (
        sorted((comparable(line) for line in read_lines(Path("out.jsonl"))), key=lambda line: str(line["id"])) == calm
    )


async def test_nothing_that_is_recorded_is_asked_again() -> None:
    asked = 0

    async def counted(request: rollout.Request) -> Any:
        nonlocal asked
        asked += 1
        if asked == 9:
            running.cancel()
            await asyncio.sleep(3600)
        return await seller(request)

    def begin() -> asyncio.Task[rollout.Run]:
        return asyncio.create_task(
            rollout.arun(
                busy_shop,
                model=counted,
                agent=plan_first,
                run_dir="run",
                progress=False,
                config={"max_workers": 1, "timeouts": {"grace": 0}},
            )
        )

    running = begin()
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await begin()
    assert result.solved == 6
    # Four answers for each of six tasks, and the one that was cut off.
    assert asked == 6 * 4 + 1


@pytest.mark.parametrize("strategy", ["mcts", "random_tree"])
def test_branches_run_the_agent_again_over_what_they_share(strategy: str) -> None:
    async def unsteady(request: rollout.Request) -> Any:
        gives_up = request.messages[-1].role == "tool" and (request.seed or 0) % 2
        return "I give up." if gives_up else await seller(request)

    result = run(plan_first, model=unsteady, strategy=strategy)
    shared = [trajectory for trajectory in result.trajectories if trajectory.branch and trajectory.branch.parent]
    assert shared
    assert 0 < result.solved < len(result.trajectories)
    assert result.failed == 0
    for trajectory in shared:
        assert [message.content for message in trajectory.messages].count("Now carry it out.") == 1


def test_an_agent_makes_calls_of_its_own_and_speaks_for_itself() -> None:
    async def clerk(task: rollout.Task, session: rollout.Session) -> None:
        (mug,) = await session.call("add", item="mug", count=2)
        assert mug.content == "2 × mug"
        await session.call("add", item="lamp")
        await session.say("It is all in your cart.")

    attempt = only(run(clerk))
    assert attempt.reward == 1.0
    assert attempt.messages[-1].content == "It is all in your cart."
    assert attempt.marks == ("scripted", "scripted", "scripted")


def test_calls_that_the_agent_does_not_make_are_recorded_as_declined() -> None:
    async def careful(task: rollout.Task, session: rollout.Session) -> None:
        answer = await session.generate()
        assert answer.tool_calls
        await session.generate()

    async def twice(request: rollout.Request) -> Any:
        names = [("a", "mug"), ("b", "lamp")]
        calls = [{"id": id, "function": {"name": "add", "arguments": {"item": item}}} for id, item in names]
        return "Never mind." if request.messages[-1].role == "tool" else {"tool_calls": calls}

    attempt = only(run(careful, model=twice))
    assert dict(attempt.tool_errors) == {"declined": 2}
    assert attempt.reward == 0.0


def test_pending_calls_may_be_made_one_by_one_in_any_order() -> None:
    async def backwards(task: rollout.Task, session: rollout.Session) -> None:
        answer = await session.generate()
        for call in reversed(answer.tool_calls):
            (result,) = await session.call(call)
            assert result.tool_call_id == call.id
        assert session.pending == ()
        await session.say("Done.")

    async def both(request: rollout.Request) -> Any:
        names = [("a", "mug"), ("b", "lamp")]
        return {
            "tool_calls": [{"id": id, "function": {"name": "add", "arguments": {"item": item}}} for id, item in names]
        }

    attempt = only(run(backwards, model=both))
    assert [message.tool_call_id for message in attempt.messages if message.role == "tool"] == ["a", "b"]
    assert attempt.reward == 1.0


def test_a_question_aside_is_paid_for_and_no_part_of_the_conversation() -> None:
    async def asking(task: rollout.Task, session: rollout.Session) -> None:
        advice = await session.generate([{"role": "user", "content": "Write a plan."}])
        assert advice.content == "Plan: a mug, then a lamp."
        while (answer := await session.generate()).tool_calls:
            await session.call()
        await session.say(answer.content)

    attempt = only(run(asking))
    assert "Plan: a mug, then a lamp." not in [message.content for message in attempt.messages]
    assert attempt.nodes is not None
    assert [body.kind for body in attempt.nodes].count("aside") == 1


def test_limits_end_an_agent_that_would_go_on_for_ever() -> None:
    async def restless(task: rollout.Task, session: rollout.Session) -> None:
        while True:
            try:
                await session.generate("Again.")
                await session.call("add", item="mug")
            except Exception:  # noqa: BLE001 - as careless code does
                continue

    attempt = only(run(restless, max_steps_per_turn=5))
    assert (attempt.status, attempt.stop_reason) == ("truncated", "max_steps")
    assert attempt.messages[-1].content != "Again."


def test_an_agent_that_breaks_fails_its_attempt_and_is_never_a_score() -> None:
    async def broken(task: rollout.Task, session: rollout.Session) -> None:
        raise KeyError("no such thing")

    attempt = only(run(broken))
    assert (attempt.status, attempt.reward) == ("failed", None)
    assert attempt.error is not None
    assert attempt.error.kind == "agent"
    assert "no such thing" in attempt.error.text


def test_an_agent_that_hides_a_failing_model_gets_no_score_for_it() -> None:
    async def down(request: rollout.Request) -> str:
        raise ConnectionError("the server is down")

    async def deaf(task: rollout.Task, session: rollout.Session) -> None:
        try:
            await session.generate()
        except Exception:  # noqa: BLE001 - as careless code does
            return

    attempt = only(run(deaf, model=down))
    assert (attempt.status, attempt.reward) == ("failed", None)
    assert attempt.error is not None
    assert "the server is down" in attempt.error.text


class Broken:
    """A model that raises what no model should."""

    name = "broken"
    capabilities: frozenset[Any] = frozenset()

    async def generate(self, request: rollout.Request) -> rollout.Generation:
        raise KeyError("choices")

    async def close(self) -> None:
        """Nothing is held."""


class Quitting(Broken):
    async def generate(self, request: rollout.Request) -> rollout.Generation:
        raise SystemExit("no key")


class BrokenCall(Cart):
    """A world of one's own that raises what no world should."""

    async def call(self, calls: Any) -> Any:
        raise ConnectionError("no such host")


class BrokenSnapshot(Cart):
    async def snapshot(self) -> Any:
        raise PermissionError("locked")


class BrokenKey(Cart):
    async def state_key(self) -> str:
        raise PermissionError("locked")


def shop_in(world: type[rollout.World]) -> rollout.Environment:
    return rollout.Environment(tasks=[order("t1")], world=world, scorers=[filled])


async def careless(task: rollout.Task, session: rollout.Session) -> None:
    """Goes on whatever happens."""
    for ask in (session.generate, session.call, functools.partial(session.call, "add", item="mug")):
        with contextlib.suppress(Exception):
            await ask()
    with contextlib.suppress(Exception):
        await session.say("Done.")


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"model": Broken()}, "model", "broken failed: KeyError: 'choices'"),
    ({"model": Quitting()}, "model", "broken failed: SystemExit: no key"),
    ({"world": BrokenCall}, "world", "BrokenCall.call failed: ConnectionError: no such host"),
    ({"world": BrokenSnapshot}, "world", "BrokenSnapshot.snapshot failed: PermissionError: locked"),
]


@pytest.mark.parametrize("agent", [None, careless])
@pytest.mark.parametrize(("given", "kind", "text"), FAULTS, ids=[text for _, _, text in FAULTS])
def test_what_a_model_or_a_world_raises_is_not_the_agents_failure(
    given: dict[str, Any], kind: str, text: str, agent: Any
) -> None:
    # Worlds are copied by strategies that branch.
    how = {"model": seller, "strategy": "random_tree", **given}
    result = rollout.run(shop_in(how.pop("world", Cart)), agent=agent, progress=False, **how)
    for attempt in result.trajectories:
        assert (attempt.status, attempt.reward) == ("failed", None)
        assert attempt.error is not None
        assert (attempt.error.kind, attempt.error.text) == (kind, text)


def test_a_state_that_cannot_be_read_has_no_key(caplog: pytest.LogCaptureFixture) -> None:
    result = rollout.run(shop_in(BrokenKey), model=seller, record_states=True, progress=False)
    assert only(result).reward == 1.0
    assert "BrokenKey.state_key failed: PermissionError: locked" in caplog.text


async def test_an_agent_that_does_something_else_than_recorded_begins_again() -> None:
    is_other = False

    async def fickle(task: rollout.Task, session: rollout.Session) -> None:
        await session.generate("Do it." if not is_other else "Do it otherwise.")
        await asyncio.sleep(0)
        await session.generate("And now?")

    stop = 0

    async def slow(request: rollout.Request) -> str:
        nonlocal stop
        stop += 1
        if stop == 2:
            running.cancel()
            await asyncio.sleep(3600)
        return "All right."

    async def go_on() -> rollout.Run:
        settings = {"timeouts": {"grace": 0}}
        return await rollout.arun(shop, model=slow, agent=fickle, run_dir="run", progress=False, config=settings)

    running = asyncio.create_task(go_on())
    with pytest.raises(asyncio.CancelledError):
        await running
    is_other = True
    attempt = only(await go_on())
    assert [message.content for message in attempt.messages if message.role == "user"][1:] == [
        "Do it otherwise.",
        "And now?",
    ]


def test_what_is_no_agent_is_refused_by_name() -> None:
    def not_async(task: rollout.Task, session: rollout.Session) -> None:
        pass

    with pytest.raises(rollout.ConfigError, match=r"agent\.program.*is no agent: expected an object with"):
        run(not_async)


def test_questions_aside_may_be_asked_at_once_and_each_gets_its_own_answer() -> None:
    asked: list[str] = []

    async def slow(request: rollout.Request) -> str:
        word = request.messages[-1].content or ""
        asked.append(word)
        # The first to be asked is the last to be answered.
        for _ in range(20 - 5 * len(asked)):
            await asyncio.sleep(0)
        return f"about {word}"

    async def ask_all(task: rollout.Task, session: rollout.Session) -> None:
        words = ["mugs", "lamps", "chairs"]
        questions = [session.generate([{"role": "user", "content": word}]) for word in words]
        answers = await asyncio.gather(*questions)
        assert [answer.content for answer in answers] == [f"about {word}" for word in words]
        await session.generate()
        if task.id == "t1":
            await session.say("Done.")

    attempts = run(ask_all, model=slow, strategy={"name": "random_tree", "params": {}}).trajectories
    assert {attempt.status for attempt in attempts} == {"completed"}
    assert any(attempt.branch and attempt.branch.parent for attempt in attempts)


def test_two_messages_at_once_are_refused_by_name() -> None:
    async def hasty(task: rollout.Task, session: rollout.Session) -> None:
        await asyncio.gather(session.generate(), session.generate("And this?"))

    async def slow(request: rollout.Request) -> str:
        await asyncio.sleep(0)
        return "Hello."

    attempt = only(run(hasty, model=slow))
    assert attempt.status == "failed"
    assert "And this?" not in [message.content for message in attempt.messages]
    assert attempt.error is not None
    assert "is being waited for already" in attempt.error.text


@pytest.mark.parametrize("asking", ["generate", "say"])
def test_a_call_while_a_message_is_waited_for_is_refused_by_name(asking: str) -> None:
    is_answered = asyncio.Event()

    async def hasty(task: rollout.Task, session: rollout.Session) -> None:
        first = session.generate() if asking == "generate" else session.say("Hello.")
        waiting = asyncio.ensure_future(first)
        await is_asked.wait()
        try:
            await session.call("add", item="mug")
        finally:
            is_answered.set()
            await waiting

    async def slow(request: rollout.Request) -> str:
        is_asked.set()
        await is_answered.wait()
        return "Hello."

    is_asked = asyncio.Event()
    attempt = only(run(hasty, model=slow, user=slow))
    assert attempt.status == "failed"
    assert attempt.error is not None
    assert "is being waited for already" in attempt.error.text
    assert [message.role for message in attempt.messages if message.tool_calls or message.role == "tool"] == []


def test_calls_at_once_are_made_one_after_the_other() -> None:
    async def eager(task: rollout.Task, session: rollout.Session) -> None:
        answer = await session.generate()
        results = await asyncio.gather(*map(session.call, answer.tool_calls))
        assert [result[0].content for result in results] == ["1 × mug", "1 × lamp"]
        await session.say("Done.")

    async def both(request: rollout.Request) -> Any:
        names = [("a", "mug"), ("b", "lamp")]
        calls = [{"id": id, "function": {"name": "add", "arguments": {"item": item}}} for id, item in names]
        return {"tool_calls": calls}

    assert only(run(eager, model=both)).reward == 1.0


def test_an_agent_that_draws_lots_can_walk_what_its_branch_shares() -> None:
    async def moody(task: rollout.Task, session: rollout.Session) -> None:
        await session.generate(f"Mood: {session.random.random()}")
        while (await session.generate(f"Now: {session.random.random()}")).tool_calls:
            await session.call()

    result = run(moody, strategy="random_tree")
    moods = {attempt.messages[1].content for attempt in result.trajectories}
    chains = [attempt for attempt in result.trajectories if not (attempt.branch and attempt.branch.parent)]
    assert len(moods) == len(chains) < len(result.trajectories)


async def test_a_stateless_agent_that_returns_early_ends_the_attempt() -> None:
    class Silent:
        is_stateless = True

        async def act(self, task: rollout.Task, session: rollout.Session) -> None:
            await session.generate()

    run = await rollout.arun(shop, model=seller, agent=Silent(), progress=False)
    (trajectory,) = run.trajectories
    assert (trajectory.status, trajectory.stop_reason) == ("completed", "agent_done")
    assert [message.role for message in trajectory.messages] == ["user", "assistant", "tool"], "its call was declined"
