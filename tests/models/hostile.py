"""A server that answers whatever it is told to, and answers that are almost right."""

from __future__ import annotations

import copy
import json
import zlib
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import strategies as st

DEEP = "[" * 100_000 + "]" * 100_000
"""Written as it is where a value stands: deeper than any parser goes."""
_DEEP_MARK = "@deep@"


class AnsweringServer:
    """Answers every request with `body`."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.headers: dict[str, str] = {}
        self.requests = 0
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._server = TestServer(app)

    async def __aenter__(self) -> AnsweringServer:
        await self._server.start_server()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("/v1"))

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.requests += 1
        return web.Response(status=self.status, body=self.body, headers=self.headers)


def write(document: Any) -> bytes:
    """JSON as careless servers write it: NaN, Infinity, lone surrogates and bottomless nesting included."""
    return json.dumps(document).replace(f'"{_DEEP_MARK}"', DEEP).encode()


def packed_zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, packed by gzip into a two hundredth of that."""
    packer = zlib.compressobj(1, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(mebibytes)) + packer.flush()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**32, 2**63, 2**64, 10**400, -(10**400), 1e308, -1e308, 0.5, 7.5]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["\ud83d", "\udc00x", "NaN", "1e999", "\x00", "</think>", "<tool_call>", '<tool_call>{"name": 1}</tool_call>']
    ),
    st.just(_DEEP_MARK),
    st.sampled_from([[], {}, [None], [[]], [{}], {"x": None}, {"": []}, {"content": 1}, [1e308, -1e308], ["a", 1]]),
)


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> bytes:
    """The document as JSON with one to three of its values replaced, or left out."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        if draw(st.integers(0, 4)) == 0:
            del holder[key]
        else:
            # A copy: the next replacement may go into this value, which is drawn again in other examples.
            holder[key] = copy.deepcopy(draw(VALUES))
    return write(document)


def _places(document: Any) -> Any:
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(entries):
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


BYTES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"", b"\xe9\xff", b"caf\xe9", DEEP.encode(), b"null", b"[]", b'"x"', b"1e999", b"{}", b"\xef\xbb\xbf{}"]
    ),
    VALUES.map(write),
    VALUES.map(lambda value: write({"error": value})),
    VALUES.map(lambda value: write({"error": {"message": value, "code": value}})),
    VALUES.map(lambda value: write({"choices": value})),
)
"""Bodies that have little in common with an answer."""
