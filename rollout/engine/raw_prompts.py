"""What a model was sent before each of its answers, made again from a saved trajectory: the seed's `raw_prompt`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from rollout.agents.viewing import requests_of
from rollout.engine.sources import Prompts, Source
from rollout.errors import ConfigError
from rollout.trajectories.labels import NoPrompt
from rollout.trajectories.saved import BadLine, SavedLine


def raw_prompts(run_dir: Path, output: Path) -> Callable[[SavedLine], list[str | None]]:
    """For the trajectories of a run: the messages of each request as JSON text, images by their place in the run.

    A trajectory whose requests cannot be made again (its prompt's blob is gone) has none.
    """
    prompts, source = Prompts([run_dir]), Source(output, run_dir.name, run_dir)

    def of(line: SavedLine) -> list[str | None]:
        try:
            requests = requests_of(line, prompts.of(line, source), lambda name: f"blobs/{name}")
            return [msgspec.json.encode(messages).decode() for messages in requests]
        except (NoPrompt, BadLine, ConfigError):
            return []

    return of
