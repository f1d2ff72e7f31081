"""From names to models: what a name means, what it lacks, what it costs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from rollout.config.models import LocalModel, ModelEntry
from rollout.core.errors import ConfigError
from rollout.models.builtin.oracle import OracleModel
from rollout.models.guard import GuardedModel
from rollout.models.model import Capability
from rollout.models.registry import Registry

ENTRIES = {
    "deepseek-v3.2-fc": {"provider": "openai", "api_base": "http://localhost:1/v1", "api_key": "sk-registered-key"},
    "small": {"api_base": "http://localhost:2/v1", "model": "org/Small-7B"},
}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def registry(**entries: Any) -> Registry:
    return Registry({name: ModelEntry.model_validate(entry) for name, entry in {**ENTRIES, **entries}.items()})


@pytest.mark.parametrize(
    ("name", "kind", "api_model", "api_base"),
    [
        ("openai/deepseek-v3.2-fc", "direct", "deepseek-v3.2-fc", "http://localhost:1/v1"),
        ("deepseek-v3.2-fc", "direct", "deepseek-v3.2-fc", "http://localhost:1/v1"),
        ("small", "direct", "org/Small-7B", "http://localhost:2/v1"),
        ("openai/gpt-5", "direct", "gpt-5", "https://api.openai.com/v1"),
        ("deepseek/deepseek-chat", "direct", "deepseek-chat", "https://api.deepseek.com/v1"),
        ("anthropic/claude-sonnet", "litellm", "anthropic/claude-sonnet", None),
        ("openrouter/meta/llama", "litellm", "openrouter/meta/llama", None),
        ("builtin/oracle", "builtin", "oracle", None),
    ],
)
def test_names_mean_what_users_expect(name: str, kind: str, api_model: str, api_base: str | None) -> None:
    found = registry().resolve(name)
    assert (found.kind, found.api_model, found.api_base) == (kind, api_model, api_base)


def test_a_model_of_the_registry_may_be_called_local() -> None:
    found = registry(local={"api_base": "http://localhost:8000/v1", "model": "qwen3"}).resolve("local")
    assert (found.kind, found.api_model, found.api_base) == ("direct", "qwen3", "http://localhost:8000/v1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nonesuch", "known: "),
        ("deepseek-v3.2-fk", "did you mean 'deepseek-v3.2-fc'"),
        ("builtin/wizard", "the built-in model is builtin/oracle"),
        ("builtin/user", "builtin/user is only a user"),
        ("local/smolm2", "did you mean 'local/smollm2'"),
        ("local/qwen3", "names no weights for it"),
    ],
)
def test_name_that_means_nothing_is_refused_with_what_there_is(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        registry().resolve(name)


def test_a_local_model_has_any_name_where_its_weights_are_given() -> None:
    own = LocalModel(model_path=Path("qwen.gguf"))
    assert Registry({}, local=own).resolve("local/qwen").kind == "local"
    entries = {"local/qwen": ModelEntry(token_ids=True)}
    assert Registry(entries, local=own).resolve("local/qwen").entry.token_ids
    with pytest.raises(ConfigError, match="did you mean 'local/qwen'"):
        Registry(entries, local=own).resolve("local/qwn")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"token_ids": True},
        {"token_in": True, "tokenizer": "tokenizer"},
        {"token_ids": True, "token_in": True, "tokenizer": "tokenizer"},
    ],
)
async def test_a_local_model_can_do_what_the_same_server_elsewhere_can(entry: dict[str, Any]) -> None:
    elsewhere = {**entry, "provider": "llamacpp", "api_base": "http://127.0.0.1:9/v1"}
    async with registry(**{"local/smollm2": entry, "elsewhere": elsewhere}) as opened:
        assert opened.model("local/smollm2").capabilities == opened.model("elsewhere").capabilities
        has_ids = Capability.TOKEN_IDS in opened.model("local/smollm2").capabilities
        assert has_ids == bool(entry), "then metrics.json has `tokens`"


@pytest.mark.litellm
async def test_a_provider_that_nobody_knows_is_refused_before_anything_is_asked() -> None:
    pytest.importorskip("litellm")
    text = "model 'opanai/gpt-5': there is no provider 'opanai'; did you mean 'openai'?"
    assert registry().check("opanai/gpt-5") == [text]
    async with registry() as opened:
        with pytest.raises(ConfigError, match="there is no provider 'opanai'"):
            opened.model("opanai/gpt-5")
        assert opened.model("anthropic/claude-sonnet-4-5").name


def test_missing_and_placeholder_keys_are_found_without_asking_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"x": {"api_base": "http://your-api-endpoint/v1", "api_key": "sk-your-api-key"}}
    assert [text.split(": ")[1] for text in registry(**entries).check("x")] == [
        "api_base is still the example's placeholder (http://your-api-endpoint/v1)",
        "api_key is still the example's placeholder",
    ]
    (problem,) = registry().check("openai/gpt-5")
    assert "set OPENAI_API_KEY" in problem
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    assert registry().check("openai/gpt-5") == []
    assert registry().check("deepseek-v3.2-fc") == []


def test_the_address_of_openai_may_come_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert registry().resolve("openai/mine").api_base == "http://127.0.0.1:8000/v1"
    assert registry().check("openai/mine") == [], "no key is needed there"
    assert registry(x={"provider": "openai", "api_base": "http://here/v1"}).resolve("x").api_base == "http://here/v1"
    assert registry().resolve("deepseek/deepseek-chat").api_base == "https://api.deepseek.com/v1"


def test_keys_do_not_show_in_what_a_name_resolved_to() -> None:
    assert "sk-registered-key" not in repr(registry().resolve("deepseek-v3.2-fc"))


async def test_one_name_is_one_model_so_its_limits_hold_over_all_datasets() -> None:
    async with registry() as opened:
        first, second = opened.model("small"), opened.model("small")
        assert first is second
        other_key = opened.model("small", api_key="sk-another-key")
        assert isinstance(first, GuardedModel)
        assert isinstance(other_key, GuardedModel)
        assert first.limiter is other_key.limiter
        assert isinstance(opened.agent("builtin/oracle", params={"repeat": 0.1}), OracleModel)


class Parrot:
    """The smallest model there is."""

    name = "parrot"
    capabilities: frozenset[Any] = frozenset()

    closed = 0

    async def generate(self, request: Any) -> Any:
        raise AssertionError("nobody asks it")

    async def close(self) -> None:
        type(self).closed += 1


polly = Parrot()


async def test_model_of_ones_own_is_named_by_module_and_class() -> None:
    async with registry() as opened:
        assert opened.model("tests.models.test_registry:Parrot").name == Parrot.name
    with pytest.raises(ConfigError, match="cannot be imported"):
        async with registry() as opened:
            opened.model("tests.models.test_registry:Macaw")


async def test_a_run_closes_the_models_that_it_made_and_no_object_that_it_was_given() -> None:
    parrots = importlib.import_module("tests.models.test_registry").Parrot
    before = parrots.closed
    async with registry() as opened:
        opened.model("tests.models.test_registry:polly")
    assert parrots.closed == before
    async with registry() as opened:
        opened.model("tests.models.test_registry:Parrot")
    assert parrots.closed == before + 1


@pytest.mark.litellm
def test_price_is_the_registrys_or_litellms() -> None:
    pytest.importorskip("litellm")
    from rollout.models.prices import find_price

    own = find_price(ModelEntry(input_cost_per_token=1.0, output_cost_per_token=2.0), "gpt-4o")
    assert own is not None
    assert (own.input, own.output) == (1.0, 2.0)
    table = find_price(ModelEntry(), "no-such-model", "gpt-4o")
    assert table is not None
    assert table.input > 0
    assert find_price(ModelEntry(), "no-such-model-anywhere") is None


def test_local_model_without_its_file_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    problems = Registry({}, local=LocalModel(model_path=tmp_path / "none.gguf")).check("local/smollm2")
    assert len(problems) == 1
    assert "none.gguf" in problems[0] or "rollout-engine[local]" in problems[0]
