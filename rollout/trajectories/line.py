"""The saved form of a finished trajectory: one JSON line.

`id`, `success`, `messages` and `metadata.{total_turns,stop_reason,tool_call_count}` are the seed's. A line is made of
the path's messages and a head; the journal keeps the head and the nodes, so a lost or torn line is made again, equal
byte for byte. All that differs between two runs of the same seed (times, retries) lies in `metadata.timings`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, encode_message

SCHEMA_VERSION = 1
_encoder = msgspec.json.Encoder()


class Head(msgspec.Struct, frozen=True):
    """Everything of a line but its messages."""

    id: str
    task_id: str
    success: bool
    metadata: JSON

    @property
    def status(self) -> str:
        return str(self.metadata["status"])

    @property
    def stop_reason(self) -> str:
        return str(self.metadata["stop_reason"])


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
