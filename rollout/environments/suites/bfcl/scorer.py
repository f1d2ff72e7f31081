"""BFCL's own verdict: after each turn, the agent's state and answers against those of the reference.

The trajectory's calls are played again, turn by turn, on a fresh world, and the reference calls on another. After each
turn that has reference calls three things must hold, in this order: the agent called something; every public attribute
of every instance equals the reference's; and what the reference calls of this turn answered is among what the agent's
calls have answered so far. A turn without reference calls is not checked (the agent lacks a function or a value then),
but what it does there counts later.

Playing it again needs nothing but the messages, so a finished run can be scored again; each answer is compared with the
record, and a trajectory whose calls answer otherwise today is left unscored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rollout.core.calls import CallReader, answer_calls
from rollout.core.changes import compare_tables
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.core.world import Invocation, World
from rollout.environments.suites.bfcl.world import BfclWorld, tables_of
from rollout.scoring.differences import compare_strictly, describe_differences
from rollout.scoring.rules import NO_RULES
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

SHOWN_ANSWERS = 5


class BfclScorer:
    """Compares after each turn, as BFCL's multi-turn checker does."""

    name = "bfcl"

    def __init__(self, make_world: Callable[[Task], BfclWorld]) -> None:
        self._make_world = make_world

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if task.actions is None:
            return None
        agent, reference = self._make_world(task), self._make_world(task)
        try:
            reader = CallReader((await agent.open(task, 0)).tools)
            await reference.open(task, 0)
            return await _compare_turns(task, trajectory, agent, reference, reader)
        finally:
            await agent.close()
            await reference.close()


async def _compare_turns(
    task: Task, trajectory: Trajectory, agent: BfclWorld, reference: BfclWorld, reader: CallReader
) -> Score:
    turns = split_turns(trajectory.messages)
    wanted = 1 + len(task.user_turns)
    answered: list[str] = []
    for turn in range(wanted):
        if turn >= len(turns):
            return _failed(turn, wanted, "ended_early", f"the conversation ended before turn {turn}")
        steps, recorded = turns[turn]
        has_called = False
        for calls in steps:
            for result in await answer_calls(calls, reader, agent):
                # What cannot be read is no call, as in BFCL; a call of what is not there is one.
                has_called = has_called or result.error_kind != "bad_arguments"
                if recorded.get(result.call_id, result.content) != result.content:
                    text = f"turn {turn}: a call answers differently from the record: {result.content[:200]}"
                    return Score(BfclScorer.name, None, text)
                answered.append(result.content)
        actions = [action for action in task.actions or () if action.turn == turn]
        due = [Invocation(f"reference_{index}", action.name, action.arguments) for index, action in enumerate(actions)]
        expected = [result.content for result in await reference.call(due)]
        if not due:
            continue
        if not has_called:
            return _failed(turn, wanted, "nothing_called", f"nothing was called in turn {turn}")
        different = _different(agent.instances, reference.instances)
        if different:
            change = compare_tables(tables_of(reference.instances), tables_of(agent.instances))
            rows = describe_differences(compare_strictly({}, change), NO_RULES)
            evidence = {"attributes": different, "tables": rows}
            text = f"after turn {turn} the state differs in {', '.join(different)}"
            return _failed(turn, wanted, "state", text, evidence)
        missing = list((Counter(expected) - Counter(answered)).elements())
        if missing:
            text = f"turn {turn}: {len(missing)} of {len(expected)} answers of the reference were never obtained"
            return _failed(turn, wanted, "answers", text, {"missing": missing[:SHOWN_ANSWERS]})
    return Score(BfclScorer.name, 1.0, f"state and answers are the reference's in all {wanted} turns", 1.0)


def _failed(turn: int, turns: int, check: str, reason: str, evidence: dict[str, Any] | None = None) -> Score:
    found = {"check": check, "turn": turn, "turns": turns, **(evidence or {})}
    return Score(BfclScorer.name, 0.0, reason, round(turn / turns, 4), evidence=found)


Steps = list[Sequence[ToolCall]]


def split_turns(messages: Iterable[Message]) -> list[tuple[Steps, dict[str, str | None]]]:
    """The calls of each turn, message by message, and what they were answered, by call id."""
    turns: list[tuple[Steps, dict[str, str | None]]] = []
    for message in messages:
        if message.role == "user":
            turns.append(([], {}))
        elif turns and message.role == "assistant" and message.tool_calls:
            turns[-1][0].append(message.tool_calls)
        elif turns and message.role == "tool" and message.tool_call_id is not None:
            turns[-1][1][message.tool_call_id] = message.content
    return turns


def _different(agent: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """The public attributes in which two sets of instances are not equal, by Python's own equality, as BFCL has it."""
    return [
        f"{name}.{attribute}"
        for name, instance in reference.items()
        for attribute, value in vars(instance).items()
        if not attribute.startswith("_") and getattr(agent[name], attribute, None) != value
    ]
