"""The record of a finished attempt without its messages, and the JSON line that it is saved as.

`Head` is that record. Its `metadata` is the JSON object of the line, kept as it was written so that a lost or torn line
can be made again byte for byte. Every value in it is read through a typed property: only this module and
`rollout.engine.outcome`, which writes it, know its keys. Properties accept the records of earlier versions and of other
tools, whatever these hold: what is missing or something else has a neutral value.

All that differs between two runs of the same seed (times, retries) is in `metadata.timings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rollout.core.messages import JSON, Message, encode_message, message_from_json
from rollout.trajectories.generation import Usage
from rollout.trajectories.person_marks import PersonMark, is_person_record, person_score
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status, StopReason, status_of

SCHEMA_VERSION = 1
UNREWARDED = frozenset({str(Status.FAILED), str(Status.CUT)})
"""Statuses that say nothing about the agent."""
_encoder = msgspec.json.Encoder()
Read = TypeVar("Read")
Default = TypeVar("Default")
H = TypeVar("H", bound="Head")


class Failed(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    kind: str
    text: str = ""
    notes: tuple[str, ...] = ()
    check: str | None = None
    """The keys of the models registry that are probably wrong."""


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


class Corrected(msgspec.Struct, frozen=True):
    """What a correction by a person replaces."""

    message: int
    """The place of the corrected message."""
    answer: Message
    """As it was."""


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
        """`completed`, `truncated`, `cut` or `failed`."""
        return str(self.metadata.get("status"))

    @property
    def stop_reason(self) -> str:
        """Why it ended: a value of `StopReason`."""
        return str(self.metadata.get("stop_reason"))

    @property
    def error(self) -> Failed | None:
        """What broke; None unless the attempt failed, or the model's context was full."""
        found = _object(self.metadata.get("error"))
        if not found:
            return None
        notes = tuple(map(str, _list(found.get("notes"))))
        check = found.get("check")
        return Failed(str(found.get("kind")), str(found.get("text", "")), notes, None if check is None else str(check))

    @property
    def dataset(self) -> str:
        """The dataset or environment; empty where it is not on record."""
        return str(self.metadata.get("dataset") or "")

    @property
    def group(self) -> str:
        """The group that the attempt is compared with: the task's id, unless another one is on record."""
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
    def author(self) -> str | None:
        """The person who corrected its last message, or who asked for it; None for an attempt of the run itself."""
        return _text(self.metadata.get("author"))

    @property
    def corrected(self) -> Corrected | None:
        """What its last message, a correction, replaces; None for an attempt that does not end at one."""
        found = _object(self.metadata.get("corrected"))
        if not found:
            return None
        try:
            return Corrected(_whole(found.get("message")), message_from_json(found["answer"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    @property
    def seed(self) -> int:
        """The attempt's own seed."""
        return _whole(self.metadata.get("seed"))

    @property
    def scored(self) -> bool:
        """Whether `success` is a verdict of scorers. If not, it only says that the attempt ended properly."""
        return bool(self.metadata.get("scored"))

    @property
    def unscored(self) -> str | None:
        """Why there is no verdict; None where there is one."""
        return _text(self.metadata.get("unscored"))

    @property
    def scores(self) -> tuple[Score, ...]:
        """What each scorer found."""
        found = self.metadata.get("scores")
        if not found:
            return ()
        try:
            return msgspec.convert(found, tuple[Score, ...])
        except msgspec.ValidationError:
            return tuple(score for entry in _list(found) if (score := _read_score(entry)) is not None)

    def score(self, name: str) -> Score | None:
        """The score of this name; None where there is none."""
        return next((score for score in self.scores if score.name == name), None)

    @property
    def reward(self) -> float | None:
        """The reward by the dataset's rule; None where it cannot be known. Runs of earlier versions did not record it:
        it is then 1 for a success and 0 otherwise."""
        if "reward" not in self.metadata:
            return float(self.success) if self.scored and self.status not in UNREWARDED else None
        return _number(self.metadata["reward"])

    @property
    def turns(self) -> int:
        """The number of user messages, including those of the opening."""
        return _whole(self.metadata.get("total_turns"))

    @property
    def generations(self) -> int | None:
        """The number of answers of the agent's model; None where that is not on record."""
        found = self.metadata.get("generations")
        return None if found is None else _whole(found)

    @property
    def tool_calls(self) -> int:
        """The number of tool calls that the agent asked for."""
        return _whole(self.metadata.get("tool_call_count"))

    @property
    def tool_errors(self) -> Mapping[str, int]:
        """The number of tool results that are errors, by kind."""
        return _object(self.metadata.get("tool_errors"))

    @property
    def marks(self) -> tuple[str, ...]:
        """Remarks made while the attempt was live, such as faults of the simulated user."""
        return tuple(map(str, _list(self.metadata.get("marks"))))

    @property
    def person_marks(self) -> tuple[PersonMark, ...]:
        """What people said of the trajectory and of its messages, in order of their numbers."""
        return _convert(self.metadata.get("person_marks"), tuple[PersonMark, ...], ())

    @property
    def unjudged(self) -> int:
        """The number of verdicts that a judge was asked for and did not give."""
        return _whole(self.metadata.get("unjudged"))

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens of `agent`, `user` and `judge`."""
        return _convert(self.metadata.get("usage"), dict[str, Usage], {})

    @property
    def cost(self) -> float:
        """What its models cost, in dollars."""
        return _number(self.metadata.get("cost")) or 0.0

    @property
    def timings(self) -> Timings:
        """How long it took."""
        return _convert(self.metadata.get("timings"), Timings, Timings())

    @property
    def branch(self) -> BranchPoint | None:
        """Where it began; None where that is not on record."""
        found = _object(self.metadata.get("branch"))
        return _convert(found, BranchPoint, None) or (_read_branch(found) if found else None)

    @property
    def states(self) -> tuple[str | None, ...]:
        """The key of the world's state before each step, where states are recorded."""
        return tuple(map(_text, _list(self.metadata.get("states"))))

    @property
    def user_calls(self) -> tuple[UserCall, ...]:
        """Tool calls that the user made with its own tools, in order."""
        return _convert(self.metadata.get("user_calls"), tuple[UserCall, ...], ())

    @property
    def prompt_name(self) -> str | None:
        """The blob with the system prompt and tools that were sent last; None for trajectories that Rollout did not
        record."""
        return _text(self.metadata.get("prompt"))

    @property
    def prompt_names(self) -> tuple[tuple[int, str], ...]:
        """The turns at which the tools changed, each with the blob of what was sent from then on. Usually empty."""
        found = _list(self.metadata.get("prompts"))
        entries = map(_object, found)
        return tuple((_whole(entry.get("turn")), str(entry.get("prompt"))) for entry in entries) if found else ()

    @property
    def is_exact(self) -> bool:
        """Whether the token ids of all generations are on record."""
        return bool((_object(self.metadata.get("tokens")) or self.metadata).get("exact"))

    @property
    def drift_causes(self) -> tuple[str, ...]:
        """Why prompts did not begin with the tokens sampled before, once for each such prompt."""
        drifts = _list(_object(self.metadata.get("tokens")).get("drift"))
        return tuple(str(_object(drift).get("cause")) for drift in drifts)

    @property
    def reasoning_rule(self) -> str | None:
        """How much of the earlier reasoning was sent to the model; None where that is not on record."""
        return _text(_object(self.metadata.get("reasoning")).get("rule"))

    @property
    def view(self) -> JSON | None:
        """Which part of the conversation was sent to the model (`Viewing.record`); None where that is not on record."""
        return _object(self.metadata.get("view")) or None

    @property
    def opening(self) -> int:
        """How many messages the task began with; 0 where that is not on record."""
        return max(_whole(_object(self.metadata.get("view")).get("opening")), 0)

    def entries(self, names: Iterable[str]) -> JSON:
        """These entries of the record as they were written, for formats that keep them; None for a missing one."""
        return {name: self.metadata.get(name) for name in names}


def with_dataset(head: H, name: str) -> H:
    """The same attempt in a dataset of this name, for records that name none or another."""
    return head if head.dataset == name else msgspec.structs.replace(head, metadata={**head.metadata, "dataset": name})


def with_person_marks(head: H, marks: Sequence[PersonMark]) -> H:
    """The same attempt with people's marks, and with their verdicts as a score beside the others. What is on record
    is not changed: marks can be set and removed at any time."""
    if not marks:
        return head
    scores = [entry for entry in _list(head.metadata.get("scores")) if not is_person_record(_object(entry))]
    if (verdict := person_score(marks)) is not None:
        scores.append(verdict.record())
    found = {"scores": scores, "person_marks": msgspec.to_builtins(tuple(marks))}
    return msgspec.structs.replace(head, metadata={**head.metadata, **found})


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


def bare_metadata(reason: StopReason, error: JSON | None = None) -> JSON:
    """The least that a record says: how the attempt ended."""
    return {"status": str(status_of(reason)), "stop_reason": str(reason), "error": error}


def with_outcome(metadata: JSON, find: Callable[[str | None], JSON]) -> JSON:
    """The record of a foreign line, completed by how the attempt ended if it does not say so. `find` is given the stop
    reason that it names."""
    return metadata if "status" in metadata else {**find(_text(metadata.get("stop_reason"))), **metadata}


def comparable(line: JSON) -> JSON:
    """A decoded line without what may differ between two equal runs."""
    metadata: dict[str, Any] = {key: value for key, value in line["metadata"].items() if key != "timings"}
    return {**line, "metadata": metadata}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _object(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else int(_number(value) or 0)


def _convert(value: Any, to: type[Read], default: Default) -> Read | Default:
    """A value of the record as a type; the default where it is missing or something else."""
    if not value:
        return default
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return default


def _read_branch(found: JSON) -> BranchPoint:
    """A branch that is not written as ours, as far as it can be read."""
    pairs = (pair for pair in _list(found.get("lineage")) if isinstance(pair, list | tuple) and len(pair) == 2)
    return BranchPoint(
        _whole(found.get("number")),
        str(found.get("reason") or "init"),
        _text(found.get("parent")),
        _whole(found.get("shared_messages")),
        tuple((_whole(owner), _whole(steps)) for owner, steps in pairs),
        _number(found.get("temperature")),
        _whole(found.get("token_offset")) or None,
    )


def _read_score(entry: Any) -> Score | None:
    """A score that is not written as ours: its name, value and verdict."""
    score = _object(entry)
    if "name" not in score:
        return None
    partial = _number(score.get("partial"))
    reason, decides = str(score.get("reason") or ""), bool(score.get("decides"))
    return Score(
        str(score["name"]),
        _number(score.get("value")),
        reason,
        partial,
        decides=decides,
        evidence=_object(score.get("evidence")),
    )
