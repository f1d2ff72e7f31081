"""The panel of a dataset: its environment's scorers and the custom ones, made from the configuration."""

from __future__ import annotations

from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from rollout.core.spelling import suggest
from rollout.core.world import SeedOf
from rollout.environments.environment import OpenEnvironment
from rollout.models.registry import Registry
from rollout.scoring.function import as_scorer
from rollout.scoring.judge import Judge
from rollout.scoring.panel import Panel
from rollout.scoring.scorer import Scorer
from rollout.trajectories.rewards import RECORDED, RULES, reward_rule, score_of


def make_panel(
    name: str, dataset: Dataset, config: Config, registry: Registry, opened: OpenEnvironment, seed_of: SeedOf
) -> Panel:
    """The scorers of a dataset. Raises ConfigError with the key where something is wrong."""
    settings = dataset.scoring
    scorers = [*opened.scorers(make_judge(dataset, registry), seed_of), *map(load_scorer, settings.custom)]
    panel = Panel(scorers, decide=settings.decide, timeout=config.timeouts.scoring)
    for wanted in settings.decide or ():
        if wanted not in panel.names:
            raise ConfigError(
                f"datasets.{name}.scoring.decide: there is no scorer {wanted!r}; {suggest(wanted, panel.names)}"
            )
    judged = {"nl_assertions", "rubric"} & set(settings.decide or ())
    if settings.judge is None and judged:
        raise ConfigError(f"datasets.{name}.scoring.judge: needed because {' and '.join(sorted(judged))} are to decide")
    return panel


def make_judge(dataset: Dataset, registry: Registry) -> Judge | None:
    """The judge model of a dataset, if it has one."""
    settings = dataset.scoring
    if settings.judge is None:
        return None
    found, model = registry.resolve(settings.judge), registry.model(settings.judge)
    return Judge(
        model,
        settings.judge_attempts,
        settings.judge_max_tokens or found.entry.max_tokens,
        sees_images=found.sees_images(model),
        max_images=settings.judge_images,
    )


def load_scorer(reference: str) -> Scorer:
    """A custom scorer: a class whose instances keep the `Scorer` contract, or such an object."""
    found = find_plugin("rollout.scorers", reference)
    if found is None:
        raise ConfigError(f"scoring.custom: there is no scorer {reference!r}; give module:Name or an installed plugin")
    try:
        return as_scorer(found)
    except ConfigError as error:
        raise ConfigError(f"scoring.custom: {reference!r}: {error}") from error


def refuse_reward(name: str, dataset: Dataset) -> None:
    """Raise ConfigError where a dataset's `reward` is no rule that it may choose."""
    if dataset.reward is None:
        return
    try:
        if dataset.reward == RECORDED:
            raise ConfigError(f"reward: {RECORDED} is for what comes after a run; expected one of {', '.join(RULES)}")
        reward_rule(dataset.reward)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.{error}") from error


def refuse_unknown_score(name: str, dataset: Dataset, panel: Panel) -> None:
    """Raise ConfigError where a rule of rewards is about a score that no scorer of the dataset gives."""
    rules = {"reward": dataset.reward, "strategy.params.value": dataset.strategy.params.get("value")}
    for key, rule in rules.items():
        wanted = score_of(rule) if isinstance(rule, str) else None
        if wanted is not None and wanted not in panel.names:
            hint = suggest(wanted, panel.names, "its scores")
            raise ConfigError(f"datasets.{name}.{key}: no scorer gives a score {wanted!r}; {hint}")
