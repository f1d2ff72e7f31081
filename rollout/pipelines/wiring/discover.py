"""`auto_discover`: a configuration's datasets, made of every combination found on disk."""

from __future__ import annotations

from pathlib import Path

from rollout.config.models import AgentConfig, UserConfig
from rollout.config.names import check_file_name
from rollout.config.schema import AutoDiscover, Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest
from rollout.environments.domains.domain import SHIPPED
from rollout.tasks.discovery import Combination, find_combinations, known_servers
from rollout.tasks.naming import fold

AGENT_MODEL = "openai/deepseek-v3.2"
USER_MODEL = "openai/gpt-5"


def with_discovered(config: Config) -> Config:
    """The configuration with the found datasets added. A dataset that is written out by hand keeps its own settings."""
    rules = config.auto_discover
    if rules is None:
        return config
    base_path = rules.base_path or SHIPPED / "cross_domain"
    _refuse_unknown(base_path, rules)
    found = find_combinations(base_path, min_domains=rules.min_domains, require_policy=rules.require_policy)
    found = [combination for combination in found if _is_wanted(combination, rules)]
    if not found:
        raise ConfigError(f"auto_discover: nothing fits in {base_path / 'queries'}; loosen the filters")
    for combination in found:
        try:
            check_file_name(combination.name)
        except ValueError as error:
            raise ConfigError(f"auto_discover: {combination.queries[0]!r}: {error}") from error
    made = {
        combination.name.replace("-", "_"): _dataset(combination, base_path, rules, config) for combination in found
    }
    return config.model_copy(update={"datasets": {**made, **config.datasets}})


def _refuse_unknown(base_path: Path, rules: AutoDiscover) -> None:
    known = known_servers(base_path)
    folded = {fold(server) for server in known}
    for key in ("filter_domains", "exclude_domains"):
        for name in getattr(rules, key):
            if fold(name) not in folded:
                raise ConfigError(f"auto_discover.{key}: there is no domain {name!r}; {suggest(name, known)}")


def _is_wanted(combination: Combination, rules: AutoDiscover) -> bool:
    names = {fold(server) for server in combination.servers}
    if rules.filter_domains and names.isdisjoint(map(fold, rules.filter_domains)):
        return False
    return names.isdisjoint(map(fold, rules.exclude_domains))


def _dataset(combination: Combination, base_path: Path, rules: AutoDiscover, config: Config) -> Dataset:
    return Dataset(
        path=list(combination.queries),
        output_path=rules.output_dir / f"{combination.name}.jsonl",
        mcp_domain=combination.name,
        base_path=base_path,
        policy=combination.policy,
        agent=AgentConfig(
            model=rules.agent_model or config.agent_model or AGENT_MODEL,
            temperature=rules.agent_temperature,
            enable_thinking=rules.enable_thinking,
        ),
        user=UserConfig.model_validate(
            {"model": rules.user_model or config.user_model or USER_MODEL, "temperature": rules.user_temperature}
        ),
        max_turns=rules.max_turns,
        max_steps_per_turn=rules.max_steps_per_turn,
        mode=rules.mode,
    )
