"""How the engine and a worker process talk: one message after the other, MessagePack behind four bytes of length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder().decode


def write_frame(message: Any) -> bytes:
    """A message as it is sent."""
    data = _encode(message)
    return len(data).to_bytes(4, "little") + data


class FrameReader:
    """Puts messages together from the pieces in which they come."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """The messages that are whole with this piece, each taken out before the next is looked for."""
        received = self._received
        received += piece
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "little")):
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            yield _decode(frame)
