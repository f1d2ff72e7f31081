"""Reading configurations: every key of AgentSkiller's example, errors that help, secrets that stay secret."""

from __future__ import annotations

import os
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rollout.config import Config, load_config
from rollout.config.load import expand, is_placeholder
from rollout.core.errors import ConfigError
from rollout.core.secrets import redact
from tests.conftest import write_yaml

CONFIGS = Path(__file__).parents[2] / "configs"
SEED_EXAMPLE = """
max_workers: 48
resume: false
use_checkpoints: true
log_level: INFO
log_file: ./logs/rollout.log
verbose: true
verbose_colors: true
enable_monitor: true
monitor_max_no_tool_turns: 5
models_config_file: ./models.yml
datasets:
  CustomerService:
    path: ./queries/cross_domain/Domain1_Domain2.jsonl
    output_path: ./outputs/output.jsonl
    mcp_domain: Domain1_Domain2
    tools: [domain1_mcp, domain2_mcp]
    agent: {model: openai/deepseek-v3.2-fc, temperature: 0.2, enable_thinking: true}
    user: {model: openai/gpt-5, temperature: 1.0}
    max_turns: 20
    max_steps_per_turn: 10
    mode: positive
"""
SEED_MODELS = """
models:
  deepseek-v3.2-fc: {provider: openai, api_base: http://your-api-endpoint/v1, api_key: sk-your-api-key, mode: chat}
  gpt-5:            {provider: openai, api_base: http://your-api-endpoint/v1, api_key: sk-your-api-key, mode: chat}
"""


def load(document: Any, **environment: str) -> Config:
    return load_config(write_yaml(Path("c.yml"), document), environment)


def refused(document: Any, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(document, **environment)
    return str(caught.value)


def test_the_seeds_own_example_is_read_with_every_key() -> None:
    Path("c.yml").write_text(SEED_EXAMPLE)
    Path("models.yml").write_text(SEED_MODELS)
    config = load_config(Path("c.yml"))
    dataset = config.datasets["CustomerService"]
    assert (config.max_workers, config.resume, config.monitor_max_no_tool_turns) == (48, False, 5)
    assert (dataset.agent.model, dataset.agent.enable_thinking, dataset.max_turns) == (
        "openai/deepseek-v3.2-fc",
        True,
        20,
    )
    assert dataset.tools == ["domain1_mcp", "domain2_mcp"]
    assert set(config.models) == {"deepseek-v3.2-fc", "gpt-5"}


@pytest.mark.parametrize("name", ["default.yml", "example_new.yml", "local.yml"])
def test_shipped_configs_are_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS.parent)
    assert load_config(CONFIGS / name, {}).datasets


def test_unknown_key_names_the_nearest_known_one() -> None:
    assert "max_worker: there is no such key; did you mean 'max_workers'?" in refused({"max_worker": 3})
    text = refused({"datasets": {"A": {"agent": {"temprature": 1}}}})
    assert "c.yml" in text
    assert "datasets.A.agent.temprature: there is no such key; did you mean 'temperature'?" in text


@pytest.mark.parametrize(
    ("document", "key", "expected"),
    [
        ({"max_workers": 0}, "max_workers", "greater than or equal to 1, got 0"),
        ({"max_workers": "many"}, "max_workers", "expected a whole number"),
        ({"log_level": "LOUD"}, "log_level", "'DEBUG', 'INFO'"),
        ({"datasets": {"A": {"mode": "sideways"}}}, "datasets.A.mode", "'positive', 'no_tool' or 'wrong_tool'"),
        ({"datasets": {"A": {"agent": {"temperature": "hot"}}}}, "datasets.A.agent.temperature", "expected a number"),
        ({"models": {"m": {"rpm": -1}}}, "models.m.rpm", "greater than 0"),
        ({"timeouts": {"request": 0}}, "timeouts.request", "greater than 0"),
        ({"datasets": [1]}, "datasets", "expected keys and values"),
        ({"cluster": {"rank_weights": ""}}, "cluster.rank_weights.0", "expected a number"),
        ({"cluster": {"rank_weights": "2,,1"}}, "cluster.rank_weights.1", "expected a number"),
        ({"cluster": {"rank_weights": "inf,1"}}, "cluster.rank_weights.0", "finite number"),
        ({"cluster": {"rank_weights": []}}, "cluster.rank_weights", "at least 1 item"),
        ({"cluster": {"rank_weights": "2,1", "workers": 3}}, "cluster", "workers: 3, but rank_weights has 2"),
    ],
)
def test_bad_value_names_file_key_and_what_was_expected(document: Any, key: str, expected: str) -> None:
    text = refused(document)
    assert text.startswith("c.yml:")
    assert f"{key}: " in text
    assert expected in text


