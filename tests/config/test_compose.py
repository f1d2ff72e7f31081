"""Composing web rollouts: WebGym's files and defaults, overrides, sweeps, refusals that help."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rollout.config.compose import Composed, compose_tree, compose_web
from rollout.config.problems import known_keys
from rollout.config.web import NO_EFFECT, WebConfig
from rollout.core.errors import ConfigError
from tests.conftest import write_yaml

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

GIVEN = ["save_path=exp", "data_path=data"]


def compose(*overrides: str, **more: Any) -> WebConfig:
    return compose_all(*overrides, **more)[0].config


def compose_all(*overrides: str, **more: Any) -> list[Composed]:
    return compose_web([*GIVEN, *overrides], **more)


def test_seeds_defaults_are_there() -> None:
    train, test = compose(), compose(config_name="rollout_test")
    assert (train.split, test.split) == ("train", "test")
    assert [train.max_steps_of(level) for level in (1, 3, 4, 6, 7, 12)] == [10, 10, 20, 20, 30, 30]
    assert [test.max_steps_of(level) for level in (1, 3, 4, 6, 7, 12)] == [30, 30, 50, 50, 70, 70]
    for config, sessions, navigate, rows in ((train, 128, 128, 1024), (test, 64, 32, 0)):
        env = config.env_config
        assert (env.server_size, env.max_vllm_sessions, env.http_pools.navigate) == (64, sessions, navigate)
        assert (env.http_pools.allocate, env.http_pools.screenshot) == (4, 128)
        assert env.train_tasks_rollout_size == rows
        assert (env.task_timeout_minutes, env.vllm_timeout, env.max_retries) == (300, 240, 2)
        assert (env.completion_threshold, env.completion_grace_period) == (0.95, 30)
    assert (test.env_config.test_tasks_rollout_size, test.env_config.test_tasks_repeat_times) == (-1, 1)
    assert (train.tasks_path, test.tasks_path) == (Path("data/train.jsonl"), Path("data/test.jsonl"))
    policy = train.policy_config
    assert (policy.temperature, policy.top_p, policy.top_k, policy.min_p) == (1, 0.99, 2, 0)
    assert (policy.max_new_tokens, policy.checkpoint_path) == (3072, "model.pt")
    assert train.model_settings.model_type == "qwen3-instruct"
    assert train.context_config.interaction_mode == "coordinates"
    assert train.openai_config.openai_api_key_env_var == "GEMINI_API_KEY"


def test_every_key_of_the_schema_is_in_the_files_and_the_other_way_round() -> None:
    for name in ("rollout_train", "rollout_test"):
        tree = compose_tree([], name)
        assert set(tree) == set(known_keys(WebConfig, []))
        for group in ("env_config", "policy_config", "context_config", "model_config", "openai_config"):
            assert set(tree[group]) == set(known_keys(WebConfig, [group]))
    for key in NO_EFFECT:
        *above, last = key.split(".")
        assert last in known_keys(WebConfig, above)


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_known_key_is_set_with_or_without_plus(plus: str) -> None:
    config = compose(
        f"{plus}env_config.max_retries=7",
        f"{plus}env_config.difficulty_ratio={{easy: {{range: [1, 3], weight: 2}}}}",
        f"{plus}env_config.deduplicate_across_iterations=true",
        f"{plus}web.hosts=[cdn.example.com]",
        f"{plus}sites=[shop,wiki]",
        f"{plus}browsers.max_served=5",
    )
    assert config.env_config.max_retries == 7
    assert config.env_config.difficulty_ratio["easy"].range == (1, 3)
    assert config.env_config.deduplicate_across_iterations
    assert config.web.hosts == ("cdn.example.com",)
    assert config.sites == ["shop", "wiki"]
    assert config.browsers.max_served == 5


@pytest.mark.parametrize("plus", ["", "+"])
def test_steps_can_be_given_for_each_difficulty(plus: str) -> None:
    config = compose(f"{plus}env_config.train_difficulty_max_steps=[5,8]")
    assert [config.max_steps_of(difficulty) for difficulty in (1, 2, 9)] == [5, 8, 8]
    config = compose("env_config.test_difficulty_max_steps=[4]", config_name="rollout_test")
    assert config.max_steps_of(3) == 4
    config = compose("env_config.train_difficulty_max_steps.easy=3")
    assert [config.max_steps_of(difficulty) for difficulty in (1, 4)] == [3, 20], "and what has names is still merged"


def test_parts_of_a_ratio_can_be_given_one_by_one() -> None:
    config = compose("+env_config.difficulty_ratio.hard.range=[7,99]", "+env_config.difficulty_ratio.hard.weight=0.5")
    assert config.env_config.difficulty_ratio["hard"].weight == 0.5


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "env_config.server_sice=3",
            "env_config.server_sice: there is no such key; did you mean 'env_config.server_size'",
        ),
        ("+env_config.server_sice=3", "env_config.server_sice: there is no such key; did you mean 'server_size'"),
        ("modle_config.model_type=native", "did you mean 'model_config.model_type'"),
        ("+nothing_like_it=3", "nothing_like_it: there is no such key; known keys: .*env_config"),
        ("env_config.server_size=0", "env_config.server_size: .* greater than or equal to 1"),
        ("env_config.server_size=many", "env_config.server_size: .* whole number"),
        (
            "model_config.model_type=gpt",
            "model_config.model_type: .*'qwen3-instruct', 'qwen3-think', 'computer_use' or 'native'",
        ),
        ("env_config.train_tasks_sampler=clever", "env_config.train_tasks_sampler: .*'uniform' or 'ratio'"),
        ("+env_config.multinode_total_workers=3", "one by one"),
        ("+env_config.multinode_rank_suffix=_rank_1", "one by one"),
        ("+env_config.difficulty_ratio.a={range: [3, 1], weight: 1}", "3 is more than 1"),
        ("blocklist_hours=1e12", "blocklist_hours: .* less than or equal to"),
        ("save_path=null", "save_path: it has to be given"),
        ("save_path", "save_path"),
        ("policy_config.temperature=0.1,0.2", "multirun"),
    ],
)
def test_wrong_override_is_refused_with_its_key(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        compose(override)


def test_paths_have_to_be_given() -> None:
    with pytest.raises(ConfigError, match=r"(?s)save_path: it has to be given.*data_path: it has to be given"):
        compose_web([])


def test_values_of_one_machine_are_accepted() -> None:
    compose("+env_config.multinode_total_workers=1", "+env_config.multinode_rank=0", "+env_config.rank_load_weight=1")


def test_given_values_without_effect_are_named() -> None:
    job = compose_all("env_config.http_pools.navigate=3", "env_config.wait_timeout=1", "env_config.server_size=3")[0]
    assert job.without_effect == ("env_config.http_pools", "env_config.wait_timeout")
    assert compose_all(config_name="rollout_test")[0].without_effect == ()


def test_sweep_gives_every_combination() -> None:
    jobs = compose_all("policy_config.temperature=0.7,1.0", "seed=range(3)", multirun=True)
    found = [(job.config.policy_config.temperature, job.config.seed) for job in jobs]
    assert found == [(0.7, 0), (0.7, 1), (0.7, 2), (1.0, 0), (1.0, 1), (1.0, 2)]


def test_own_file_builds_upon_the_packaged_ones() -> None:
    Path("conf").mkdir()
    own = {"defaults": ["rollout_train", "_self_"], "env_config": {"server_size": 3}, "seed": 9}
    write_yaml(Path("conf/mine.yaml"), own)
    config = compose("policy_config.top_k=5", config_name="mine", config_dir=Path("conf"))
    assert (config.env_config.server_size, config.seed, config.policy_config.top_k) == (3, 9, 5)
    assert config.env_config.train_tasks_rollout_size == 1024
    assert compose(config_dir=Path("conf")).seed == 0, "and the packaged ones are still found by name"
    with pytest.raises(ConfigError, match=r"no 'theirs'; there are: mine, default, rollout"):
        compose(config_name="theirs", config_dir=Path("conf"))
    with pytest.raises(ConfigError, match="nowhere is not a folder"):
        compose(config_dir=Path("nowhere"))


def test_composing_writes_nothing_and_stays_where_it_is() -> None:
    before = Path.cwd()
    compose_all("seed=1,2", multirun=True)
    assert Path.cwd() == before
    assert os.listdir() == []
