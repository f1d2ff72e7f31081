"""What of the driver's environment reaches the processes of a cluster."""

from __future__ import annotations

import os

import pytest

from rollout.config.models import ModelEntry
from rollout.distributed.environment import only_system_variables, worker_environment
from rollout.models.registry import Registry

DRIVER = {
    "PATH": "/bin",
    "OPENAI_API_KEY": "o",
    "DEEPSEEK_API_KEY": "d",
    "ANTHROPIC_API_KEY": "a",
    "ANTHROPIC_API_BASE": "b",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_REGION": "r",
    "GITHUB_TOKEN": "g",
    "SEARCH_API_KEY": "q",
}


async def keys_for(*models: str) -> list[str]:
    entries = {"mine": ModelEntry(provider="vllm", api_base="http://127.0.0.1:1/v1")}
    async with Registry(entries) as registry:
        for model in models:
            registry.agent(model)
        return registry.key_variables()


async def test_workers_get_the_keys_of_the_runs_models_and_no_other() -> None:
    assert worker_environment(DRIVER, await keys_for("openai/gpt-5"), []) == {"OPENAI_API_KEY": "o"}
    assert worker_environment(DRIVER, await keys_for("builtin/oracle", "mine"), []) == {}
    elsewhere = {**DRIVER, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    assert "OPENAI_BASE_URL" in worker_environment(elsewhere, await keys_for("openai/gpt-5"), [])


@pytest.mark.litellm
async def test_models_of_litellm_bring_their_providers_variables() -> None:
    pytest.importorskip("litellm")
    sent = worker_environment(DRIVER, await keys_for("anthropic/claude", "bedrock/some-model"), [])
    assert sent == {
        "ANTHROPIC_API_KEY": "a", "ANTHROPIC_API_BASE": "b", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r",
    }  # fmt: skip


async def test_a_configuration_may_name_more() -> None:
    assert worker_environment(DRIVER, [], ["SEARCH_API_KEY", "NOT_SET"]) == {"SEARCH_API_KEY": "q"}


def test_a_ray_of_ones_own_is_started_without_the_drivers_other_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "q")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t")
    with only_system_variables():
        assert "SEARCH_API_KEY" not in os.environ
        assert os.environ["RAY_AUTH_TOKEN"] == "t"
        assert "PATH" in os.environ
    assert os.environ["SEARCH_API_KEY"] == "q"
