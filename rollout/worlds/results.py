"""How what a tool returned becomes what the agent reads. One place, so that every world says it alike."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.messages import ToolResult
from rollout.secrets import redact

# What has no JSON form is named by its type: its repr may hold an address, and no replay would ever equal it.
_encoder = msgspec.json.Encoder(enc_hook=lambda value: f"<{type(value).__name__}>")


def to_result(call_id: str, value: Any) -> ToolResult:
    """An observation from a tool's value: text as it is, anything else as JSON.

    A dict that says `error`, or `success: false`, is the tool's own refusal: the agent reads it as it stands and the
    record marks it as an error.
    """
    if isinstance(value, str):
        return ToolResult(call_id, value)
    try:
        text = _encoder.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        text = f"<{type(value).__name__}>"
    refused = isinstance(value, dict) and (bool(value.get("error")) or value.get("success") is False)
    return ToolResult(call_id, text, is_error=refused, error_kind="tool" if refused else None)


def failed_result(call_id: str, kind: str, text: str) -> ToolResult:
    """An error observation that the agent can react to."""
    return ToolResult(call_id, _encoder.encode({"error": redact(text)}).decode(), is_error=True, error_kind=kind)
