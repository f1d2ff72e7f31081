"""Tool results: the text that an agent reads of a tool's value or error, by the same rules for every world.

A result that is too long is cut here and nowhere else, after registered secrets are masked: nothing would recognise
half a key.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rollout.core.messages import ToolResult
from rollout.core.secrets import excerpt, mask, redact

DECLINED_TEXT = "the agent did not make this call"
"""How the observation ends of a call that an agent's program was given and did not make."""
MAX_RESULT_CHARS = 100_000
"""What a result may hold where no setting says otherwise. Longer ones are cut, and say so."""
MAX_ERROR_CHARS = 10_000

# What has no JSON form is named by its type: its repr may hold an address, and no replay would ever equal it.
_encoder = msgspec.json.Encoder(enc_hook=lambda value: _plain(value))


def _plain(value: Any) -> Any:
    dump = getattr(type(value), "model_dump", None)  # pydantic's
    return f"<{type(value).__name__}>" if dump is None else dump(value, mode="json")


def to_result(call_id: str, value: Any, max_chars: int | None = None) -> ToolResult:
    """An observation from a tool's value: text as it is, anything else as JSON. Never raises.

    A dict that says `error`, or `success: false`, is the tool's own refusal: the agent reads it as it stands and the
    record marks it as an error.
    """
    if isinstance(value, str):
        return ToolResult(call_id, cut(well_formed(value), max_chars))
    try:
        text = _encoder.encode(value).decode()
    except Exception:  # noqa: BLE001 - the value may be of any class, with methods of its own
        text = _by_the_standard_library(value)
    refused = _refuses(value)
    return ToolResult(call_id, cut(text, max_chars), is_error=refused, error_kind="tool" if refused else None)


def cut(text: str, limit: int | None) -> str:
    """The text, or its beginning and a line that says so where it is longer than `limit` characters."""
    if limit is None or len(text) <= limit:
        return text
    whole = len(text)
    clean = mask(text)
    return f"{clean[:limit]}\n[cut here: these are the first {limit:,} of {whole:,} characters]"


def _refuses(value: Any) -> bool:
    try:
        return isinstance(value, dict) and (bool(value.get("error")) or value.get("success") is False)
    except Exception:  # noqa: BLE001 - as above
        return False


def is_refusal(content: str) -> bool:
    """Whether a saved observation is an error, as far as its text shows it."""
    if '"error"' not in content and '"success"' not in content:
        return False
    try:
        return _refuses(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def error_of(content: str) -> str | None:
    """The error in an observation that is a JSON object with `error`; None for any other observation. Only for
    observations without data of their own."""
    if not content.startswith('{"error":'):
        return None
    try:
        told = msgspec.json.decode(content.partition("\n")[0])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return str(told["error"]) if told["error"] else None


def _by_the_standard_library(value: Any) -> str:
    """For what msgspec refuses: lone surrogates, odd keys. What cannot be encoded is named by its type."""
    try:
        return json.dumps(value, default=lambda inner: f"<{type(inner).__name__}>", skipkeys=True)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no file and no server takes."""
    return str.encode(text, "utf-8", "replace").decode()  # also of a subclass with an `encode` of its own


def failed_result(call_id: str, kind: str, text: str) -> ToolResult:
    """An error observation that the agent can react to."""
    content = _encoder.encode({"error": error_text(text)}).decode()
    return ToolResult(call_id, content, is_error=True, error_kind=kind)


def error_text(text: str) -> str:
    """The text of an error as an observation shows it: without secrets, and not too long."""
    return well_formed(redact(text) if len(text) <= MAX_ERROR_CHARS else excerpt(text, MAX_ERROR_CHARS))
