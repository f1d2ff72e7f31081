"""Attempts share nothing, whatever a world keeps its state in."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import rollout

BRANCHING = {"name": "random_tree", "params": {"trees": 1, "expansions": 6}}


async def press(request: rollout.Request) -> Any:
    pressed = sum(message.role == "tool" for message in request.messages)
    return "Done." if pressed >= 3 else {"tool_calls": [{"function": {"name": "press", "arguments": {}}}]}


def answers(run: rollout.Run) -> set[tuple[str | None, ...]]:
    return {tuple(message.content for message in one.messages if message.role == "tool") for one in run.trajectories}


def attempt(world: Any, info: dict[str, Any] | None = None, **more: Any) -> rollout.Run:
    button = rollout.Environment(tasks=[rollout.Task("t", "Go.", info={} if info is None else info)], world=world)
    return rollout.run(button, model=press, progress=False, config={"enable_monitor": False}, **more)


def test_a_task_without_info_is_no_place_where_attempts_meet() -> None:
    class Shared(rollout.World):
        def __init__(self, task: rollout.Task) -> None:
            self.presses = task.info.setdefault("presses", [])

        @rollout.tool
        def press(self) -> str:
            """Press the button."""
            self.presses.append(1)
            return str(len(self.presses))

    info: dict[str, Any] = {}
    assert answers(attempt(Shared, info, samples=4)) == {("1", "2", "3")}
    assert info == {}


def test_state_in_slots_is_part_of_snapshots() -> None:
    class Slotted(rollout.World):
        __slots__ = ("__hidden", "presses")

        def __init__(self) -> None:
            self.presses = self.__hidden = 0

        @rollout.tool
        def press(self) -> str:
            """Press the button."""
            self.presses += 1
            self.__hidden += 10
            return str(self.presses + self.__hidden)

    run = attempt(Slotted, strategy=BRANCHING, record_states=True)
    assert any(one.branch is not None and one.branch.shared_messages > 1 for one in run.trajectories)
    assert answers(run) == {("11", "22", "33")}
    assert len(set(run.trajectories[0].states)) > 1


def test_files_keep_their_modes_links_and_empty_folders() -> None:
    class Files(rollout.World):
        def setup(self) -> None:
            script = self.workdir / "bin" / "hello.sh"
            script.parent.mkdir()
            script.write_text("#!/bin/sh\necho hello\n")
            script.chmod(0o755)
            (self.workdir / "relative").symlink_to("bin/hello.sh")
            (self.workdir / "absolute").symlink_to(script)
            (self.workdir / "empty").mkdir()

        @rollout.tool
        def press(self) -> str:
            """Press the button."""
            said = [subprocess.check_output([self.workdir / name], text=True) for name in ("relative", "absolute")]
            outside = os.path.realpath(self.workdir / "absolute") != str(self.workdir.resolve() / "bin" / "hello.sh")
            return f"{said} {(self.workdir / 'empty').is_dir()} {outside}"

    run = attempt(Files, strategy=BRANCHING)
    assert any(one.branch is not None and one.branch.shared_messages > 1 for one in run.trajectories)
    assert answers(run) == {("['hello\\n', 'hello\\n'] True False",) * 3}
