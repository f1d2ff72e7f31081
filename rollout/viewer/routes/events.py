"""Server-sent events: changes while a page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from rollout.core.secrets import redact
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.hub import Event, Hub
from rollout.viewer.index.run_index import RunIndex

EVERY = 15.0
"""Seconds between two comment lines, which keep proxies from closing the connection."""


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of events."""

    run: str | None = None


async def send_events(call: ApiCall) -> Response:
    """Events as they happen."""
    name: str | None = call.query.run
    index: RunIndex | None = None
    if name is not None:
        index = call.viewer.runs.get(name).index
        # A run with a listener is followed.
        index.is_wanted = True
    return StreamingResponse(events(call.viewer.hub, name, index), media_type="text/event-stream")


async def events(hub: Hub, run: str | None, index: RunIndex | None = None) -> AsyncIterator[bytes]:
    """The stream of events, in the form of the protocol. Ends with the server. Begins with the state of the index: it
    may have become ready after the page asked, and before it listened."""
    with hub.listening(run) as listener:
        yield b": hello\n\n"
        if index is not None:
            yield encode(Event("index", run or "", index.state))
        while not hub.is_closed:
            try:
                async with asyncio.timeout(EVERY):
                    event = await listener.next()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if not hub.is_closed:
                yield encode(event)


def encode(event: Event) -> bytes:
    """An event as it is sent. JSON has no line breaks, so its data is one line."""
    data = redact(msgspec.json.encode({"run": event.run, "data": event.data}).decode())
    return f"event: {event.kind}\ndata: {data}\n\n".encode()


ENDPOINTS = (
    Endpoint(
        path="events",
        summary="Server-sent events: `run`, `index`, `marks`, `growth` and `play`, each with {run, data}",
        handle=send_events,
        answer=None,
        query=EventsQuery,
        media="text/event-stream",
    ),
)
