"""The arguments of `rollout.run`: what is missing is an error before anything runs."""

from __future__ import annotations

import pytest

import rollout

talk = rollout.Environment(tasks=["Hello."], name="talk")


@pytest.mark.parametrize("agent", [None, {"temperature": 0.5}])
def test_without_a_model_nothing_runs(agent: dict[str, float] | None) -> None:
    with pytest.raises(rollout.ConfigError, match="model: missing"):
        rollout.run(talk, agent=agent)


def test_an_agent_of_its_own_needs_no_model() -> None:
    async def greet(task: rollout.Task, session: rollout.Session) -> None:
        await session.say("Good morning.")

    (trajectory,) = rollout.run(talk, agent=greet, progress=False).trajectories
    assert trajectory.messages[-1].content == "Good morning."


def test_a_world_in_place_of_an_environment_is_named() -> None:
    class Empty(rollout.World):
        pass

    with pytest.raises(rollout.ConfigError, match=r"is a world; expected rollout.Environment"):
        rollout.run(Empty, model="builtin/oracle")  # type: ignore[arg-type]


def test_an_environment_beside_another_one_is_refused() -> None:
    with pytest.raises(rollout.ConfigError, match="environment: leave out; the first argument is the environment"):
        rollout.run(talk, model="builtin/oracle", environment=rollout.Environment(tasks=["Hi."], name="other"))
