"""Reading saved trajectories: lines of our runs, lines that have their label, and flat AgentSkiller records.

A line is taken apart only as far as asked: its fields stay the bytes they are until they are read, so a label can
be added without touching the rest, and a filter need not read the messages. All three kinds look the same afterwards:
AgentSkiller's flags (`stopped`, `reached_max_turns`, `error`, …) are read as our status and stop reason.
"""

from __future__ import annotations

import codecs
import functools
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, decode_messages
from rollout.trajectories.line import bare_metadata, with_outcome
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory

BUFFER = 1 << 18
_read_value = msgspec.json.Decoder().decode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, RecursionError)
_FLAGS = (
    ("reached_max_turns", StopReason.MAX_TURNS),
    ("out_of_scope", StopReason.USER_OUT_OF_SCOPE),
    ("transferred", StopReason.USER_TRANSFER),
    ("stopped", StopReason.USER_STOP),
)


class BadLine(ValueError):
    """A line that holds no trajectory. The text says why."""


class SavedLine(Trajectory, frozen=True, dict=True, kw_only=True, eq=False):
    """A trajectory that was read from a line."""

    fields: dict[str, msgspec.Raw]
    """Everything that the line holds, in its order."""

    @property
    def is_labelled(self) -> bool:
        """Whether the line holds system prompt and tools."""
        return "tools" in self.fields

    @property
    def opening(self) -> int:
        """How many messages there were before the agent began, the system prompt of a label included."""
        known = super().opening
        if self.nodes is not None or (known and not self.is_labelled):
            return known
        return known + bool(self.messages and self.messages[0].role == "system")

    @functools.cached_property
    def messages(self) -> Sequence[Message]:
        """The messages of the line. Raises BadLine."""
        return super().messages if self.given else self.read_messages()

    def read_messages(self) -> tuple[Message, ...]:
        """The messages, without keeping them. Raises BadLine."""
        try:
            return decode_messages(self.fields["messages"])
        except _UNREADABLE as error:
            raise BadLine(f"messages cannot be read: {_describe(error)}") from error


def read_saved(line: bytes) -> SavedLine:
    """Read one line. Raises BadLine."""
    try:
        fields = _read_fields(line)
        raw = fields["messages"]
        identifier = _value(fields, "id")
        error = _value(fields, "error")
        success = bool(_value(fields, "success", error is None))
        metadata = _value(fields, "metadata")
        known = metadata if isinstance(metadata, dict) else {}
        metadata = with_outcome(known, lambda reason: _outcome(fields, reason, error, success))
    except _UNREADABLE as error:
        raise BadLine(f"not a trajectory: {_describe(error)}") from error
    name = str(identifier) if identifier not in (None, "") else hashlib.sha256(bytes(raw)).hexdigest()[:16]
    task = _value(fields, "task_id")
    return SavedLine(name, name if task is None else str(task), success, metadata, fields=fields)


def read_saved_file(path: Path) -> Iterator[tuple[str, SavedLine | BadLine]]:
    """The trajectories of a file, each with its place (`file:line`); a bad line comes as what is wrong with it."""
    return ((where, line) for where, _, line in read_saved_places(path))


def read_saved_places(path: Path) -> Iterator[tuple[str, int, SavedLine | BadLine]]:
    """The same, each also with the byte at which it begins, for `read_saved_at`."""
    try:
        with path.open("rb", buffering=BUFFER) as file:
            name, place = str(path), 0
            for number, line in enumerate(file, 1):
                begin, place = place, place + len(line)
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                    begin = place - len(line)
                if line.isspace() or not line:
                    continue
                where = f"{name}:{number}"
                try:
                    yield where, begin, read_saved(line)
                except BadLine as error:
                    yield where, begin, error
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the trajectories: {error.strerror or error}") from error


def read_saved_at(file: BinaryIO, begin: int) -> SavedLine:
    """The trajectory that begins at a byte of an open file. Raises BadLine."""
    try:
        file.seek(begin)
        return read_saved(file.readline())
    except OSError as error:
        raise ConfigError(f"{file.name}: cannot read the trajectories: {error.strerror or error}") from error


def _value(fields: dict[str, msgspec.Raw], key: str, default: Any = None) -> Any:
    raw = fields.get(key)
    return default if raw is None else _read_value(raw)


def _outcome(fields: dict[str, msgspec.Raw], said: str | None, error: Any, success: bool) -> JSON:
    """Status and stop reason of a line that does not say them in our words. `said`: a stop reason of its record."""
    flagged = [reason for flag, reason in _FLAGS if _value(fields, flag)]
    said = said or _value(fields, "stop_reason")
    known = [StopReason(said)] if said in StopReason.__members__.values() else []
    # Without a flag an AgentSkiller record says only whether it worked: one turn, or something that broke.
    default = StopReason.AGENT_DONE if success else StopReason.ERROR
    reason = StopReason.ERROR if error is not None else (*flagged, *known, default)[0]
    return bare_metadata(reason, None if error is None else {"kind": "infra", "text": str(error), "notes": []})


def _describe(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