def test_several_problems_come_out_together() -> None:
    text = refused({"max_worker": 1, "log_level": "LOUD", "seed": -1})
    assert all(key in text for key in ("max_worker", "log_level", "seed"))


def test_key_that_stands_twice_is_an_error() -> None:
    Path("c.yml").write_text("seed: 1\nseed: 2\n")
    with pytest.raises(ConfigError, match="'seed' occurs twice"):
        load_config(Path("c.yml"))


def test_shorthand_names_only_the_model() -> None:
    dataset = load({"datasets": {"A": {"agent": "openai/gpt-5", "user": "builtin/user"}}}).datasets["A"]
    assert dataset.agent.model == "openai/gpt-5"
    assert dataset.user is not None
    assert dataset.user.kind == "builtin"


def test_variables_are_expanded_everywhere_each_by_its_own_value() -> None:
    document = {
        "log_file": "${A}-${B}.log",
        "max_workers": "${N}",
        "datasets": {"x": {"tools": ["${A}", "plain"], "agent": {"model": "${C:-fallback}"}}},
    }
    config = load(document, A="aa", B="bb", N="12")
    assert str(config.log_file) == "aa-bb.log"
    assert config.max_workers == 12
    assert config.datasets["x"].tools == ["aa", "plain"]
    assert config.datasets["x"].agent.model == "fallback"


def test_unset_variable_is_an_error_with_its_key() -> None:
    text = refused({"models": {"m": {"api_key": "${NOT_SET_ANYWHERE}"}}})
    assert "models.m.api_key" in text
    assert "NOT_SET_ANYWHERE is not set" in text


@given(
    st.dictionaries(st.text(string.ascii_uppercase, min_size=1, max_size=6), st.text(max_size=20), max_size=5),
    st.data(),
)
def test_expansion_replaces_each_variable_and_nothing_else(environment: dict[str, str], data: st.DataObject) -> None:
    names = sorted(environment)
    part = st.one_of(
        st.text(string.ascii_letters + " -/.", max_size=8), st.sampled_from(names) if names else st.nothing()
    )
    parts = data.draw(st.lists(part, max_size=8))
    is_name = [p in environment for p in parts]
    template = "".join(f"${{{p}}}" if named else p for p, named in zip(parts, is_name, strict=True))
    wanted = "".join(environment[p] if named else p for p, named in zip(parts, is_name, strict=True))
    assert expand({"k": [template]}, environment) == {"k": [wanted]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_yaml_document_is_read_or_refused_in_words(document: Any) -> None:
    path = Path("any.yml")
    path.write_text(yaml.safe_dump(document))
    try:
        load_config(path, {})
    except ConfigError as error:
        assert "any.yml" in str(error)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    path = Path("any.yml")
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_config(path, {})
    except ConfigError as error:
        assert "any.yml" in str(error)


def test_keys_are_never_shown_dumped_or_repeated_in_errors() -> None:
    key = "sk-verysecret-0123456789"
    config = load({"models": {"m": {"api_key": key}}})
    assert key not in repr(config)
    assert key not in config.model_dump_json()
    assert redact(f"the server said {key} is wrong") == "the server said «secret» is wrong"
    assert key not in refused({"models": {"m": {"api_key": [key]}}})


def test_password_within_an_address_is_a_secret_too() -> None:
    assert redact("connection to http://ada:hunter2@host/v1 failed") == "connection to http://«secret»@host/v1 failed"


def test_reading_a_config_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment-key-1")
    before = dict(os.environ)
    load({"seed": 1})
    assert dict(os.environ) == before


def test_a_file_that_never_ends_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: cannot be read: longer than 32 MB"):
        load_config(Path("/dev/zero"), {})


def test_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yml: cannot be read"):
        load_config(Path("nowhere.yml"))


def test_placeholders_of_the_example_are_recognised() -> None:
    assert is_placeholder("sk-your-api-key")
    assert is_placeholder("http://your-api-endpoint/v1")
    assert not is_placeholder("sk-proj-abc123")
