"""Answers as JSON text, without the secrets that this process knows of."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.secrets import redact

_encode = msgspec.json.Encoder().encode


def encode_redacted(found: Any) -> bytes:
    """A value as JSON text without secrets."""
    encoded = _encode(found)
    text = encoded.decode()
    shown = redact(text)
    if shown is text or shown == text:
        return encoded
    try:
        msgspec.json.decode(shown)
    except msgspec.MsgspecError:
        # A secret that looks like a number, say: it is masked in texts alone.
        return _encode(_redact_texts(msgspec.json.decode(encoded)))
    return shown.encode()


def _redact_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redact_texts(each) for each in value]
    if isinstance(value, dict):
        return {redact(name): _redact_texts(each) for name, each in value.items()}
    return value
