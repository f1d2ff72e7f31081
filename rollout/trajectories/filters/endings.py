"""Filters by how a trajectory ended: infrastructure that broke, and budgets that were used up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from rollout.core.spelling import suggest
from rollout.trajectories.filters.filter import WholeFilter
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.texts import count_tokens, quote
from rollout.trajectories.filters.turns import Turn
from rollout.trajectories.line import Failed
from rollout.trajectories.stop import Status, StopReason
from rollout.trajectories.trajectory import Trajectory


class InfrastructureErrors(WholeFilter):
    """Trajectories that broke, and those of whose answers the server broke one off. They count in no group."""

    finds_broken: ClassVar[bool] = True
    tool_errors: list[str] = []
    """Kinds of error observations that are infrastructure here, too, such as `timeout` or `crash`."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        if trajectory.status == Status.FAILED:
            error = trajectory.error or Failed("unknown")
            yield Found(f"infrastructure broke: {error.kind}", quote(error.text))
        for turn in turns:
            if turn.is_broken_off:
                content = trajectory.messages[turn.message].content or ""
                yield Found(f"the server broke the answer off ({turn.finish_reason})", quote(content), turn.turn)
            for call, result, kind in trajectory.answered_calls(turn.message) if self.tool_errors else ():
                if kind in self.tool_errors:
                    told = quote((result.content or "") if result is not None else "")
                    yield Found(f"{call.name} met a {kind}", told, turn.turn)


class Overlong(WholeFilter):
    """Trajectories that a budget ended, and those beyond limits of their own."""

    stop_reasons: list[str] = ["max_turns", "max_steps", "context_length", "deadline"]
    """The stop reasons that mean it."""
    max_turns: int | None = Field(None, ge=1)
    """Also those with more answers of the agent."""
    max_tokens: int | None = Field(None, ge=1)
    """Also those with more tokens of the agent."""

    @field_validator("stop_reasons")
    @classmethod
    def _exist(cls, value: list[str]) -> list[str]:
        for reason in value:
            if reason not in list(StopReason):
                raise ValueError(f"there is no stop reason {reason!r}; {suggest(reason, list(StopReason))}")
        return value

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        if trajectory.stop_reason in self.stop_reasons:
            yield Found(f"a budget ended it: {trajectory.stop_reason}", f"{len(turns)} turns")
        if self.max_turns is not None and len(turns) > self.max_turns:
            yield Found(f"more than {self.max_turns} turns", f"{len(turns)} turns")
        if self.max_tokens is not None:
            written = sum(self._tokens(trajectory, turn) for turn in turns)
            if written > self.max_tokens:
                yield Found(f"more than {self.max_tokens} tokens of the agent", f"{written} tokens")

    @staticmethod
    def _tokens(trajectory: Trajectory, turn: Turn) -> int:
        if turn.tokens is not None:
            return turn.tokens
        message = trajectory.messages[turn.message]
        texts = (message.content, message.reasoning, *(call.arguments for call in message.tool_calls))
        return sum(count_tokens(text) for text in texts if text)
