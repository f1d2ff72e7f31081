"""The functions of the public API that run things: `run`, `arun` and `stream`.

They do what `rollout run` does: the same checks, defaults, progress bar and journal. Synchronous functions run the
engine in a thread with an event loop of its own, so they also work where a loop is running (a notebook), and a consumer
that blocks for a minute stalls no request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from rollout.api.arguments import Arguments, What, open_arguments, read_arguments
from rollout.api.engine_thread import EngineThread
from rollout.api.runs import Run
from rollout.api.stream import Stream
from rollout.api.tracebacks import at_the_call
from rollout.core.errors import ConfigError
from rollout.engine.engine import Engine


@at_the_call
def run(
    environment: What = None,
    /,
    *,
    model: Any = None,
    agent: Any = None,
    user: Any = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool | None = None,
    progress: bool = True,
    config: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Run:
    """Roll out one or several environments, and return the run.

    `environment` is an `Environment`, several of them (a sequence, or a mapping by name), or the path of a YAML
    configuration. Where the keys name a domain, a suite or tools, it may be left out.

    `model` answers for the agent: a name of the registry, a `Model`, or an `async def(request)` that returns a
    `Generation`, a message as OpenAI's API writes it, or a text. `user` is who the agent talks to, given likewise.
    `agent` is an `Agent` of your own, an `async def(task, session)`, or a dict of the keys of `agent`.

    `run_dir` is where the run is recorded, by default a temporary folder. An existing run is resumed; with
    `resume=False` it is moved aside first. `config` has the top-level keys of a configuration (`models`, `seed`,
    `max_workers`, …); all other keyword arguments are the keys of a dataset (`samples`, `strategy`, `max_turns`, …).

    Raises `ConfigError` if an argument is wrong. Ctrl-C pauses the run, so that it can be resumed,
    and raises KeyboardInterrupt.
    """
    arguments = read_arguments(
        environment, model=model, agent=agent, user=user, run_dir=run_dir, resume=resume, config=config, keys=keys
    )
    with EngineThread(arguments.config.timeouts.grace) as thread:
        thread.run(lambda: _roll_out(arguments, progress, thread.watch))
    return Run(arguments.run_dir, arguments.objects)


async def arun(
    environment: What = None,
    /,
    *,
    model: Any = None,
    agent: Any = None,
    user: Any = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool | None = None,
    progress: bool = True,
    config: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Run:
    """`run` in the caller's event loop. If it is cancelled, the run is paused and can be resumed."""
    arguments = read_arguments(
        environment, model=model, agent=agent, user=user, run_dir=run_dir, resume=resume, config=config, keys=keys
    )
    await _roll_out(arguments, progress, lambda engine: None)
    return Run(arguments.run_dir, arguments.objects)


@at_the_call
def stream(
    environment: What = None,
    /,
    *,
    model: Any = None,
    agent: Any = None,
    user: Any = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool | None = None,
    progress: bool = False,
    ahead: int = 4,
    config: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Stream:
    """Roll out, and deliver the attempts at each task as soon as all of them have ended.

        with rollout.stream(shop, model="openai/gpt-5", samples=8) as groups:
            for group in groups:
                train(group.trajectories, group.rewards)

    Use it with `with` and `for`, or with `async with` and `async for`. Other tasks go on meanwhile, until `ahead`
    groups wait. A group counts as delivered when the next one is asked for: groups that were not delivered when the
    program ended come again when the run is resumed. Leaving the block early pauses the run. The other arguments are
    those of `run`.
    """
    arguments = read_arguments(
        environment, model=model, agent=agent, user=user, run_dir=run_dir, resume=resume, config=config, keys=keys
    )
    if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
        raise ConfigError(f"ahead: expected a number of groups, at least 1, got {ahead!r}")
    return Stream(arguments, ahead, progress)


async def _roll_out(arguments: Arguments, progress: bool, watch: Callable[[Engine], None]) -> None:
    async with open_arguments(arguments, progress) as opened:
        watch(opened.engine)
        await run_to_end(opened.engine)


async def run_to_end(engine: Engine) -> None:
    """Run an engine. A cancellation pauses it first, so that live attempts get to a point from which they resume."""
    running = asyncio.ensure_future(engine.run())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        engine.pause("cancelled")
        await running
        raise
