"""The reinforcement-learning example learns: rollouts of this engine raise the reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import skip_without

skip_without("torch", "needs torch")
skip_without("numpy", "needs the extra rollout-engine[train]")


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_rollouts_raise_the_reward() -> None:
    from examples.rl.train import plot, train

    rewards = await train(Path("rl"), updates=30)
    assert len(rewards) == 30
    assert sum(rewards[:5]) / 5 < 0.4, "it begins by guessing among six colours"
    assert sum(rewards[-5:]) / 5 > 0.7
    assert plot(rewards).startswith("<svg")


async def test_what_it_trains_on_is_what_was_sampled() -> None:
    import torch

    from examples.rl.tiny_model import EOS, TinyModel, encode_chat
    from examples.rl.train import train
    from rollout.store.reading.reader import open_reader

    rewards = await train(Path("rl"), updates=2, groups_per_update=2, samples=3)
    assert len(rewards) == 2
    checked = 0
    with open_reader(Path("rl/run")) as reader:
        for episode in range(1, 13):
            for body in reader.nodes(episode):
                tokens = body.generation.tokens if body.generation is not None else None
                assert body.kind != "generation" or tokens is not None, "every answer has its tokens"
                if tokens is not None:
                    assert len(tokens.logprobs) == len(tokens.completion_ids)
                    assert EOS not in tokens.completion_ids[:-1]
                    checked += 1
    assert checked >= 12
    again = await train(Path("rl"), updates=2, groups_per_update=2, samples=3)
    assert len(again) == 2, "trained again, it begins again"
    prompt = encode_chat([{"role": "user", "content": "Press the red button"}])
    torch.manual_seed(0)
    model = TinyModel()
    assert model.sample(prompt, 1.0, 5) == model.sample(prompt, 1.0, 5), "the same seed samples the same"
