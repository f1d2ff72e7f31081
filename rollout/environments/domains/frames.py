"""The wire format between the engine and a worker process: MessagePack behind four bytes of length.

A request is `[id, what, args]` and its answer `[id, how, value]`. The id is random and made for one request, so a mock
server that writes to the descriptor cannot answer for another request without knowing it. The engine trusts nothing
that arrives: every answer must have the shape that its request calls for, and its size is bounded before it is kept,
by what an honest worker sends at most in answer to such a request (`MAX_ANSWER`).

A few bytes of MessagePack or JSON can become many objects: an empty dict is one byte on the wire and 72 in memory. So
what is decoded is either flat (texts, bytes) or, as the changes are, JSON in one piece, whose values are counted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from rollout.core.changes import Changes
from rollout.core.errors import describe_error

MAX_FRAME = 80 << 20
"""Bytes of one message. A longer one is never sent."""
MAX_RESULT = 16 << 20
"""Characters of a tool's result. A worker answers a longer one as an error, and the engine takes none."""
MAX_ERROR_TEXT = 20_000
"""Characters of an error that a worker sends. The engine, which knows the secrets, cuts it further."""
MAX_CHANGES = 48 << 20
"""Bytes of a world's changes."""
MAX_VALUES = 2_000_000
"""Values within a world's changes: all rows of a table of 10 MB, as they were and as they are."""
MAX_SNAPSHOT = 64 << 20
"""Bytes of a snapshot, which is not decoded here."""
_SMALL = 1 << 10
_OUTER = 1 << 10
"""More than what is around a value needs."""

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


_Key = Annotated[str, msgspec.Meta(max_length=64)]
_SHAPES: dict[str, Any] = {
    "confine": dict[str, bool],
    "load": None,
    "open": None,
    "call": tuple[str, bool, Literal["crash", "tool"] | None],
    "changes": bytes,
    "state_key": _Key,
    "snapshot": tuple[bytes, _Key] | None,
    "restore": _Key,
    "close": None,
}
MAX_ANSWER = {
    **dict.fromkeys(_SHAPES, _SMALL),
    "call": 4 * MAX_RESULT,
    "changes": MAX_CHANGES,
    "snapshot": MAX_SNAPSHOT,
}
"""Bytes of the value that answers a request, where it is no error."""
_values = {what: msgspec.msgpack.Decoder(shape).decode for what, shape in _SHAPES.items()}
_text = msgspec.msgpack.Decoder(str).decode
_answer = msgspec.msgpack.Decoder(AnswerFrame).decode
_request = msgspec.msgpack.Decoder(RequestFrame).decode
_encode_changes = msgspec.json.Encoder(enc_hook=str).encode
_changes = msgspec.json.Decoder(Changes).decode


def write_frame(message: Any, limit: int = MAX_FRAME) -> bytes:
    """A message as it is sent. Raises `FrameError` where it is too long."""
    data = _encode(message)
    if len(data) > limit:
        raise FrameError(f"a message of {len(data)} bytes is too long")
    return len(data).to_bytes(4, "little") + data


def write_answer(request: RequestFrame, how: str, value: Any) -> bytes:
    """An answer as it is sent; an error's text is cut. Raises `FrameError` where the engine would not take it."""
    if how != "ok":
        value = value[:MAX_ERROR_TEXT]
    elif request.what == "changes":
        value = _encode_changes(value)
        _check_changes(value)
    return write_frame((request.id, how, value), max_frame(request.what))


def max_frame(what: str) -> int:
    """Bytes of the longest answer to a request."""
    return max(MAX_ANSWER[what], 4 * MAX_ERROR_TEXT) + _OUTER


def read_request(frame: bytes) -> RequestFrame:
    """A request, as a worker process reads it."""
    return _request(frame)


def read_answer(frame: bytes) -> AnswerFrame:
    """The outer part of an answer. Raises `FrameError`."""
    try:
        return _answer(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"not an answer ({describe_error(error, 300)})") from error


def read_value(what: str, answer: AnswerFrame) -> Any:
    """What an answer says, in the shape that the request calls for; an error as its text. Raises `FrameError`."""
    is_error = answer.how != "ok"
    most = 4 * MAX_ERROR_TEXT if is_error else MAX_ANSWER[what]
    if len(answer.value) > most + _OUTER:
        raise FrameError(f"not an answer to {what!r} ({len(answer.value)} bytes)")
    try:
        value: Any = _text(answer.value) if is_error else _values[what](answer.value)
        if what == "changes" and not is_error:
            _check_changes(value)
            value = _changes(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"not an answer to {what!r} ({describe_error(error, 300)})") from error
    if what == "call" and not is_error and len(value[0]) > MAX_RESULT:
        raise FrameError(f"not an answer to {what!r} (a result of {len(value[0])} characters)")
    return value


def _check_changes(data: bytes) -> None:
    """Raise `FrameError` where changes are too much to decode. The count also sees what is in texts: it is a bound."""
    values = sum(map(data.count, (b",", b"[", b"{")))
    if len(data) > MAX_CHANGES or values > MAX_VALUES:
        raise FrameError(f"changes of {len(data)} bytes and about {values} values are too large")


class FrameReader:
    """Puts messages together from the pieces in which they arrive."""

    def __init__(self, limit: Callable[[], int] = lambda: MAX_FRAME) -> None:
        self._limit = limit
        """Bytes that the next message may have."""
        self._received = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The messages that are complete with this piece. Raises `FrameError` as soon as one announces too much."""
        received = self._received
        received += piece
        while len(received) >= 4:
            size = int.from_bytes(received[:4], "little")
            if size > self._limit():
                raise FrameError(f"a message of {size} bytes was announced")
            if len(received) < 4 + size:
                return
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            yield frame
