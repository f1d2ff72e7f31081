"""The record of a finished attempt without its messages, and the JSON line that it is saved as.

`Head` is that record. Its `metadata` is the JSON object of the line, kept as it was written so that a lost or torn line
can be made again byte for byte. Every value in it is read through a typed property: only this module and `make_head`
of the engine, which writes it, know its keys. Properties accept the records of earlier versions and of other tools:
what is missing there has a neutral value.

All that differs between two runs of the same seed (times, retries) is in `metadata.timings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, encode_message
from rollout.trajectories.generation import Usage
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status

SCHEMA_VERSION = 1
UNREWARDED = frozenset({str(Status.FAILED), str(Status.CUT)})
"""Statuses that say nothing about the agent."""
_encoder = msgspec.json.Encoder()


class Failed(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    kind: str
    text: str = ""
    notes: tuple[str, ...] = ()


class BranchPoint(msgspec.Struct, frozen=True):
    """Where an attempt began."""

    number: int = 0
    """The attempt's number within its group."""
    reason: str = "init"
    parent: str | None = None
    """The trajectory that it branched from; None for an attempt that began afresh."""
    shared_messages: int = 0
    """Messages that it has in common with its parent."""
    lineage: tuple[tuple[int, int], ...] = ()
    """Whose steps it begins with: attempt numbers, the first chain first, with how many steps each made."""
    temperature: float | None = None
    token_offset: int | None = None
    """Tokens of its first generation that were taken from its parent."""


class UserCall(msgspec.Struct, frozen=True):
    """A call that the user made with tools of its own."""

    message: int
    """How many messages of the conversation were before it."""
    name: str
    arguments: str
    result: str


class Timings(msgspec.Struct, frozen=True):
    """How long an attempt took, in seconds."""

    seconds: float = 0.0
    model_seconds: float = 0.0
    retries: int = 0


