"""tau2's verdict, part by part: each part of a task's `reward_basis` is a score of its own, and all must pass.

- `tau2_db`: the databases of both sides, against those that the reference actions lead to.
- `tau2_env`: the assertions on the environment.
- `tau2_communicate`: what the agent had to tell the user.
- `tau2_actions`: the reference actions themselves, where a task asks for them. One call stands for one action.
Assertions in words are for the judge that every dataset can have (`scoring.judge`): the task's `nl_assertions`.

A part that is not in the basis, or has nothing to check, is no score at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rollout.core.changes import Changes
from rollout.core.errors import WorldError, describe_error
from rollout.core.task import Task
from rollout.core.world import Invocation, SeedOf, World
from rollout.environments.suites.tau2.world import Tau2Call, Tau2Domain, Tau2World
from rollout.scoring.differences import compare_strictly, describe_differences, net_changes
from rollout.scoring.rules import NO_RULES
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

KEPT_REFERENCES = 256


def criteria_of(domain: Tau2Domain, task: Task, basis: str) -> Any | None:
    """What a task is judged by, if this part of the verdict belongs to it."""
    criteria = domain.sources[task.id].evaluation_criteria
    if criteria is None or basis not in {str(part.value) for part in criteria.reward_basis}:
        return None
    return criteria


class DatabaseScorer:
    """Compares both databases with the reference's."""

    name = "tau2_db"

    def __init__(self, domain: Tau2Domain, make_world: Callable[[Task], Tau2World], seed_of: SeedOf) -> None:
        self._domain = domain
        self._make_world = make_world
        self._seed_of = seed_of
        self._kept: OrderedDict[str, tuple[Changes, list[str]]] = OrderedDict()

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        criteria = criteria_of(self._domain, task, "DB")
        if criteria is None or criteria.actions is None or not isinstance(world, Tau2World):
            return None
        if task.id not in self._kept:
            try:
                self._kept[task.id] = await self._play(task, criteria.actions)
            except WorldError as error:
                return Score(self.name, None, f"the reference world could not be opened: {error}")
            if len(self._kept) > KEPT_REFERENCES:
                self._kept.popitem(last=False)
        reference, faults = self._kept[task.id]
        differences = compare_strictly(reference, net_changes(await world.changes(), NO_RULES))
        evidence: dict[str, Any] = {"reference_errors": faults} if faults else {}
        if not differences:
            return Score(self.name, 1.0, "the final state is the reference's", 1.0, evidence=evidence)
        tables = evidence["tables"] = describe_differences(differences, NO_RULES)
        reason = f"the final state differs in {', '.join(tables)}"
        return Score(self.name, 0.0, reason, round(differences.partial, 4), evidence=evidence)

    async def _play(self, task: Task, actions: Any) -> tuple[Changes, list[str]]:
        """What the reference changes, and which of its calls fail: tau2 has some, and goes on."""
        world = self._make_world(task)
        faults = []
        try:
            await world.open(task, self._seed_of(task))
            for index, action in enumerate(actions):
                result = await world.act(
                    Invocation(f"reference_{index}", action.name, action.arguments), action.requestor
                )
                if result.is_error:
                    faults.append(f"{action.name}: {result.content[:200]}")
            return net_changes(await world.changes(), NO_RULES), faults
        finally:
            await world.close()


class Tau2AssertionScorer:
    """Asks the environment."""

    name = "tau2_env"

    def __init__(self, domain: Tau2Domain) -> None:
        self._domain = domain

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        criteria = criteria_of(self._domain, task, "ENV_ASSERTION")
        if criteria is None or not criteria.env_assertions or not isinstance(world, Tau2World):
            return None
        failed = [found for assertion in criteria.env_assertions if (found := _failure(world, assertion)) is not None]
        count = len(criteria.env_assertions)
        if failed:
            text = f"{len(failed)} of {count} assertions on the environment do not hold"
            return Score(self.name, 0.0, text, _share(count - len(failed), count), evidence={"failed": failed})
        return Score(self.name, 1.0, f"all {count} assertions on the environment hold", 1.0)


def _failure(world: Tau2World, assertion: Any) -> dict[str, Any] | None:
    """How an assertion does not hold. One that raises does not: it asks about something that is not there."""
    failure = {"assertion": assertion.func_name, "arguments": assertion.arguments, "expected": assertion.assert_value}
    try:
        holds = world.environment.run_env_assertion(assertion, raise_assertion_error=False)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return {**failure, "error": describe_error(error)}
    return None if holds else failure


class Tau2CommunicateScorer:
    """Looks for the required facts in what the agent said; case and thousands' commas do not matter."""

    name = "tau2_communicate"

    def __init__(self, domain: Tau2Domain) -> None:
        self._domain = domain

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if criteria_of(self._domain, task, "COMMUNICATE") is None or not task.communicate:
            return None
        said = [_folded(message.content or "") for message in trajectory.messages if message.role == "assistant"]
        missing = [text for text in task.communicate if not any(_folded(text) in words for words in said)]
        count = len(task.communicate)
        if missing:
            share = _share(count - len(missing), count)
            return Score(self.name, 0.0, f"not told: {'; '.join(missing)}", share, evidence={"missing": missing})
        return Score(self.name, 1.0, f"told all {count}", 1.0)


class Tau2ActionScorer:
    """Looks for a call of its own for each reference action, by the same side, with the same arguments."""

    name = "tau2_actions"

    def __init__(self, domain: Tau2Domain) -> None:
        self._domain = domain

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        criteria = criteria_of(self._domain, task, "ACTION")
        if criteria is None or not criteria.actions or not isinstance(world, Tau2World):
            return None
        left = list(world.calls)
        missing = []
        # The pickiest first, so that an action that takes any arguments does not take another's only call.
        for action in sorted(criteria.actions, key=lambda action: -_pickiness(action)):
            found = next((called for called in left if _is_match(action, called)), None)
            if found is None:
                missing.append({"name": action.name, "arguments": action.arguments, "by": action.requestor})
            else:
                left.remove(found)
        count = len(criteria.actions)
        if missing:
            text = f"{len(missing)} of {count} reference actions were not called"
            return Score(self.name, 0.0, text, _share(count - len(missing), count), evidence={"missing": missing})
        return Score(self.name, 1.0, f"all {count} reference actions were called", 1.0)


def _share(done: int, of: int) -> float:
    return round(done / of, 4)


def _pickiness(action: Any) -> int:
    return len(action.arguments) + 1 if action.compare_args is None else len(action.compare_args)


def _is_match(action: Any, called: Tau2Call) -> bool:
    if action.name != called.name or action.requestor != called.side:
        return False
    if action.compare_args is None:
        return bool(action.arguments == called.arguments)
    return all(called.arguments.get(key) == action.arguments.get(key) for key in action.compare_args)


def _folded(text: str) -> str:
    return text.lower().replace(",", "")
