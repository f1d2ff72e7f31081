"""`--ping`: one tiny request to each model of a configuration, before thousands are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rollout.config.schema import Config, Retries, Timeouts
from rollout.core.errors import ContextLengthError, RolloutError
from rollout.core.messages import NO_TOOLS, Message, encode_message
from rollout.models.model import Model, Request, Sampling
from rollout.models.registry import Registry
from rollout.pipelines.wiring.agent import secret_text
from rollout.trajectories.causes import describe_cause

SECONDS = 30.0
"""A model that takes longer to say one word is reported."""
TOKENS = 16


class Ping(msgspec.Struct):
    """What one model answered."""

    model: str
    seconds: float = 0.0
    problem: str | None = None


class PingedModel(NamedTuple):
    """A model of the configuration; the same one is asked once."""

    name: str
    api_base: str | None = None
    api_key: str | None = None


async def ping_models(config: Config, names: Sequence[str]) -> list[Ping]:
    """Ask each model of these datasets that is not built in. Nothing is tried twice."""
    timeouts = Timeouts(connect=config.timeouts.connect, request=min(SECONDS, config.timeouts.request))
    registry = Registry(config.models, timeouts=timeouts, retries=Retries(attempts=1), local=config.local)
    async with registry, asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ping(registry, asked, config)) for asked in _models(config, names)]
    return [task.result() for task in tasks]


def _models(config: Config, names: Sequence[str]) -> list[PingedModel]:
    found: dict[PingedModel, None] = {}
    for name in names:
        dataset = config.datasets[name]
        agent, user = dataset.agent, dataset.user
        found.setdefault(PingedModel(agent.model, agent.api_base, secret_text(agent.api_key)))
        if user is not None and user.kind == "model" and dataset.max_turns > 1:
            found.setdefault(PingedModel(user.model, user.api_base, secret_text(user.api_key)))
        if dataset.scoring.judge is not None:
            found.setdefault(PingedModel(dataset.scoring.judge))
    if config.enable_monitor and config.monitor_use_llm_judge:
        found.setdefault(PingedModel(config.monitor_judge_model))
    return [asked for asked in found if not asked.name.startswith("builtin/")]


async def _ping(registry: Registry, asked: PingedModel, config: Config) -> Ping:
    started = time.perf_counter()
    message = Message(role="user", content="Say OK.")
    try:
        model: Model = registry.model(asked.name, api_base=asked.api_base, api_key=asked.api_key)
        async with asyncio.timeout(SECONDS + config.timeouts.connect):
            request = Request([message], [encode_message(message)], NO_TOOLS, Sampling(max_tokens=TOKENS))
            await model.generate(request)
    except TimeoutError:
        return Ping(asked.name, problem=f"{asked.name}: no answer within {SECONDS:g} s; is its server overloaded?")
    except ContextLengthError:
        pass  # it answered, and that is all that was asked
    except RolloutError as error:
        registry_file = None if config.models_config_file is None else str(config.models_config_file)
        return Ping(asked.name, problem=describe_cause(str(error), getattr(error, "check", None), registry_file))
    return Ping(asked.name, time.perf_counter() - started)
