"""Worlds whose objects refer to one another are compared as others are; what cannot be copied is replayed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import rollout


@dataclasses.dataclass
class User:
    name: str
    friends: list[User] = dataclasses.field(default_factory=list)


class Room:
    def __init__(self, name: str) -> None:
        self.name = name
        self.exits: dict[str, Room] = {}


class Club(rollout.World):
    def setup(self) -> None:
        self.users = [User(f"user {n}") for n in range(12)]
        for user in self.users:
            user.friends = [other for other in self.users if other is not user]

    @rollout.tool
    def rename(self, name: str) -> str:
        """Give the first user another name."""
        self.users[0].name = name
        return "ok"


class House(rollout.World):
    def setup(self) -> None:
        self.rooms = {(x, y): Room(f"{x} {y}") for x in range(5) for y in range(5)}
        for (x, y), room in self.rooms.items():
            for way, (dx, dy) in {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}.items():
                if (x + dx, y + dy) in self.rooms:
                    room.exits[way] = self.rooms[x + dx, y + dy]
        self.here = self.rooms[0, 0]

    @rollout.tool
    def go(self, way: str) -> str:
        """Go to the next room."""
        self.here = self.here.exits[way]
        return self.here.name


def outcomes(world: type[rollout.World], tool: str, right: dict[str, Any], made: dict[str, Any]) -> list[bool | None]:
    """Whether the state after calls that are made is that after the right call."""

    async def model(request: rollout.Request) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return "Done."
        return {"tool_calls": [{"function": {"name": tool, "arguments": made}}]}

    task = rollout.Task("t1", "Please.", actions=[rollout.call(tool, **right)])
    environment = rollout.Environment(tasks=[task], world=world)
    run = rollout.run(environment, model=model, record_states=True, progress=False)
    return [attempt.success if attempt.scored else None for attempt in run.trajectories]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("world", "tool", "right", "wrong"),
    [(Club, "rename", {"name": "Ada"}, {"name": "Eve"}), (House, "go", {"way": "east"}, {"way": "north"})],
)
def test_states_of_objects_that_refer_to_one_another_are_compared(
    world: type[rollout.World], tool: str, right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    assert outcomes(world, tool, right, right) == [True]
    assert outcomes(world, tool, right, wrong) == [False]


class Queue(rollout.World):
    """A list of which each entry holds the next: too deep to be copied."""

    def setup(self) -> None:
        self.first: dict[str, Any] | None = None
        for number in range(1000):
            self.first = {"number": number, "next": self.first}

    @rollout.tool
    def serve(self) -> str:
        """Serve whoever is first."""
        assert self.first is not None
        served, self.first = self.first["number"], self.first["next"]
        return str(served)


class Disk(rollout.World):
    """A folder with a name that is not UTF-8."""

    def setup(self) -> None:
        (self.workdir / "caf\udce9").write_text("")

    @rollout.tool
    def serve(self) -> str:
        """Write a file."""
        (self.workdir / "served").write_text("")
        return "999"


@rollout.scorer
def served_first(trajectory: rollout.Trajectory) -> bool:
    return any(message.content == "999" for message in trajectory.messages if message.role == "tool")


@pytest.mark.parametrize("world", [Queue, Disk])
@pytest.mark.parametrize("how", [{}, {"strategy": "random_tree"}])
def test_a_world_that_cannot_be_copied_is_replayed(world: type[rollout.World], how: dict[str, Any]) -> None:
    task = rollout.Task("t1", "Please.", actions=[rollout.call("serve")])
    environment = rollout.Environment(tasks=[task], world=world, scorers=[served_first])
    run = rollout.run(environment, model="builtin/oracle", record_states=True, progress=False, **how)
    assert {(attempt.status, attempt.reward) for attempt in run.trajectories} == {("completed", 1.0)}
