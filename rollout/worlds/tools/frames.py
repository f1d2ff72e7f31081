"""The wire format between the engine and a worker process: MessagePack behind four bytes of length.

A request is `[id, what, args]` and its answer `[id, how, value]`. The id is random and made for one request, so a mock
server that writes to the descriptor cannot answer for somebody else without knowing it. The engine trusts nothing that
arrives: the length is bounded before anything is kept, and every answer must have the shape that its request calls for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from rollout.worlds.world import Changes

MAX_FRAME = 80 << 20
"""Bytes of one message. A longer one is never sent, and ends the process that announces it."""

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


class FrameError(Exception):
    """The other side does not keep to the protocol."""


class RequestFrame(msgspec.Struct, array_like=True, frozen=True):
    """What the engine asks for."""

    id: bytes
    what: str
    args: list[Any]


class AnswerFrame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a worker process answers. `value` is decoded when it is known what was asked."""

    id: bytes
    how: Literal["ok", "config", "world"]
    value: msgspec.Raw


_SHAPES: dict[str, Any] = {
    "confine": dict[str, bool],
    "load": None,
    "open": None,
    "call": tuple[str, bool, Literal["crash", "tool"] | None],
    "changes": Changes,
    "state_key": str,
    "snapshot": tuple[bytes, str] | None,
    "restore": str,
    "close": None,
}
_values = {what: msgspec.msgpack.Decoder(shape).decode for what, shape in _SHAPES.items()}
_text = msgspec.msgpack.Decoder(str).decode
_answer = msgspec.msgpack.Decoder(AnswerFrame).decode
_request = msgspec.msgpack.Decoder(RequestFrame).decode


def write_frame(message: Any) -> bytes:
    """A message as it is sent. Raises `FrameError` where it is too long."""
    data = _encode(message)
    if len(data) > MAX_FRAME:
        raise FrameError(f"a message of {len(data)} bytes is too long")
    return len(data).to_bytes(4, "little") + data


def read_request(frame: bytes) -> RequestFrame:
    """A request, as a worker process reads it."""
    return _request(frame)


def read_answer(frame: bytes) -> AnswerFrame:
    """The outer part of an answer. Raises `FrameError`."""
    try:
        return _answer(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"not an answer ({error})") from error


def read_value(what: str, answer: AnswerFrame) -> Any:
    """What an answer says, in the shape that the request calls for; an error as its text. Raises `FrameError`."""
    try:
        return _values[what](answer.value) if answer.how == "ok" else _text(answer.value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"not an answer to {what!r} ({error})") from error


class FrameReader:
    """Puts messages together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that are complete with this piece. Raises `FrameError` as soon as one announces too much."""
        received = self._received
        received += piece
        while len(received) >= 4:
            size = int.from_bytes(received[:4], "little")
            if size > MAX_FRAME:
                raise FrameError(f"a message of {size} bytes was announced")
            if len(received) < 4 + size:
                return
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            yield frame
