"""What becomes of WebGym's keys: the run that a web configuration means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.config.compose import compose_web
from rollout.config.schema import Config
from rollout.config.web_run import Paths, Translated, translate
from rollout.core.errors import ConfigError
from tests.conftest import write_yaml

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

PATHS = Paths(Path("exp/run"), Path("exp/run/tasks.jsonl"), Path("exp/out.jsonl"))


def translated(*overrides: str, environment: dict[str, str] | None = None, **more: Any) -> Translated:
    given = ["save_path=exp", "data_path=data", "policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct", *overrides]
    return translate(compose_web(given, **more)[0].config, 3, PATHS, environment or {})


def run_of(*overrides: str, **more: Any) -> Config:
    return translated(*overrides, **more).config


def test_limits_keep_their_meaning() -> None:
    config = run_of("env_config.server_size=7", "env_config.max_retries=4", "env_config.task_timeout_minutes=2")
    assert (config.max_workers, config.browsers.max_contexts) == (7, 7)
    assert config.retries.attempts == 5
    assert config.timeouts.episode == 120
    assert config.tail is not None
    assert (config.tail.threshold, config.tail.grace) == (0.95, 30)
    assert run_of("env_config.completion_threshold=1").tail is None
    assert config.monitor_max_failed_gobacks == 3
    assert run_of(config_name="rollout_test").monitor_max_failed_gobacks == 0, "a test never ends on gobacks"


def test_policy_is_a_model_of_the_server_with_all_its_sampling_keys() -> None:
    config = run_of(
        "env_config.vllm_server_url=http://gpu:8999/", "env_config.max_vllm_sessions=9", "policy_config.min_p=0"
    )
    agent = config.datasets["train"].agent
    entry = config.models[agent.model]
    assert (entry.provider, entry.api_base, entry.model) == ("vllm", "http://gpu:8999/v1", "Qwen/Qwen3-VL-8B-Instruct")
    assert (entry.max_concurrency, entry.timeout, entry.images) == (9, 240, True)
    assert (agent.temperature, agent.top_p, agent.top_k, agent.min_p, agent.max_tokens) == (1, 0.99, 2, 0, 3072)
    assert agent.min_p is not None, "it is sent, also where it is 0"


def test_assets_may_come_from_any_public_host_unless_said_otherwise() -> None:
    for given, assets in (([], "public"), (["+web.assets=site"], "site")):
        web = run_of(*given).datasets["train"].web
        assert web is not None
        assert web.assets == assets


def test_checkpoint_that_is_there_is_asked_for_instead_of_the_base_model() -> None:
    Path("exp/model.pt").mkdir(parents=True)
    config = run_of()
    assert config.datasets["train"].agent.model == str(Path("exp/model.pt").resolve())
    assert config.models[config.datasets["train"].agent.model].model == str(Path("exp/model.pt").resolve())
    assert run_of("policy_config.checkpoint_path=null").datasets["train"].agent.model == "Qwen/Qwen3-VL-8B-Instruct"


@pytest.mark.parametrize(
    ("base_model", "overrides", "provider", "model"),
    [
        ("vllm/openai/gpt-oss-20b", [], "vllm", "openai/gpt-oss-20b"),
        ("openai/gpt-5", [], "openai", "gpt-5"),
        ("acme/eagle", ["env_config.vllm_server_url=null"], "acme", "eagle"),
        ("eagle", [], "vllm", "eagle"),
        ("vllm/qwen3:8b", [], "vllm", "qwen3:8b"),
        ("openai/ft:gpt-4o:acme", [], "openai", "ft:gpt-4o:acme"),
        ("openrouter/acme/eagle:free", [], "openrouter", "acme/eagle:free"),
        ("ollama/llava", [], "ollama", "llava"),
    ],
)
def test_base_model_may_be_a_providers(base_model: str, overrides: list[str], provider: str, model: str) -> None:
    config = run_of(f"policy_config.base_model={base_model}", *overrides)
    entry = config.models[config.datasets["train"].agent.model]
    assert (entry.provider, entry.model) == (provider, model)
    agent = config.datasets["train"].agent
    assert (agent.top_k is not None) == (provider == "vllm"), "others refuse what they do not know"


def test_base_model_may_be_built_in_or_of_a_registry() -> None:
    oracle = run_of("policy_config.base_model=builtin/oracle", "policy_config.params.wrong_argument=0.2")
    assert oracle.datasets["train"].agent.model == "builtin/oracle"
    assert oracle.datasets["train"].agent.params == {"wrong_argument": 0.2}
    write_yaml(Path("models.yml"), {"models": {"eagle": {"api_base": "http://e/v1", "max_concurrency": 2}}})
    named = run_of("policy_config.base_model=eagle", "models_config_file=models.yml")
    assert (named.models["eagle"].api_base, named.models["eagle"].max_concurrency) == ("http://e/v1", 2)
    assert named.models["eagle"].images
    assert named.models["eagle"].timeout == 240


@pytest.mark.parametrize(("mode", "images"), [("set_of_marks", True), ("text", False)])
def test_model_of_ones_own_is_shown_what_the_mode_shows(mode: str, images: bool) -> None:
    config = run_of("policy_config.base_model=my.models:Eagle", f"context_config.interaction_mode={mode}")
    assert config.datasets["train"].agent.model == "my.models:Eagle"
    assert config.models["my.models:Eagle"].images == images


def test_contexts_are_as_many_as_episodes_unless_said_otherwise() -> None:
    config = run_of("env_config.server_size=7", "browsers.max_contexts=4", "browsers.spare_contexts=0")
    assert (config.max_workers, config.browsers.max_contexts, config.browsers.spare_contexts) == (7, 4, 0)


def test_missing_model_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"policy_config\.base_model: which model acts"):
        run_of("policy_config.base_model=null")
    with pytest.raises(ConfigError, match="names no provider"):
        run_of("policy_config.base_model=eagle", "env_config.vllm_server_url=null")


@pytest.mark.parametrize(("mode", "points"), [("coordinates", 1000), ("set_of_marks", None), ("text", None)])
def test_pages_look_as_the_seed_has_them(mode: str, points: int | None) -> None:
    config = run_of(f"context_config.interaction_mode={mode}", "sites=[shop]", "web.hosts=[cdn.com]", "web.height=600")
    web = config.datasets["train"].web
    assert web is not None
    assert (web.mode, web.width, web.height, web.coordinate_range) == (mode, 1280, 600, points)
    assert (web.sites, web.hosts) == (("shop",), ("cdn.com",))
    assert run_of().datasets["train"].web.height == 768  # type: ignore[union-attr]
    assert config.models["Qwen/Qwen3-VL-8B-Instruct"].images == (mode != "text")


@pytest.mark.parametrize(
    ("model_type", "tool_format", "reasoning"),
    [
        ("qwen3-instruct", "text", None),
        ("qwen3-think", "text", "drop"),
        ("computer_use", "computer_use", None),
        ("native", "native", None),
    ],
)
def test_model_type_says_how_tools_are_called(model_type: str, tool_format: str, reasoning: str | None) -> None:
    agent = run_of(f"model_config.model_type={model_type}").datasets["train"].agent
    assert (agent.tool_format, agent.reasoning) == (tool_format, reasoning)


@pytest.mark.parametrize(("version", "prompt"), [("complete", "complete"), ("vanilla", "plain")])
def test_prompt_and_window_are_the_seeds(version: str, prompt: str) -> None:
    agent = run_of(f"model_config.prompt_version={version}").datasets["train"].agent
    assert (agent.prompt, agent.max_rounds, agent.max_images) == (prompt, 4, 5)


def test_attempts_come_from_samples_or_from_repeats() -> None:
    assert run_of("samples=4").datasets["train"].samples == 4
    repeated = run_of("env_config.test_tasks_repeat_times=5", "samples=4", config_name="rollout_test")
    assert repeated.datasets["test"].samples == 5


def test_judge_has_its_key_by_the_name_of_a_variable_and_shows_it_nowhere() -> None:
    secret = "judge-secret-key-123"
    made = translated(environment={"GEMINI_API_KEY": secret})
    judge = made.config.datasets["train"].scoring.judge
    assert judge == "gemini-3-flash-preview"
    entry = made.config.models[judge]
    assert entry.api_key is not None
    assert entry.api_key.get_secret_value() == secret
    assert entry.api_base == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert (entry.max_concurrency, entry.images) == (16, True)
    assert secret not in made.config.model_dump_json()
    assert made.notes == ()


def test_judge_without_its_key_is_told_and_left_out() -> None:
    made = translated()
    assert made.config.datasets["train"].scoring.judge is None
    assert len(made.notes) == 1
    assert "GEMINI_API_KEY is not set" in made.notes[0]


def test_judge_of_its_own_server_may_want_no_key() -> None:
    config = run_of(
        "openai_config.openai_api_key_env_var=null",
        "openai_config.base_url=http://judge:1/v1",
        "openai_config.evaluation.model=small",
    )
    assert config.models["small"].api_base == "http://judge:1/v1"
    assert config.datasets["train"].scoring.judge == "small"


def test_judge_and_agent_of_the_same_name_stay_two() -> None:
    config = run_of(
        "openai_config.openai_api_key_env_var=null",
        "openai_config.evaluation.model=same",
        "policy_config.base_model=same",
    )
    judge = config.datasets["train"].scoring.judge
    assert judge is not None
    assert judge != config.datasets["train"].agent.model
    assert config.models[judge].model == config.models["same"].model == "same"


def test_iterations_have_seeds_of_their_own() -> None:
    config = compose_web(["save_path=exp", "data_path=data", "policy_config.base_model=builtin/oracle"])[0].config
    seeds = [translate(config, number, PATHS, {}).config.seed for number in (0, 1, 0)]
    assert seeds[0] == seeds[2] != seeds[1]
