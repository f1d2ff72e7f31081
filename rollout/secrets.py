"""What must never be written down.

A key is registered when the configuration is read; from then on `redact` takes it out of any text that leaves the
process: errors (at the boundary that catches them), log lines (a filter), what the run directory keeps. Texts that
only look like keys, and names and passwords within addresses, are taken out too, because a server may echo a key that
we never saw in clear.
"""

from __future__ import annotations

import logging
import re

MASK = "«secret»"
_known: set[str] = set()
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s\"']+@")
_LOOKS_LIKE_KEY = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|hf|ghp|AKIA)[-_][A-Za-z0-9_\-*.]{8,}|(?i:bearer)\s+[A-Za-z0-9._\-]{8,}"
)


def register(value: str) -> None:
    """Remember a secret. Very short values are left alone: taking them out would shred every text."""
    if len(value) >= 6:
        _known.add(value)


def known() -> list[str]:
    """What was registered, for another process of the same run to register."""
    return sorted(_known)


def redact(text: str) -> str:
    """The text without any secret we know or that shows itself."""
    for value in _known:
        if value in text:
            text = text.replace(value, MASK)
    return _IN_ADDRESS.sub(f"{MASK}@", _LOOKS_LIKE_KEY.sub(MASK, text))


class RedactingFilter(logging.Filter):
    """A log filter that keeps secrets out of every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = redact(message)
        if clean != message:
            record.msg, record.args = clean, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True
