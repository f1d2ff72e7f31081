"""The panel of a dataset: which scorers look at its trajectories, made from the configuration."""

from __future__ import annotations

from collections.abc import Callable

from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from rollout.core.spelling import suggest
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.domains.domain import Domain
from rollout.environments.web.scoring.answer import AnswerScorer
from rollout.environments.web.scoring.pages import CheckScorer
from rollout.environments.web.scoring.rubric import BlockedScorer, RubricScorer, WebJudge
from rollout.models.registry import Registry
from rollout.pipelines.tools import DatasetTools
from rollout.scoring.abstention import AbstentionScorer
from rollout.scoring.actions import ActionScorer
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.communicate import CommunicateScorer
from rollout.scoring.judge import Judge
from rollout.scoring.milestones import MilestoneScorer, MinefieldScorer
from rollout.scoring.panel import Panel
from rollout.scoring.reference import References
from rollout.scoring.rules import NO_RULES, RuleBook, load_rules
from rollout.scoring.scorer import Scorer
from rollout.scoring.state import StateScorer


def make_panel(
    name: str,
    dataset: Dataset,
    config: Config,
    registry: Registry,
    tools: DatasetTools,
    seed_of: Callable[[Task], int],
) -> Panel:
    """The scorers of a dataset. Raises ConfigError with the key where something is wrong."""
    settings = dataset.scoring
    scorers: list[Scorer] = []
    if dataset.mode != "positive":
        scorers.append(AbstentionScorer())
    else:
        judge = None
        if settings.judge is not None:
            entry = registry.resolve(settings.judge).entry
            judge = Judge(
                registry.model(settings.judge),
                settings.judge_attempts,
                settings.judge_max_tokens or entry.max_tokens,
                sees_images=entry.images,
                max_images=settings.judge_images,
            )
        timeout = config.timeouts.tool

        def make_world() -> World:
            return tools.make_world(timeout)

        if tools.suite is not None:
            scorers += tools.suite.scorers(seed_of, timeout)
        elif dataset.web is not None:
            web_judge = None if judge is None else WebJudge(judge)
            scorers += [
                CheckScorer(),
                AnswerScorer(has_judge=judge is not None),
                RubricScorer(web_judge),
                BlockedScorer(web_judge),
            ]
        else:
            references = References(make_world, seed_of)
            rules = make_rules(tools.domain, tools.offered)
            scorers += [
                StateScorer(references, rules),
                ActionScorer(tools.toolset, references, rules),
                CommunicateScorer(),
                MilestoneScorer(make_world, seed_of, rules),
                MinefieldScorer(make_world, seed_of, rules),
            ]
        scorers.append(AssertionScorer(judge))
    scorers += [load_scorer(reference) for reference in settings.custom]
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


def make_rules(domain: Domain | None, offered: Callable[[str], str | None] | None) -> RuleBook:
    """What may differ in a dataset's tasks. `offered`: a tool's offered name, by the one that reference actions use."""
    return RuleBook(NO_RULES if domain is None else load_rules(domain.base_path, domain.servers), offered)


def load_scorer(reference: str) -> Scorer:
    """A scorer of somebody else's: a class whose instances keep the `Scorer` contract, or such an object."""
    found = find_plugin("rollout.scorers", reference)
    if found is None:
        raise ConfigError(f"scoring.custom: there is no scorer {reference!r}; give module:Name or an installed plugin")
    made: Scorer = found() if isinstance(found, type) else found
    if not callable(getattr(made, "score", None)):
        raise ConfigError(f"scoring.custom: {reference!r} has no method score(task, trajectory, world)")
    return made
