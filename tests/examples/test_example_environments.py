"""The two environments of `examples/`: they run as scripts, resume, branch, and grade what was done."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rollout
from examples.file_editing import Folder, editing
from examples.guess_the_number import MAX_GUESSES, game, player

EXAMPLES = Path(__file__).parents[2] / "examples"


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("script", "printed"), [("guess_the_number", "up-to-100: 4 attempts"), ("file_editing", "rename: 4 attempts")]
)
def test_each_runs_as_a_script_and_draws_a_tree(script: str, printed: str) -> None:
    environment = {"PYTHONPATH": str(EXAMPLES.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{script}.py"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mean reward 0." in done.stdout
    assert printed in done.stdout
    assert "└─ " in done.stdout


async def test_a_game_resumes_in_the_middle_and_pays_for_no_guess_twice() -> None:
    asked = 0
    is_cancelled = False

    async def counted(request: rollout.Request) -> dict[str, object]:
        nonlocal asked, is_cancelled
        if asked == 9 and not is_cancelled:
            is_cancelled = True
            running.cancel()
        asked += 1
        return await player(request)

    running = asyncio.ensure_future(rollout.arun(game, model=counted, samples=2, run_dir="run", progress=False))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rollout.load_run("run").finished < 6
    run = await rollout.arun(game, model=counted, samples=2, run_dir="run", progress=False)
    whole = await rollout.arun(game, model=player, samples=2, progress=False)
    assert said(run) == said(whole)
    assert asked == sum(len(trajectory.generated) for trajectory in run.trajectories)


def said(run: rollout.Run) -> dict[str, list[str | None]]:
    return {one.id: [message.content for message in one.messages] for one in run.trajectories}


def test_branches_of_a_search_start_from_the_state_of_their_node() -> None:
    strategy = {"name": "mcts", "params": {"simulations": 12}}
    run = rollout.run(game, model=player, strategy=strategy, progress=False)
    branched = [one for one in run.trajectories if one.branch is not None and one.branch.shared_messages > 1]
    assert len(branched) > 3
    for trajectory in run.trajectories:
        (score,) = trajectory.scores
        answers = [message.content or "" for message in trajectory.messages if message.role == "tool"]
        assert score.evidence == {"guesses": len(answers)}
        assert score.is_pass == answers[-1].endswith("right!")


def test_fewer_guesses_are_worth_more_and_a_lost_game_nothing() -> None:
    async def never(request: rollout.Request) -> dict[str, object]:
        return calls("guess", number=0)

    won = rollout.run(game, model=player, samples=8, progress=False).trajectories.where(success=True)
    by_guesses = {trajectory.tool_calls: trajectory.reward for trajectory in won}
    assert len(by_guesses) > 1
    assert [by_guesses[count] for count in sorted(by_guesses)] == sorted(by_guesses.values(), reverse=True)
    lost = rollout.run(game, model=never, config={"enable_monitor": False}, progress=False)
    assert [(one.reward, one.stop_reason) for one in lost.trajectories] == [(0.0, "max_steps")] * 3
    assert lost.trajectories[0].tool_calls == MAX_GUESSES


def test_right_edits_are_worth_1_half_of_them_a_half_and_damage_less() -> None:
    def agent_of(*edits: dict[str, Any]) -> Any:
        async def edit(task: rollout.Task, session: rollout.Session) -> None:
            for arguments in edits:
                await session.call("replace", **arguments)

        return edit

    first = {"name": "sums.py", "old": "def add", "new": "def total"}
    second = {"name": "main.py", "old": "add(", "new": "total("}
    harmful = {"name": "sums.py", "old": "return", "new": "return 1 +"}

    def reward(*edits: dict[str, Any]) -> float | None:
        run = rollout.run(editing, agent=agent_of(*edits), model="builtin/oracle", limit=1, progress=False)
        return run.trajectories[0].reward

    assert reward(first, second) == 1.0
    assert reward(first) == 0.5
    assert reward(first, second, harmful) == 0.5
    assert reward() == 0.0


def test_files_outside_of_the_folder_cannot_be_reached() -> None:
    async def curious(task: rollout.Task, session: rollout.Session) -> None:
        await session.call("read_file", name="../../etc/passwd")
        await session.call("write_file", name="/tmp/escaped.txt", text="out")

    (trajectory,) = rollout.run(editing, agent=curious, model="builtin/oracle", limit=1, progress=False).trajectories
    results = [message.content or "" for message in trajectory.messages if message.role == "tool"]
    assert all("is outside of the folder" in result for result in results)
    assert len(trajectory.error_kinds) == 2
    assert not Path("/tmp/escaped.txt").exists()


async def test_files_are_part_of_the_snapshots_of_a_folder() -> None:
    strategy = {"name": "mcts", "params": {"simulations": 8}}
    agent = {"model": "builtin/oracle", "params": {"wrong_argument": 0.3, "stop_early": 0.2}}
    run = await rollout.arun(editing, agent=agent, strategy=strategy, progress=False)
    assert any(one.branch is not None and one.branch.shared_messages > 1 for one in run.trajectories)
    solved = run.trajectories.where(success=True)
    assert {one.task_id for one in solved} == {"rename", "changelog"}
    for trajectory in solved:
        written = [message for message in trajectory.messages if "written" in (message.content or "")]
        assert len(written) >= 2


async def test_a_folder_comes_back_from_its_snapshot() -> None:
    task = next(iter(editing.tasks))
    world = Folder.__new__(Folder)
    await world.open(task, 1)
    before = await world.snapshot()
    assert before is not None
    world.write_file("sums.py", "")
    world.write_file("new.py", "")
    await world.restore(before)
    assert world.list_files() == ["main.py", "sums.py"]
    assert world.read_file("sums.py") == task.info["files"]["sums.py"]
    await world.close()
