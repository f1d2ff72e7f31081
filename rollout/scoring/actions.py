"""Scoring by actions: each reference action needs a call of its own, with the same tool and the same arguments.

Only calls that succeeded count, and one call counts once. Where the task or an action says `ordered`, the calls must
come in that order. What an action takes from an earlier one's result (`$from`) is what the agent's own matching call
got; only where the agent made no such call it is what the reference's world gives there. Calls that write and belong
to no reference action are counted against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollout.core.messages import JSON, Toolset
from rollout.core.task import Task, follow
from rollout.core.world import World
from rollout.scoring.arguments import differing_arguments
from rollout.scoring.calls import Called, calls_of
from rollout.scoring.matching import match_actions
from rollout.scoring.reference import PlayedReference, References
from rollout.scoring.rules import RuleBook, Rules, task_rules
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

SHOWN = 10


class ActionScorer:
    """Matches calls with reference actions."""

    name = "actions"

    def __init__(self, toolset: Toolset, references: References | None, rules: RuleBook | None = None) -> None:
        self._tools = toolset.by_name
        self._references = references
        self._rules = rules or RuleBook()

    def applies(self, task: Task) -> bool:
        return task.actions is not None

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if task.actions is None:
            return None
        reference = PlayedReference()
        if self._references is not None and world.has_changes:
            # Played only on worlds of our own making: on a real server the actions would have effects.
            reference = await self._references.of(task)
        rules = self._rules.of(task)
        calls = [called for called in calls_of(trajectory) if not called.is_error and called.arguments is not None]
        fits = self._fits(task, calls, reference, rules)
        ordered = {index for index, action in enumerate(task.actions) if action.ordered}
        if task_rules(task).ordered:
            ordered = set(range(len(task.actions)))
        chosen = match_actions(fits, ordered)
        taken = {call for call in chosen if call is not None}
        spare = [called for place, called in enumerate(calls) if place not in taken]
        extra = [called for called in spare if self._is_write(called, rules)]
        unmatched = [index for index, call in enumerate(chosen) if call is None]
        matched = len(chosen) - len(unmatched)
        evidence: JSON = {"matched": matched, "actions": len(chosen)}
        if unmatched:
            evidence["unmatched"] = [
                self._describe(task, index, fits[index], spare, rules) for index in unmatched[:SHOWN]
            ]
        if extra:
            evidence["extra_writes"] = [
                {"message": called.message, "name": called.call.name, "arguments": called.arguments}
                for called in extra[:SHOWN]
            ]
        partial = max(0.0, (matched - len(extra)) / len(chosen)) if chosen else float(not extra)
        reason = f"{matched} of {len(chosen)} reference actions were called"
        if extra:
            reason += f", and {len(extra)} other writes"
        return Score(self.name, float(not unmatched and not extra), reason, round(partial, 4), evidence=evidence)

    def _fits(self, task: Task, calls: Sequence[Called], reference: PlayedReference, rules: Rules) -> list[list[int]]:
        """For each action the calls that would do."""
        fits: list[list[int]] = []

        def lookup(path: str) -> list[Any]:
            index, *parts = path.split("/")
            found = []
            sources = [calls[place].value for place in (fits[int(index)] if int(index) < len(fits) else ())]
            if not sources and reference.problem is None and int(index) < len(reference.steps):
                sources.append(reference.steps[int(index)].value)
            for source in sources:
                try:
                    found.append(follow(source, parts))
                except (KeyError, IndexError, TypeError, ValueError):
                    continue
            return found

        for action in task.actions or ():
            schema = self._schema(action.name)
            fits.append(
                [
                    place
                    for place, called in enumerate(calls)
                    if called.call.name == action.name
                    and not differing_arguments(
                        action.name, action.arguments, called.arguments or {}, schema, rules, lookup
                    )
                ]
            )
        return fits

    def _describe(self, task: Task, index: int, fits: list[int], spare: Sequence[Called], rules: Rules) -> JSON:
        """An action that nothing was matched with, and the nearest call that was left over."""
        assert task.actions is not None
        action = task.actions[index]
        told: JSON = {"action": index, "name": action.name, "arguments": action.arguments}
        if fits:
            told["why"] = "called, but too seldom or out of order"
            return told
        schema = self._schema(action.name)
        near = [
            (differing_arguments(action.name, action.arguments, called.arguments or {}, schema, rules), called)
            for called in spare
            if called.call.name == action.name
        ]
        if near:
            differs, called = min(near, key=lambda each: len(each[0]))
            told["nearest"] = {"message": called.message, "wrong_arguments": differs}
        return told

    def _schema(self, tool: str) -> JSON:
        spec = self._tools.get(tool)
        return spec.parameters if spec is not None else {}

    def _is_write(self, called: Called, rules: Rules) -> bool:
        """Whether a call changed something: as its tool says, as is declared, or by `confirm`, which servers in
        AgentSkiller's layout demand for every write."""
        name, arguments = called.call.name, called.arguments or {}
        spec = self._tools.get(name)
        takes_confirm = "confirm" in (self._schema(name).get("properties") or {})
        if takes_confirm and arguments.get("confirm") is not True:
            return False
        if name in rules.writes:
            return True
        if spec is not None and spec.is_write is not None:
            return spec.is_write
        return takes_confirm
