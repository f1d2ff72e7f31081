"""A web rollout as an ordinary run: from WebGym's keys to the `Config` that the engine takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import SecretStr

from rollout.config.browsing import Browsers
from rollout.config.load import load_registry
from rollout.config.models import AgentConfig, ModelEntry
from rollout.config.schema import Config, Dataset, Retries, Scoring, Tail, Timeouts
from rollout.config.web import WebConfig
from rollout.core import seeds
from rollout.core.errors import ConfigError
from rollout.core.plugins import is_reference

PROVIDERS = frozenset(
    {"openai", "deepseek", "sglang", "llamacpp", "anthropic", "azure", "bedrock", "fireworks_ai", "gemini", "groq"}
    | {"mistral", "ollama", "ollama_chat", "openrouter", "together_ai", "vertex_ai", "xai"}
)
"""What `base_model` may begin with to mean a provider rather than a model of `vllm_server_url`, whose models are often
named in the same form: `organisation/model`."""
WIDTH, HEIGHT, POINTS = 1280, 768, 1000
"""WebGym's window, and the range of its coordinates."""
FAILED_GOBACKS = 3
"""So many calls of `goback` in a row that lead nowhere end an episode of training, never one of a test."""
UNLIMITED_STEPS = 30
"""Steps of a task for which nothing says how many it may take."""


class Paths(msgspec.Struct, frozen=True):
    """Where an iteration's files are."""

    run_dir: Path
    tasks: Path
    output: Path


class Translated(msgspec.Struct, frozen=True):
    """The run, and what a person should know about it."""

    config: Config
    notes: tuple[str, ...]


def translate(web: WebConfig, iteration: int, paths: Paths, environment: Mapping[str, str] | None = None) -> Translated:
    """The run of one iteration. Raises ConfigError on what cannot be run."""
    environment = os.environ if environment is None else environment
    env = web.env_config
    notes: list[str] = []
    models = load_registry(web.models_config_file, environment) if web.models_config_file is not None else {}
    agent_name, entry, is_served = _agent_model(web, models)
    if entry is not None:
        models = {**models, agent_name: entry}
    judge = _judge(web, environment, notes)
    judge_name = None
    if judge is not None:
        judge_name = judge.model if judge.model not in models else f"{judge.model} (judge)"
        assert judge_name is not None
        models = {**models, judge_name: judge}
    limit = max((web.max_steps_of(difficulty) or UNLIMITED_STEPS for difficulty in (1, 4, 7)), default=UNLIMITED_STEPS)
    dataset = Dataset(
        path=[paths.tasks],
        output_path=paths.output,
        web=web.web.model_copy(update=_web_settings(web)),
        agent=_agent(web, agent_name, is_served, notes),
        max_turns=1,
        max_steps_per_turn=limit,
        samples=web.attempts,
        scoring=Scoring(judge=judge_name),
    )
    config = Config(
        run_dir=paths.run_dir,
        datasets={web.split: dataset},
        models=models,
        max_workers=env.server_size,
        cluster=web.on_cluster,
        browsers=_browsers(web),
        timeouts=Timeouts(episode=env.task_timeout_minutes * 60, request=env.vllm_timeout),
        retries=Retries(attempts=1 + env.max_retries),
        tail=None
        if env.completion_threshold >= 1
        else Tail(threshold=env.completion_threshold, grace=env.completion_grace_period),
        monitor_max_failed_gobacks=FAILED_GOBACKS if web.split == "train" else 0,
        max_cost=web.max_cost,
        verbose=env.verbose,
        seed=seeds.derive(web.seed, web.split, iteration),
    )
    return Translated(config, tuple(notes))


def _browsers(web: WebConfig) -> Browsers:
    """The browsers: as many contexts as episodes, unless `browsers` itself says how many."""
    if "max_contexts" in web.browsers.model_fields_set:
        return web.browsers
    return web.browsers.model_copy(update={"max_contexts": web.env_config.server_size})


