"""BrowserGym's part of `benchmarks.web`, run in an environment of its own: one environment in one process.

Nothing is set but what it needs to find the pages: the window, the waits and what is observed are its defaults. Each
reset starts two browsers, one of them for its chat. `--no-waits` takes out its pauses (100 ms before each command of
Playwright's and 500 ms before each observation).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import browsergym.core.env
import browsergym.miniwob  # noqa: F401  (registers the tasks)
import gymnasium

from benchmarks.web_child import say, wait_for_word
from benchmarks.web_tasks import PLANS, Step

CALLS = {"click": "click({!r})", "type": "fill({!r}, {!r})", "select": "select_option({!r}, {!r})"}


class Seeded:
    """Gives the page the seed itself, where BrowserGym would draw another from it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def randint(self, low: int, high: int) -> int:
        return self._seed


def element_of(observation: dict[str, Any], step: Step) -> str:
    """The element that a step is for."""
    fitting = [
        node["browsergym_id"]
        for node in observation["axtree_object"]["nodes"]
        if "browsergym_id" in node
        and node["role"]["value"] == step.role
        and (not step.name or node["name"]["value"] == step.name)
    ]
    return fitting[step.place]


class Player:
    """Plays episodes, and notes how long resets and steps take."""

    def __init__(self, base: str, has_waits: bool) -> None:
        self._base = base
        self._waits: dict[str, Any] = {} if has_waits else {"slow_mo": 0, "pre_observation_delay": 0.0}
        self.resets: list[float] = []
        self.steps: list[float] = []

    def play(self, kind: str, seed: int) -> Iterator[None]:
        """Pauses once, behind the reset."""
        started = time.perf_counter()
        env = gymnasium.make(
            f"browsergym/miniwob.{kind}", task_kwargs={"base_url": f"{self._base}/miniwob/"}, **self._waits
        )
        make_task = env.unwrapped.task_entrypoint

        def make_seeded(seed: int, **options: Any) -> Any:
            task = make_task(seed=seed, **options)
            task.random = Seeded(seed)
            return task

        env.unwrapped.task_entrypoint = make_seeded
        observation, _ = env.reset(seed=seed)
        self.resets.append(time.perf_counter() - started)
        yield
        reward = 0.0
        for step in PLANS[kind](observation["goal"]):
            started = time.perf_counter()
            call = CALLS[step.action].format(element_of(observation, step), step.text)
            observation, reward, _, _, _ = env.step(call)
            self.steps.append(time.perf_counter() - started)
            assert not observation["last_action_error"], observation["last_action_error"]
            assert observation["screenshot"].size
        assert reward == 1, f"{kind}/{seed}: {observation['goal']}: {reward}"
        env.close()


def main() -> None:
    base, episodes, *flags = sys.argv[1:]
    first, *rest = json.loads(episodes)
    player = Player(base, "--no-waits" not in flags)
    warm = player.play(*first)
    next(warm)
    say(held=1)
    wait_for_word()
    for _ in warm:
        pass
    player.resets.clear()
    player.steps.clear()
    say(ready=1)
    wait_for_word()
    for kind, seed in rest:
        for _ in player.play(kind, seed):
            pass
    say(resets=player.resets, steps=player.steps)


if __name__ == "__main__":
    main()
