"""Corrections and branches that a person asks for, from Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.trajectories.tree import PERSON
from tests.api.shop import busy_shop, plan_first, seller, shop

RUN = Path("runs/shop")
CALL = {"name": "add", "arguments": {"item": "lamp"}}


async def two_lamps(request: rollout.Request) -> Any:
    """Adds a lamp wherever it begins, then is done."""
    if request.messages[-1].role == "tool":
        return "Two lamps."
    return {"tool_calls": [{"id": "call9", "function": {"name": "add", "arguments": {"item": "lamp", "count": 2}}}]}


def sell(**keys: Any) -> rollout.Run:
    return rollout.run(shop, model=seller, run_dir=RUN, progress=False, **keys)


def spoken(trajectory: rollout.Trajectory) -> list[str]:
    return [
        f"{message.role}: {message.content or [call.name for call in message.tool_calls]}"
        for message in trajectory.messages
    ]


# ---- corrections -------------------------------------------------------------------------------------------------


def test_a_correction_is_an_attempt_of_its_own_that_ends_there_and_the_original_stays() -> None:
    run = sell()
    original = run.trajectories[0]
    before = (RUN / "journal.db").read_bytes()
    added = run.correct(original, 1, "Here you are.", calls=[CALL], reasoning="A lamp first.", author="ada")
    assert added.id == "t1~+1"
    assert (added.author, added.stop_reason, added.status) == ("ada", "corrected", "completed")
    assert not added.scored
    assert added.reward is None, "nobody knows where it leads to"
    last = added.messages[-1]
    assert (last.content, last.reasoning, last.tool_calls[0].name) == ("Here you are.", "A lamp first.", "add")
    assert list(added.messages[:-1]) == list(original.messages[:1])
    assert added.branch is not None
    assert (added.branch.reason, added.branch.parent, added.branch.shared_messages) == (PERSON, "t1", 1)
    assert rollout.load_run(RUN).trajectories[0] == original
    assert (RUN / "journal.db").read_bytes() == before, "the journal of the run is only read"


def test_a_correction_has_no_sampled_tokens() -> None:
    run = sell()
    added = run.correct("t1", 1, "Sorry, closed.")
    assert added.generated[1].is_scripted
    assert added.tokens is not None
    assert not added.tokens.is_exact


def test_a_correction_may_be_corrected_again() -> None:
    run = sell()
    first = run.correct("t1", 1, "One.", author="ada")
    second = run.correct(first, 1, "Two.", author="bob")
    assert (second.id, second.author, second.messages[-1].content) == ("t1~+2", "bob", "Two.")
    assert run.people is not None
    assert run.people.trajectories.ids == ["t1~+1", "t1~+2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, "Hello."), "message 0 is not an answer of the agent"),
        ((2, "Hello."), "message 2 is not an answer of the agent"),
        ((9, "Hello."), "there is no message 9; it has 0 to 5"),
        ((1, ""), "needs words or a tool call"),
        ((5, "Done."), "changes nothing"),
    ],
)
def test_what_cannot_be_corrected_is_refused_in_words(arguments: tuple[int, str], says: str) -> None:
    run = sell()
    with pytest.raises(rollout.ConfigError, match=says):
        run.correct("t1", *arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"name": "ad", "arguments": {}}, "There is no tool 'ad'. Did you mean 'add'"),
        ({"name": "add", "arguments": {"count": 2}}, '"item" is a required property'),
        ({"name": "add", "arguments": "mug"}, "a tool call: expected"),
    ],
)
def test_a_call_that_no_tool_takes_is_refused(call: dict[str, Any], says: str) -> None:
    run = sell()
    with pytest.raises(rollout.ConfigError, match=says):
        run.correct("t1", 1, calls=[call])


def test_an_attempt_that_is_not_there_is_refused() -> None:
    run = sell()
    with pytest.raises(rollout.ConfigError, match="'t7': no attempt has this id"):
        run.correct("t7", 1, "Hello.")


# ---- branches ----------------------------------------------------------------------------------------------------


def test_what_is_grown_on_begins_with_the_same_messages_in_the_same_world() -> None:
    run = sell()
    grown = run.grow("t1", 2, n=2, author="ada")
    assert [each.id for each in grown] == ["t1~+1", "t1~+2"]
    for each in grown:
        assert list(each.messages[:3]) == list(run.trajectories[0].messages[:3])
        assert spoken(each)[3:] == ["assistant: ['add']", "tool: 1 × lamp", "assistant: Done."]
        assert each.reward == 1.0, "the mug of the shared step is in the cart"
        assert each.branch is not None
        assert (each.branch.reason, each.branch.parent, each.branch.shared_messages) == (PERSON, "t1", 3)
        assert each.author == "ada"


def test_behind_a_correction_its_calls_are_made() -> None:
    run = sell()
    corrected = run.correct("t1", 1, calls=[CALL])
    (grown,) = run.grow(corrected)
    assert spoken(grown)[1:3] == ["assistant: ['add']", "tool: 1 × lamp"]
    assert grown.reward == 0.5, "seller adds a second lamp and never the mug"
    assert grown.branch is not None
    assert grown.branch.parent == corrected.id


def test_another_model_and_temperature_go_on_from_there() -> None:
    run = sell()
    (grown,) = run.grow("t1", 2, model=two_lamps, temperature=0.2)
    assert spoken(grown)[-1] == "assistant: Two lamps."
    assert grown.model is not None
    assert grown.model.endswith("test_people:two_lamps")
    assert grown.branch is not None
    assert grown.branch.temperature == 0.2


def test_between_the_results_of_one_answer_nothing_branches() -> None:
    async def at_once(request: rollout.Request) -> Any:
        if request.messages[-1].role == "tool":
            return "Done."
        calls = [
            {"id": f"c{n}", "function": {"name": "add", "arguments": {"item": item}}} for n, item in enumerate("ab")
        ]
        return {"tool_calls": calls}

    run = rollout.run(shop, model=at_once, run_dir=RUN, progress=False)
    (grown,) = run.grow("t1", 2)
    assert [message.role for message in grown.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert grown.branch is not None
    assert grown.branch.shared_messages == 4


def test_from_the_task_on_it_is_a_fresh_attempt() -> None:
    run = sell()
    (grown,) = run.grow("t1", 0)
    assert grown.branch is not None
    assert grown.branch.parent is None
    assert grown.reward == 1.0


def test_a_node_of_a_drawn_tree_can_be_grown_on() -> None:
    run = sell(samples=2)
    leaf = run.tree("t1").nodes.leaves[1]
    (grown,) = run.grow(leaf.node.path()[2])
    assert grown.branch is not None
    assert (grown.branch.parent, grown.branch.shared_messages) == ("t1~1", 2)


def test_nothing_goes_on_behind_the_end_of_a_conversation() -> None:
    async def user(request: rollout.Request) -> str:
        return "###STOP###"

    run = sell(user=user, max_turns=3)
    last = len(run.trajectories[0].messages) - 1
    grown = run.grow("t1", last)
    assert len(grown) == 1, "behind the agent's last words the user speaks again"

    async def bye(request: rollout.Request) -> str:
        return "Bye. ###STOP###"

    ended = rollout.run(shop, model=seller, user=bye, max_turns=3, run_dir="runs/bye", progress=False)
    with pytest.raises(rollout.ConfigError, match="the conversation ends with message 6"):
        ended.grow("t1", 6)


@pytest.mark.parametrize("strategy", ["mcts", "random_tree"])
def test_a_branch_of_a_tree_is_grown_on_as_a_chain_is(strategy: str) -> None:
    run = sell(strategy=strategy)
    branched = next(each for each in run.trajectories if each.branch is not None and each.branch.parent is not None)
    (grown,) = run.grow(branched, 2)
    assert grown.branch is not None
    assert grown.branch.parent == branched.id
    assert list(grown.messages[:3]) == list(branched.messages[:3])


def test_an_agent_of_ones_own_is_run_over_the_shared_part_again() -> None:
    run = sell(agent=plan_first)
    corrected = run.correct("t1", 4, calls=[CALL])
    (grown,) = run.grow(corrected)
    assert list(grown.messages[:5]) == list(corrected.messages)
    assert grown.status == "completed"


def test_what_people_add_is_no_part_of_the_run() -> None:
    run = sell(samples=2)
    figures = (run.finished, run.solved, run.mean_reward, run.trajectories.ids)
    lines = (RUN / "outputs" / "Cart.jsonl").read_bytes()
    run.grow(run.correct("t1", 1, calls=[CALL]), n=3)
    resumed = sell(samples=3)
    assert resumed.trajectories.ids == ["t1", "t1~1", "t1~2"], "a resume adds what it is asked for"
    assert figures[3] == ["t1", "t1~1"]
    assert (RUN / "outputs" / "Cart.jsonl").read_bytes().startswith(lines)
    assert all(reward == 1.0 for reward in (each.reward for each in resumed.trajectories))
    assert resumed.people is not None
    assert resumed.people.finished == 4


def test_a_model_that_does_not_exist_is_refused_and_nothing_is_grown() -> None:
    run = sell()
    with pytest.raises(rollout.ConfigError, match="there is no provider 'nobody'"):
        run.grow("t1", 2, model="nobody/none")
    assert run.people is not None
    assert run.people.finished == 0


@pytest.mark.parametrize(
    ("keys", "says"), [({"n": 0}, "n: expected 1 or more"), ({"temperature": -1.0}, "temperature: expected 0")]
)
def test_a_wish_that_makes_no_sense_is_refused(keys: dict[str, Any], says: str) -> None:
    run = sell()
    with pytest.raises(rollout.ConfigError, match=says):
        run.grow("t1", 2, **keys)


async def test_a_run_that_is_going_on_is_grown_on_and_not_disturbed() -> None:
    first, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: rollout.Request) -> Any:
        if request.messages[0].role == "system" and first.is_set():
            await go_on.wait()
        answer = await seller(request)
        if answer == "Done.":
            first.set()
        return answer

    running = asyncio.create_task(
        rollout.arun(busy_shop, model=slow, run_dir=RUN, progress=False, config={"max_workers": 1})
    )
    await first.wait()
    while not (run := rollout.load_run(RUN)).finished:
        await asyncio.sleep(0)
    assert not running.done()
    corrected = await asyncio.to_thread(run.correct, run.trajectories[0], 1, "Sorry.")
    assert corrected.id == "t0~+1"
    go_on.set()
    ended = await running
    assert ended.finished == 6
    assert ended.solved == 6


def test_growth_that_is_killed_is_finished_by_whoever_resumes_it(tmp_path: Path) -> None:
    script = tmp_path / "grow_slowly.py"
    script.write_text(
        "import asyncio, pathlib, rollout\n"
        "from tests.api.shop import seller, shop\n"
        "async def slow(request):\n"
        "    if request.messages[-1].role == 'tool' and not pathlib.Path('go').exists():\n"
        "        pathlib.Path('asked').touch()\n"
        "        await asyncio.sleep(600)\n"
        "    return await seller(request)\n"
        "if __name__ == '__main__':\n"
        "    rollout.run(shop, model=seller, run_dir='runs/shop').grow('t1', 1, n=2, model=slow)\n"
    )
    process = subprocess.Popen([sys.executable, script], cwd=tmp_path, env=_environment())
    while not (tmp_path / "asked").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "go").touch()
    resumed = rollout.load_run(RUN).resume_growths()
    assert [each.id for each in resumed] == ["t1~+1", "t1~+2"]
    assert [each.reward for each in resumed] == [1.0, 1.0]
    assert [spoken(each)[1:3] for each in resumed] == [["assistant: ['add']", "tool: 1 × mug"]] * 2
    assert rollout.load_run(RUN).resume_growths() == []


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