class Head(msgspec.Struct, frozen=True):
    """What is on record of a finished attempt besides its messages."""

    id: str
    task_id: str
    success: bool
    metadata: JSON

    @property
    def status(self) -> str:
        """`completed`, `truncated`, `filtered`, `cut` or `failed`."""
        return str(self.metadata["status"])

    @property
    def stop_reason(self) -> str:
        """Why it ended: a value of `StopReason`."""
        return str(self.metadata.get("stop_reason"))

    @property
    def error(self) -> Failed | None:
        """What broke; None unless the attempt failed, or the model's context was full."""
        found = self.metadata.get("error")
        return None if not found else Failed(str(found.get("kind")), str(found.get("text", "")), _notes(found))

    @property
    def dataset(self) -> str:
        """The dataset or environment; empty where it is not on record."""
        return str(self.metadata.get("dataset") or "")

    @property
    def group(self) -> str:
        """What its attempt is compared within: the task's id, unless another one is on record."""
        return str(self.metadata.get("group") or self.task_id)

    @property
    def model(self) -> str | None:
        """The agent's model."""
        return _text(self.metadata.get("model"))

    @property
    def user_model(self) -> str | None:
        """The user's model; None where no user spoke."""
        return _text(self.metadata.get("user_model"))

    @property
    def seed(self) -> int:
        """The attempt's own seed."""
        return int(self.metadata.get("seed") or 0)

    @property
    def scored(self) -> bool:
        """Whether `success` is a verdict of scorers. Otherwise it says only that the attempt ended properly."""
        return bool(self.metadata.get("scored"))

    @property
    def unscored(self) -> str | None:
        """Why there is no verdict; None where there is one."""
        return _text(self.metadata.get("unscored"))

    @property
    def scores(self) -> tuple[Score, ...]:
        """What each scorer found."""
        return tuple(msgspec.convert(self.metadata.get("scores") or (), list[Score], strict=False))

    def score(self, name: str) -> Score | None:
        """The score of this name; None where there is none."""
        return next((score for score in self.scores if score.name == name), None)

    @property
    def reward(self) -> float | None:
        """What the attempt is worth by the dataset's rule; None where that cannot be known. Runs of earlier versions
        recorded none: then it is 1 for a success and 0 for none."""
        if "reward" not in self.metadata:
            return float(self.success) if self.scored and self.status not in UNREWARDED else None
        reward = self.metadata["reward"]
        return float(reward) if isinstance(reward, int | float) and math.isfinite(reward) else None

    @property
    def turns(self) -> int:
        """User messages, the opening's included."""
        return int(self.metadata.get("total_turns") or 0)

    @property
    def generations(self) -> int | None:
        """Answers of the agent's model; None where that is not on record."""
        found = self.metadata.get("generations")
        return None if found is None else int(found)

    @property
    def tool_calls(self) -> int:
        """Calls that the agent asked for."""
        return int(self.metadata.get("tool_call_count") or 0)

    @property
    def tool_errors(self) -> Mapping[str, int]:
        """Error observations by kind."""
        return self.metadata.get("tool_errors") or {}

    @property
    def marks(self) -> tuple[str, ...]:
        """Remarks made while the attempt was live, such as faults of the simulated user."""
        return tuple(map(str, self.metadata.get("marks") or ()))

    @property
    def unjudged(self) -> int:
        """Verdicts that a judge was asked for and did not give."""
        return int(self.metadata.get("unjudged") or 0)

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens of `agent`, `user` and `judge`."""
        return msgspec.convert(self.metadata.get("usage") or {}, dict[str, Usage])

    @property
    def cost(self) -> float:
        """What its models cost, in dollars."""
        return float(self.metadata.get("cost") or 0.0)

    @property
    def timings(self) -> Timings:
        """How long it took."""
        return msgspec.convert(self.metadata.get("timings") or {}, Timings)

    @property
    def branch(self) -> BranchPoint | None:
        """Where it began; None where that is not on record."""
        found = self.metadata.get("branch")
        return None if not found else msgspec.convert(found, BranchPoint)

    @property
    def states(self) -> tuple[str | None, ...]:
        """The key of the world's state that each step started from, where states are recorded."""
        return tuple(self.metadata.get("states") or ())

    @property
    def user_calls(self) -> tuple[UserCall, ...]:
        """What the user called with tools of its own, in order."""
        return msgspec.convert(self.metadata.get("user_calls") or (), tuple[UserCall, ...])

    @property
    def prompt_name(self) -> str | None:
        """The blob of the system prompt and tools that were sent last; None where no run of ours made it."""
        return _text(self.metadata.get("prompt"))

    @property
    def prompt_names(self) -> tuple[tuple[int, str], ...]:
        """Where the tools changed: the turns from which on others were sent, each with its blob. Usually empty."""
        return tuple((int(entry["turn"]), str(entry["prompt"])) for entry in self.metadata.get("prompts") or ())

    @property
    def is_exact(self) -> bool:
        """Whether the token ids of every generation are on record."""
        return bool((self.metadata.get("tokens") or self.metadata).get("exact"))

    @property
    def drift_causes(self) -> tuple[str, ...]:
        """Why prompts did not begin with what was sampled before, once for each such prompt."""
        return tuple(str(drift["cause"]) for drift in (self.metadata.get("tokens") or {}).get("drift") or ())

    @property
    def reasoning_rule(self) -> str | None:
        """What of earlier reasoning the model was sent; None where that is not on record."""
        return _text((self.metadata.get("reasoning") or {}).get("rule"))

    @property
    def view(self) -> JSON | None:
        """What the model was sent of the conversation (`Viewing.record`); None where that is not on record."""
        found: JSON | None = self.metadata.get("view")
        return found

    @property
    def opening(self) -> int:
        """How many messages the task began with; 0 where that is not on record."""
        return int((self.view or {}).get("opening", 0))


def encode_line(head: Head, messages: Iterable[Message]) -> bytes:
    """The line, with its newline."""
    return b"".join(
        (
            b'{"id":',
            _encoder.encode(head.id),
            b',"task_id":',
            _encoder.encode(head.task_id),
            b',"success":',
            b"true" if head.success else b"false",
            b',"messages":[',
            b",".join(map(encode_message, messages)),
            b'],"metadata":',
            _encoder.encode(head.metadata),
            b"}\n",
        )
    )


def comparable(line: JSON) -> JSON:
    """A decoded line without what may differ between two equal runs."""
    metadata: dict[str, Any] = {key: value for key, value in line["metadata"].items() if key != "timings"}
    return {**line, "metadata": metadata}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _notes(error: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, error.get("notes") or ()))
