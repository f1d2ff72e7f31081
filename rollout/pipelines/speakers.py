"""Who speaks in a dataset's episodes, made from the configuration: how models are sampled from, and users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollout.agents.users.model import ModelUser
from rollout.agents.users.person import PersonUser
from rollout.agents.users.scripted import BuiltinUser, ScriptedUser
from rollout.agents.users.user import User
from rollout.config.models import SamplingKeys
from rollout.config.models import User as UserConfig
from rollout.core.task import Task
from rollout.core.world import World
from rollout.engine.plan import MakeUser
from rollout.environments.suites.suite import Suite
from rollout.models.model import Sampling
from rollout.models.registry import Registry


def make_sampling(keys: SamplingKeys, max_tokens: int | None, extra_body: dict[str, Any]) -> Sampling:
    """The sampling parameters of a request, from a config section and the registry's defaults."""
    extra = {**extra_body, **keys.extra_body}
    if keys.enable_thinking:
        extra["enable_thinking"] = True
    if keys.thinking is not None:
        extra["thinking"] = keys.thinking
    return Sampling(
        temperature=keys.temperature,
        top_p=keys.top_p,
        top_k=keys.top_k,
        min_p=keys.min_p,
        max_tokens=keys.max_tokens or max_tokens,
        presence_penalty=keys.presence_penalty,
        frequency_penalty=keys.frequency_penalty,
        repetition_penalty=keys.repetition_penalty,
        stop=tuple(keys.stop),
        # Servers refuse alternatives without the tokens that they are alternatives to.
        logprobs=getattr(keys, "logprobs", False) or bool(getattr(keys, "top_logprobs", None)),
        top_logprobs=getattr(keys, "top_logprobs", None),
        tool_choice=getattr(keys, "tool_choice", None),
        parallel_tool_calls=getattr(keys, "parallel_tool_calls", None),
        extra=extra,
    )


def user_maker(config: UserConfig, registry: Registry, suite: Suite | None) -> tuple[MakeUser, str]:
    """A maker of a dataset's users, and what to call them."""
    guidelines = suite.user_guidelines if suite is not None else None
    make, name = _bare_user_maker(config, registry, guidelines, is_suite=suite is not None)

    def make_user(task: Task, seed: int, world: World) -> User:
        user = make(task, seed)
        if suite is not None:
            user.world = suite.user_world(task, world)
        return user

    return make_user, name


def _bare_user_maker(
    config: UserConfig, registry: Registry, guidelines: str | None, *, is_suite: bool
) -> tuple[Callable[[Task, int], User], str]:
    """A maker of users that have no tools of their own yet, and what to call them."""
    if config.kind == "builtin":
        return BuiltinUser, "builtin/user"
    if config.kind == "person":
        return lambda task, seed: PersonUser(brief=task.user_system_prompt), "person"
    if config.kind == "scripted":
        lines = config.messages

        def make_scripted(task: Task, seed: int) -> User:
            return ScriptedUser(lines or task.user_turns, task.opening_users, goes_on=is_suite)

        return make_scripted, "scripted"
    model = registry.model(config.model, api_base=config.api_base, api_key=secret_text(config.api_key))
    entry = registry.resolve(config.model).entry
    sampling = make_sampling(config, entry.max_tokens, entry.extra_body)
    guidelines = config.custom_guidelines or guidelines
    return lambda task, seed: ModelUser(model, sampling, task, seed, guidelines), config.model


def secret_text(value: Any) -> str | None:
    """What a key of the configuration hides."""
    return None if value is None else str(value.get_secret_value())
