"""Guess the number: a game with state, a tool that ends it, and a reward that is higher for fewer guesses.

    python examples/guess_the_number.py

The player is a short function, so no key is needed. To watch a language model play, pass its name instead:
`model="openai/gpt-5"`.
"""

from __future__ import annotations

import random

import rollout

MAX_GUESSES = 8


class Game(rollout.World):
    """One game. Its attributes are its state, which is copied when an attempt branches and restored when it resumes."""

    def __init__(self, task: rollout.Task) -> None:
        # `self.random` is seeded by the task, so every attempt at a task has the same secret.
        self.secret = self.random.randint(1, task.info["highest"])
        self.guesses: list[int] = []

    @rollout.tool
    def guess(self, number: int) -> str:
        """Guess the number. The answer says whether the secret number is higher or lower."""
        self.guesses.append(number)
        if number == self.secret:
            self.finish()
            return f"{number} is right!"
        return f"The number is {'higher' if self.secret > number else 'lower'} than {number}."


@rollout.scorer
def few_guesses(world: Game) -> rollout.Score:
    """Solved if the number was found. The partial credit is 1 for one guess and shrinks with every further one."""
    is_found = world.secret in world.guesses
    credit = 1 - (len(world.guesses) - 1) / MAX_GUESSES if is_found else 0.0
    return rollout.Score("few_guesses", float(is_found), partial=credit, evidence={"guesses": len(world.guesses)})


def make_task(highest: int) -> rollout.Task:
    ask = f"I am thinking of a number from 1 to {highest}. Find it in at most {MAX_GUESSES} guesses."
    return rollout.Task(f"up-to-{highest}", ask, info={"highest": highest})


game = rollout.Environment(
    name="guess-the-number",
    tasks=[make_task(10), make_task(100), make_task(1000)],
    world=Game,
    scorers=[few_guesses],
    reward="partial",
    max_steps_per_turn=MAX_GUESSES,
)


async def player(request: rollout.Request) -> dict[str, object]:
    """Guess at random between the bounds that are known. Everything is read from the request: a model has no state."""
    low, high = 1, int(str(request.messages[0].content).split(" to ")[1].split(".")[0])
    for message in request.messages:
        words = str(message.content).rstrip(".").split()
        if message.role == "tool" and words[-3] == "higher":
            low = int(words[-1]) + 1
        elif message.role == "tool":
            high = int(words[-1]) - 1
    number = random.Random(request.seed).randint(low, high)
    return {"tool_calls": [{"function": {"name": "guess", "arguments": {"number": number}}}]}


if __name__ == "__main__":
    run = rollout.run(game, model=player, samples=4, progress=False)
    print(f"{run.solved} of {run.finished} games won, mean reward {run.mean_reward:.2f}")
    print(run.tree("up-to-100").draw())
