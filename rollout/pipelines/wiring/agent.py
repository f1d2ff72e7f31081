"""The agent and the user of a dataset, made from the configuration: sampling, prompts, views, simulated users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollout.agents.agent import Agent, as_agent
from rollout.agents.chat import ChatAgent
from rollout.agents.dialects import TemplateDialect
from rollout.agents.formats import make_dialect
from rollout.agents.users.model import ModelUser
from rollout.agents.users.person import PersonUser
from rollout.agents.users.scripted import BuiltinUser, ScriptedUser
from rollout.agents.users.user import User
from rollout.agents.view import ReasoningRule
from rollout.agents.viewing import Viewing
from rollout.config.models import ModelEntry, SamplingKeys, UserConfig
from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from rollout.core.task import Task
from rollout.core.text_files import read_text
from rollout.core.world import World
from rollout.engine.plan import MakeUser
from rollout.environments.environment import Environment, OpenEnvironment
from rollout.models.model import Sampling
from rollout.models.registry import Registry, Resolved


def make_sampling(keys: SamplingKeys, found: Resolved) -> Sampling:
    """The sampling parameters of a request, from a config section and the registry's defaults."""
    entry = found.entry
    extra = {**entry.extra_body, **keys.extra_body}
    if keys.enable_thinking:
        extra["enable_thinking"] = True
    if keys.thinking is not None:
        extra["thinking"] = keys.thinking
    return Sampling(
        temperature=None if found.has_fixed_temperature(keys.api_base) else keys.temperature,
        top_p=keys.top_p,
        top_k=keys.top_k,
        min_p=keys.min_p,
        max_tokens=keys.max_tokens or entry.max_tokens,
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


def describe_temperatures(name: str, dataset: Dataset, registry: Registry) -> list[str]:
    """What to tell where a temperature is set that the model would refuse."""
    told = []
    user = dataset.user if dataset.user is not None and dataset.user.kind == "model" else None
    for key, keys in (("agent", dataset.agent), ("user", user)):
        if keys is None or "temperature" not in keys.model_fields_set:
            continue
        if keys.temperature not in (None, 1) and registry.resolve(keys.model).has_fixed_temperature(keys.api_base):
            told.append(f"datasets.{name}.{key}.temperature: {keys.model} takes none but its own, so it is not sent")
    return told


def make_program(name: str, reference: str | None) -> Agent:
    """What decides in a dataset's attempts: the chat agent, or the one that is named."""
    if reference is None:
        return ChatAgent()
    found = find_plugin("rollout.agents", reference)
    if found is None:
        raise ConfigError(
            f"datasets.{name}.agent.program: there is no agent {reference!r}; expected module:Name, or the name of an "
            "entry point of rollout.agents"
        )
    return as_agent(found, f"datasets.{name}.agent.program: {reference}")


def make_viewing(
    name: str, dataset: Dataset, entry: ModelEntry, environment: Environment, *, sees_images: bool
) -> Viewing:
    """What a dataset's agent is sent, and in which form. Raises ConfigError where its keys do not go together."""
    agent, traits = dataset.agent, environment.traits
    if agent.prompt is not None and (not traits.has_prompts or agent.system_prompt_file is not None):
        raise ConfigError(
            f"datasets.{name}.agent.prompt: is for datasets with web that have no other system prompt; leave one out"
        )
    if agent.max_rounds is not None and dataset.max_turns > 1:
        raise ConfigError(
            f"datasets.{name}.agent.max_rounds: needs max_turns: 1, because what a user says is never left out"
        )
    if agent.tool_format != "native":
        if entry.constrain_tools:
            raise ConfigError(
                f"datasets.{name}.agent.tool_format: {agent.model} has constrain_tools, which forces calls in a form "
                "of its own; use one or the other"
            )
        if traits.do_tools_vary:
            raise ConfigError(
                f"datasets.{name}.agent.tool_format: {agent.tool_format} tells the model its tools once, but those of "
                f"{environment.name} differ by task and turn; use native"
            )
    return Viewing(
        ReasoningRule(agent.reasoning or entry.reasoning),
        TemplateDialect(must_call=traits.must_call)
        if entry.token_in and agent.tool_format == "native"
        else make_dialect(agent.tool_format, must_call=traits.must_call),
        entry.image_urls if sees_images else None,
        agent.max_images,
        agent.max_rounds,
    )


def describe_blindness(environment: Environment, viewing: Viewing, found: Resolved) -> str | None:
    """A warning where an agent is shown images only and its model is sent none; else None."""
    cause = environment.traits.images_only
    if cause is None or viewing.images is not None or found.kind == "builtin":
        return None
    return (
        f"{cause} shows pages by screenshots alone, and {found.name} is sent none; set images: true for it in the "
        "models registry"
    )


def system_prompt(name: str, dataset: Dataset, environment: Environment) -> str | None:
    """The agent's system prompt: the dataset's file or the environment's, behind the preamble."""
    path = dataset.agent.system_prompt_file
    if path is None:
        text = environment.system_for(dataset.agent)
    else:
        try:
            text = read_text(path)
        except OSError as error:
            raise ConfigError(f"datasets.{name}.agent.system_prompt_file: {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            text = f"datasets.{name}.agent.system_prompt_file: {path}: is not UTF-8 text: {error.reason}"
            raise ConfigError(text) from error
    if dataset.agent.preamble is None:
        return text
    return dataset.agent.preamble if text is None else f"{dataset.agent.preamble}\n\n{text}"


def user_maker(
    config: UserConfig, registry: Registry, environment: Environment, opened: OpenEnvironment
) -> tuple[MakeUser, str]:
    """A maker of a dataset's users, and what to call them."""
    make, name = _bare_user_maker(config, registry, environment)

    def make_user(task: Task, seed: int, world: World) -> User:
        user = make(task, seed)
        user.world = opened.user_world(task, world)
        return user

    return make_user, name


def _bare_user_maker(
    config: UserConfig, registry: Registry, environment: Environment
) -> tuple[Callable[[Task, int], User], str]:
    """A maker of users that have no tools of their own yet, and what to call them."""
    if config.kind == "builtin":
        return BuiltinUser, "builtin/user"
    if config.kind == "person":
        return lambda task, seed: PersonUser(brief=task.user_system_prompt), "person"
    if config.kind == "scripted":
        lines = config.messages
        goes_on = environment.traits.do_scripts_go_on

        def make_scripted(task: Task, seed: int) -> User:
            return ScriptedUser(lines or task.user_turns, task.opening_users, goes_on=goes_on)

        return make_scripted, "scripted"
    model = registry.model(config.model, api_base=config.api_base, api_key=secret_text(config.api_key))
    sampling = make_sampling(config, registry.resolve(config.model))
    guidelines = config.custom_guidelines or environment.defaults.user_guidelines
    return lambda task, seed: ModelUser(model, sampling, task, seed, guidelines), config.model


def secret_text(value: Any) -> str | None:
    """What a key of the configuration hides."""
    return None if value is None else str(value.get_secret_value())
