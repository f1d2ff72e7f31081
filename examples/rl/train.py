"""Reinforcement learning on CPU in a minute: rollouts of this engine teach a tiny model which button to press.

The model begins with the form of a call and knows nothing of colours. Each update takes the groups that finished
(attempts at one task), gives each attempt its GRPO advantage, and follows the policy gradient on the very tokens that
were sampled, with their recorded log-probabilities. Episodes go on while the model changes.

    python -m examples.rl.train --updates 40 --plot reward.svg

Needs torch and numpy (`pip install 'rollout-engine[train]' torch`).
"""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

import torch
from torch.nn.functional import nll_loss

import rollout
from examples.rl.tiny_model import CALL, COLOURS, END_CALL, Server, TinyModel, encode_chat

CLIP = 0.2


class Panel(rollout.World):
    """Buttons of several colours."""

    @rollout.tool
    async def press(self, button: str) -> str:
        """Press a button.

        button: its colour.
        """
        return f"pressed {button}"


def make_environment(count: int, chance: random.Random) -> rollout.Environment:
    """Tasks that are solved by one right call."""
    colours = [chance.choice(COLOURS) for _ in range(count)]
    tasks = [
        rollout.Task(f"t{number}", f"Press the {colour} button", actions=[rollout.call("press", button=colour)])
        for number, colour in enumerate(colours)
    ]
    return rollout.Environment(name="buttons", tasks=tasks, world=Panel)


def warm_up(model: TinyModel, chance: random.Random, steps: int = 120) -> None:
    """Teach the form of a call and of an end, with colours that mean nothing."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        loss = torch.zeros(())
        for _ in range(8):
            asked, pressed = chance.choice(COLOURS), chance.choice(COLOURS)
            turns = [{"role": "user", "content": f"Press the {asked} button"}]
            turns += [{"role": "assistant", "content": f"{CALL}{pressed}{END_CALL}"}]
            turns += [{"role": "user", "content": f"pressed {pressed}"}, {"role": "assistant", "content": "Done."}]
            ids = torch.tensor([encode_chat(turns)[:-1]])
            loss = loss + nll_loss(model(ids)[0, :-1], ids[0, 1:])
        optimizer.zero_grad()
        (loss / 8).backward()
        optimizer.step()


def update(model: TinyModel, optimizer: torch.optim.Optimizer, groups: list[rollout.Group]) -> None:
    """One step along the clipped policy gradient, on the tokens as they were sampled."""
    losses, count = torch.zeros(()), 0
    for group in groups:
        for trajectory, advantages in zip(group.trajectories, group.advantages("grpo"), strict=True):
            for segment in trajectory.tokens.segments if trajectory.tokens is not None else ():
                scores = model(torch.tensor([segment.ids.tolist()]))[0]
                for span in segment.spans:
                    advantage = advantages[span.generation]
                    if advantage != advantage:
                        continue
                    sampled = torch.tensor(segment.ids[span.start : span.end].tolist())
                    then = torch.tensor(segment.logprobs[span.start : span.end].tolist())
                    now = scores[span.start - 1 : span.end - 1].gather(1, sampled[:, None])[:, 0]
                    ratio = (now - then).exp()
                    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                    losses = losses - torch.minimum(ratio * advantage, clipped * advantage).sum()
                    count += len(sampled)
    optimizer.zero_grad()
    (losses / max(count, 1)).backward()
    optimizer.step()


async def train(folder: Path, updates: int, groups_per_update: int = 6, samples: int = 8, seed: int = 0) -> list[float]:
    """Train; returns the mean reward of the attempts behind each update."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    chance = random.Random(seed)
    model = TinyModel()
    warm_up(model, chance)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    environment = make_environment(updates * groups_per_update, chance)
    server = Server(model)
    rewards: list[float] = []
    batch: list[rollout.Group] = []
    async with server as url:
        stream = rollout.stream(
            environment,
            agent={"model": "tiny", "temperature": 1.0, "tool_format": "text"},
            max_steps_per_turn=3,
            samples=samples,
            ahead=2,
            run_dir=folder / "run",
            resume=False,  # What another model said is no part of this training; it is moved aside.
            config={
                "max_workers": 16,
                "enable_monitor": False,
                "seed": seed,
                "models": {"tiny": {"api_base": url, "token_ids": True}},
            },
        )
        async with stream as groups:
            async for group in groups:
                batch.append(group)
                if len(batch) < groups_per_update:
                    continue
                known = [reward for one in batch for reward in one.rewards if reward is not None]
                rewards.append(sum(known) / max(len(known), 1))
                print(f"update {len(rewards):3}  reward {rewards[-1]:.2f}  {'#' * round(40 * rewards[-1])}")
                update(model, optimizer, batch)
                server.version += 1
                groups.weight_version = str(server.version)
                batch = []
    return rewards


def plot(rewards: list[float]) -> str:
    """The rewards as a line, in SVG."""
    width, height, edge = 640, 320, 40
    step = (width - 2 * edge) / max(len(rewards) - 1, 1)
    points = " ".join(
        f"{edge + n * step:.1f},{height - edge - r * (height - 2 * edge):.1f}" for n, r in enumerate(rewards)
    )
    marks = "".join(
        f'<line x1="{edge}" x2="{width - edge}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{edge - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>'
        for value in (0.0, 0.5, 1.0)
        for y in (height - edge - value * (height - 2 * edge),)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{marks}'
        f'<polyline points="{points}" fill="none" stroke="#2f6f5e" stroke-width="2"/>'
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">updates</text>'
        f'<text x="{width / 2}" y="20" text-anchor="middle">mean reward of the attempts behind each update</text></svg>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path("runs/rl"))
    parser.add_argument("--plot", type=Path, default=Path("reward.svg"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rewards = asyncio.run(train(given.folder, given.updates, seed=given.seed))
    given.plot.write_text(plot(rewards))
    print(f"wrote {given.plot}")


if __name__ == "__main__":
    main()