def _agent_model(web: WebConfig, models: Mapping[str, ModelEntry]) -> tuple[str, ModelEntry | None, bool]:
    """The agent's model: its name, its entry of the registry if it needs one, whether `vllm_server_url` serves it."""
    env, given = web.env_config, web.policy_config.base_model
    if not given:
        raise ConfigError(
            "policy_config.base_model: which model acts? Give its name on the server env_config.vllm_server_url "
            f"({env.vllm_server_url}), a provider/model, or builtin/oracle"
        )
    provider, _, rest = given.partition("/")
    shows_images = web.context_config.interaction_mode in ("coordinates", "set_of_marks")
    limits: dict[str, Any] = {
        "max_concurrency": env.max_vllm_sessions,
        "timeout": env.vllm_timeout,
        "images": shows_images,
    }
    if provider in ("builtin", "local"):
        return given, None, False
    if given in models:
        own = models[given]
        kept = {key: getattr(own, key) for key in ("max_concurrency", "timeout") if getattr(own, key) is not None}
        return given, own.model_copy(update={**limits, **kept}), False
    if is_reference(given):
        return given, ModelEntry(images=shows_images), False
    if env.vllm_server_url is None or (provider in PROVIDERS and rest):
        if not rest:
            raise ConfigError(
                f"policy_config.base_model: {given!r} names no provider, and env_config.vllm_server_url is null; "
                "expected provider/model, or the server's address"
            )
        return given, ModelEntry(provider=provider, model=rest, **limits), False
    name = rest if provider == "vllm" else given
    checkpoint = web.policy_config.checkpoint_path
    if checkpoint and (path := web.save_path / checkpoint).exists():
        name = str(path.resolve())
    base = env.vllm_server_url.rstrip("/").removesuffix("/v1")
    return name, ModelEntry(provider="vllm", model=name, api_base=f"{base}/v1", **limits), True


def _agent(web: WebConfig, model: str, is_served: bool, notes: list[str]) -> AgentConfig:
    policy, context, settings = web.policy_config, web.context_config, web.model_settings
    sampling: dict[str, Any] = {
        "temperature": policy.temperature,
        "top_p": policy.top_p,
        "max_tokens": policy.max_new_tokens,
    }
    if is_served:
        sampling |= {"top_k": policy.top_k, "min_p": policy.min_p}
    elif not model.startswith("builtin/"):
        notes.append(f"top_k and min_p are not sent: {model} is not served by env_config.vllm_server_url")
    return AgentConfig(
        model=model,
        tool_format="text" if settings.model_type.startswith("qwen3") else settings.model_type,
        prompt="complete" if settings.prompt_version == "complete" else "plain",
        max_rounds=context.max_rounds,
        max_images=context.max_images,
        # Thoughts of earlier steps are kept in the record and not sent back, as such models expect.
        reasoning="drop" if settings.model_type == "qwen3-think" else None,
        params=policy.params,
        **sampling,
    )


def _web_settings(web: WebConfig) -> dict[str, object]:
    """What WebGym's keys say of pages, where `web` says nothing else."""
    given = web.web.model_fields_set
    mode = web.context_config.interaction_mode
    settings: dict[str, object] = {
        "mode": mode,
        "width": WIDTH,
        "height": HEIGHT,
        "sites": tuple(web.sites),
        # Live sites have their scripts and styles on hosts of others.
        "assets": "public",
    }
    if mode == "coordinates":
        settings["coordinate_range"] = POINTS
    return {key: value for key, value in settings.items() if key not in given or (key == "sites" and value)}


def _judge(web: WebConfig, environment: Mapping[str, str], notes: list[str]) -> ModelEntry | None:
    """Who judges rubrics; None, and a note, where its key is not there."""
    whole, part = web.openai_config, web.openai_config.evaluation
    variable = part.openai_api_key_env_var or whole.openai_api_key_env_var
    key = environment.get(variable) if variable else None
    if variable and not key:
        notes.append(
            f"the judge's key is not there: {variable} is not set, so rubrics stay unjudged; set it, or "
            "openai_config.openai_api_key_env_var=null for a server that wants none"
        )
        return None
    return ModelEntry(
        model=part.model or whole.model,
        api_base=(part.base_url or whole.base_url).rstrip("/"),
        api_key=SecretStr(key) if key else None,
        max_concurrency=web.env_config.evaluation_workers,
        images=True,
    )
