"""Corrections and growths by a program: the implementation of `Run.correct` and `Run.grow`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollout.api.arguments import name_objects
from rollout.api.engine_thread import EngineThread
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall, is_readable, read_arguments
from rollout.core.plugins import Offers, offering
from rollout.pipelines.people.author import author_name
from rollout.pipelines.people.corrections import Correction, correct
from rollout.pipelines.people.growth import GrowthWish, grow, growth_config, plan_growth, unfinished_growths
from rollout.pipelines.people.people_run import open_people
from rollout.pipelines.people.remote_person import WrittenCall

CallLike = ToolCall | Mapping[str, Any]
"""A tool call, or a dict with its `name` and `arguments`."""


def correct_message(
    run_dir: Path,
    dataset: str,
    trajectory: str,
    message: int,
    instead: str | Message | None,
    calls: Sequence[CallLike],
    reasoning: str | None,
    author: str | None,
) -> str:
    """Add a correction. Returns the id of the attempt that ends at it."""
    content = instead
    if isinstance(instead, Message):
        content, calls, reasoning = instead.content, calls or instead.tool_calls, reasoning or instead.reasoning
    assert not isinstance(content, Message)
    correction = Correction(
        message=message,
        author=author_name(author),
        content=content,
        reasoning=reasoning,
        calls=[_written(call) for call in calls],
    )

    async def add() -> str:
        async with open_people(run_dir) as people:
            return (await correct(people, dataset, trajectory, correction)).id

    with EngineThread(0.0) as thread:
        return thread.run(add)


def grow_attempts(
    run_dir: Path,
    dataset: str,
    trajectory: str,
    message: int,
    count: int,
    temperature: float | None,
    author: str | None,
    models: Mapping[str, Any],
    objects: Mapping[str, Any],
    config: str | os.PathLike[str] | None,
) -> list[str]:
    """Grow attempts from a step, and wait for them. Returns their ids. `models` (`model`, `user_model`) are
    names or objects."""
    offers = Offers(objects)
    named = {key: name_objects(value, offers) for key, value in models.items() if value is not None}
    for key, name in named.items():
        if not isinstance(name, str):
            raise ConfigError(f"{key}: expected the name of a model, a Model, or an async function, got {name!r}")
    wish = GrowthWish(author=author_name(author), message=message, count=count, temperature=temperature, **named)
    settings = growth_config(run_dir, None if config is None else Path(config))
    with EngineThread(settings.timeouts.grace) as thread:

        async def live() -> list[str]:
            # Inside of the thread, because offered objects belong to its context.
            with offering(offers):
                async with open_people(run_dir) as people:
                    growth = await plan_growth(people, dataset, trajectory, wish, settings)
                    growth = await grow(people, growth, settings, watch=thread.watch)
                    if growth.error is not None:
                        raise ConfigError(growth.error)
                    recorded = people.journal.recorded_ids(dataset)
                    return [identifier for identifier in growth.ids if identifier in recorded]

        return thread.run(live)


def resume_growths(
    run_dir: Path, objects: Mapping[str, Any], config: str | os.PathLike[str] | None
) -> list[tuple[str, str]]:
    """Finish growths that were interrupted. Returns dataset and id of the attempts. Those in which a person plays
    a part wait for that person."""
    settings = growth_config(run_dir, None if config is None else Path(config))
    with EngineThread(settings.timeouts.grace) as thread:

        async def live() -> list[tuple[str, str]]:
            found = []
            with offering(Offers(objects)):
                async with open_people(run_dir) as people:
                    for growth in unfinished_growths(people.journal):
                        if growth.part is not None:
                            continue
                        done = await grow(people, growth, settings, watch=thread.watch)
                        if done.error is not None:
                            raise ConfigError(done.error)
                        found += [(growth.dataset, identifier) for identifier in growth.ids]
            return found

        return thread.run(live)


def _written(call: CallLike) -> WrittenCall:
    if isinstance(call, ToolCall):
        if not is_readable(call):
            raise ConfigError(f"{call.name}: the arguments are not a JSON object: {call.arguments}")
        return WrittenCall(call.name, read_arguments(call))
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ConfigError(f"a tool call: expected {{'name': …, 'arguments': {{…}}}}, got {dict(call)!r}")
    return WrittenCall(name, dict(arguments))
