"""Compressed HTTP bodies, unpacked in small pieces.

Three megabytes of gzip can hold six gigabytes of zeros. HTTP clients unpack whatever arrives in one go, so the limits
that we put on answers must count what comes *out*, and must be able to stop before it is there. `unpack` yields pieces
of at most `PIECE_BYTES`; its callers add them up and stop reading when it is too much.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

ACCEPTED = "gzip, deflate"
"""The `Accept-Encoding` of our requests: what `Unpacker` can undo."""
PIECE_BYTES = 64 * 1024
_PLAIN = ("", "identity")
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
_DEFLATED = 8
"""The method in the low bits of the first byte of a zlib stream; a raw deflate stream has no such header."""


class BadBody(Exception):
    """A body that is not what its headers say."""


class Unpacker:
    """Undoes the `Content-Encoding` of one body. Raises `BadBody` where it cannot."""

    def __init__(self, encoding: str | None) -> None:
        name = (encoding or "").strip().lower()
        if name not in (*_PLAIN, "gzip", "x-gzip", "deflate"):
            raise BadBody(f"content encoding {name[:40]!r}; expected one of: {ACCEPTED}")
        self._is_plain = name in _PLAIN
        self._may_be_raw = name == "deflate"
        self._engine: zlib._Decompress | None = None

    def unpack(self, data: bytes) -> Iterator[bytes]:
        """What a chunk of the body holds, piece by piece."""
        if self._is_plain:
            yield data
            return
        while data:
            if self._engine is None:
                is_raw = self._may_be_raw and data[0] & 15 != _DEFLATED
                self._engine = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else _ZLIB_OR_GZIP)
            engine = self._engine
            is_full = True
            while is_full and not engine.eof:
                try:
                    piece = engine.decompress(data, PIECE_BYTES)
                except zlib.error as error:
                    raise BadBody(f"not a {'deflate' if self._may_be_raw else 'gzip'} body: {error}") from error
                data = engine.unconsumed_tail
                # A full piece may leave more in the engine, even where it has taken all of the chunk.
                is_full = bool(data) or len(piece) == PIECE_BYTES
                if piece:
                    yield piece
            data = engine.unused_data if engine.eof else b""
            if engine.eof:
                # Several gzip members may follow one another.
                self._engine = None

    def end(self) -> None:
        """The body is over. Raises `BadBody` where something is missing."""
        if self._engine is not None:
            raise BadBody("the compressed body breaks off")
