"""Limits on what an MCP server sends, and the two streams that a session speaks over."""

from __future__ import annotations

from typing import Any, TypeAlias

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""One message. Reading a larger one would hold up every other episode."""
MAX_UNANSWERED_BYTES = 64 * 1024 * 1024
"""All output, error output included, from one answer to the next."""
MAX_UNANSWERED_MESSAGES = 10_000
"""All messages, and lines that are none, from one answer to the next."""

Streams: TypeAlias = tuple[Any, Any]
"""From the server and to it: the SDK's `TransportStreams`, whose name it keeps to itself."""
