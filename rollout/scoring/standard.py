"""The standard scorers: the checks that a task of any environment can declare."""

from __future__ import annotations

from collections.abc import Collection

from rollout.core.messages import Toolset
from rollout.core.world import SeedOf, WorldFactory
from rollout.scoring.actions import ActionScorer
from rollout.scoring.communicate import CommunicateScorer
from rollout.scoring.milestones import MilestoneScorer, MinefieldScorer
from rollout.scoring.reference import References
from rollout.scoring.rules import RuleBook
from rollout.scoring.scorer import Scorer
from rollout.scoring.state import StateScorer


def standard_scorers(
    toolset: Toolset, make_world: WorldFactory, seed_of: SeedOf, rules: RuleBook, irreversible: Collection[str] = ()
) -> tuple[Scorer, ...]:
    """State, actions, what was told, milestones and minefields, compared with the task's reference actions."""
    references = References(make_world, seed_of)
    return (
        StateScorer(references, rules),
        ActionScorer(toolset, references, rules),
        CommunicateScorer(),
        MilestoneScorer(make_world, seed_of, rules, irreversible),
        MinefieldScorer(make_world, seed_of, rules, irreversible),
    )
