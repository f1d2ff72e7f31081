"""Secrets stay out of everything that is shown, written or learnt.

Keys, headers and environment values of servers are registered when the configuration is read or a client is made. From
then on

- `redact` removes them from text that leaves the process: error messages (`RolloutError` does it itself), log lines (a
  filter), the terminal. It also removes what only looks like a key, and the login in an address, because a server may
  echo a key that was never registered. `excerpt` redacts and then cuts; cutting first would leave half a key.
- `mask` removes them from what enters a conversation: tool results, observations, completions. It looks only for
  registered secrets of at least `MIN_MASKED` characters, so ordinary text stays as it is.

A secret is found in every form in which it commonly comes back: as it is, with other capitals, URL-encoded (also twice,
or every character of it), escaped in JSON, HTML or a Python literal, in hexadecimal, decoded as Latin-1, and in base64
or base32 wherever in the encoded text it stands (so the base64 of `user:key` is found, too), also where that text is
wrapped into lines. The test for a text without secrets is a handful of substring searches, and nothing at all where
nothing is registered.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import logging
import re
import urllib.parse
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

MASK = "«secret»"
MIN_LENGTH = 6
"""Characters. Removing anything shorter would shred every text."""
MIN_MASKED = 12
"""Characters that a secret must have to be masked within conversations."""
MIN_ENCODED = 8
"""Characters of an encoded form that are enough to recognise it."""
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s\"']+@")
_LOOKS_LIKE_KEY = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|hf|ghp|AKIA)[-_][A-Za-z0-9_\-*.]{8,}|(?i:bearer)\s+[A-Za-z0-9._\-]{8,}"
)
_SCHEME = re.compile(r"(bearer|basic|token|apikey|api-key)\s+(\S.*)", re.IGNORECASE)
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_BREAKS = ("\n", "\\n")
"""Ends of lines: as they are, and escaped in JSON."""
SHORTEST_LINE = 40
"""Characters of a line that may be one of several lines of base64; usual are 64 and 76."""
_ENCODINGS = ((base64.b64encode, 6, 3), (base64.urlsafe_b64encode, 6, 3), (base64.b32encode, 5, 5))
"""What encodes, the bits of a character, and the bytes of a group."""
_REST_OF_RUN = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_NAMES_A_KEY = re.compile(r"(?:^|_)(?:API_?KEY|TOKEN|PASSWORD|ACCESS_KEY|\w*SECRET\w*)$", re.IGNORECASE)


class _Forms:
    """The forms of some secrets: a quick test whether a text holds one, and their removal in linear time."""

    def __init__(self, secrets: list[str]) -> None:
        self._plain = tuple({form.lower() for secret in secrets for form in _plain_forms(secret)})
        self._encoded = tuple({form.lower() for secret in secrets for form in _encoded_forms(secret)})

    @property
    def has_any(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._plain)

    def remove(self, text: str) -> str:
        """The text with a mask in place of each secret; the same object where there is none."""
        if not self._plain:
            return text
        lowered = text.lower()
        plain = [form for form in self._plain if form in lowered]
        encoded = [form for form in self._encoded if form in lowered]
        wrapped = self._find_wrapped(text)
        if not plain and not encoded and not wrapped:
            return text
        lowered = _lower(text)
        spans = [span for form in plain for span in _find_plain(lowered, form)]
        spans += [span for form in encoded for span in _find_encoded(text, lowered, form)]
        return _with_masks(text, sorted(spans + wrapped))

    def _find_wrapped(self, text: str) -> list[tuple[int, int]]:
        """Secrets in base64 that goes over several lines."""
        breaks = sorted(found for mark in _BREAKS if mark in text for found in _find_breaks(text, mark))
        if not breaks:
            return []
        joined = "".join(text[end:begin] for (_, end), (begin, _) in pairwise([(0, 0), *breaks, (len(text), 0)]))
        lowered = _lower(joined)
        found = [form for form in self._encoded if form in lowered]
        # Where each line begins in the joined text, and how many characters were taken out before it.
        removed = list(accumulate((end - begin for begin, end in breaks), initial=0))
        starts = [0, *(begin - gone for (begin, _), gone in zip(breaks, removed, strict=False))]

        def place(joined_place: int) -> int:
            return joined_place + removed[bisect_right(starts, joined_place) - 1]

        return [
            (place(begin), place(end - 1) + 1) for form in found for begin, end in _find_encoded(joined, lowered, form)
        ]


def _lower(text: str) -> str:
    """The text in lower case, every character at its place: a few capitals would become two characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _find_plain(lowered: str, form: str) -> Iterator[tuple[int, int]]:
    begin = lowered.find(form)
    while begin >= 0:
        yield begin, begin + len(form)
        begin = lowered.find(form, begin + len(form))


def _find_breaks(text: str, mark: str) -> Iterator[tuple[int, int]]:
    """The ends of lines that may be lines of base64, each with what belongs to it."""
    place, line = text.find(mark), 0
    while place >= 0:
        # The quick test first: most lines are short, or have a space in them.
        if place - line >= SHORTEST_LINE and text.find(" ", place - SHORTEST_LINE, place) < 0:
            begin = place
            for carriage in ("\r", "\\r"):
                begin -= len(carriage) if text.endswith(carriage, 0, begin) else 0
            if not text[max(0, begin - SHORTEST_LINE) : begin].strip(_BASE64):
                yield begin, place + len(mark)
        line = place + len(mark)
        place = text.find(mark, line)


def _find_encoded(text: str, lowered: str, form: str) -> Iterator[tuple[int, int]]:
    """Whole runs of base64: around the part that is the same wherever a secret is in the encoded text there are
    characters that also depend on it."""
    end = 0
    while (begin := lowered.find(form, end)) >= 0:
        run = end + len(text[end:begin].rstrip(_BASE64))
        found = _REST_OF_RUN.match(text, begin + len(form))
        assert found is not None, "it also matches nothing"
        end = found.end()
        yield run, end


def _with_masks(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with one mask in place of spans that overlap. They are sorted."""
    pieces, done = [], 0
    for begin, end in spans:
        if begin >= done:
            pieces += [text[done:begin], MASK]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def _plain_forms(secret: str) -> Iterator[str]:
    yield secret
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield urllib.parse.quote(secret, errors="replace")
    yield urllib.parse.quote(secret, safe="", errors="replace")
    yield urllib.parse.quote_plus(secret, errors="replace")
    yield urllib.parse.quote(urllib.parse.quote(secret, safe="", errors="replace"), safe="")
    data = secret.encode(errors="replace")
    yield data.hex()
    yield "".join(f"%{byte:02x}" for byte in data)
    # As a server echoes it that reads headers as Latin-1.
    yield data.decode("latin-1")
    for form in ("\\u{:04x}", "\\x{:02x}", "&#{};", "&#x{:x};"):
        yield "".join(form.format(ord(char)) for char in secret)


def _encoded_forms(secret: str) -> Iterator[str]:
    """The characters that base64 and base32 make of a secret, for each place at which it may begin in a group of bytes;
    without those that also hold bits of its neighbours."""
    data = secret.encode(errors="replace")
    for encode, bits, group in _ENCODINGS:
        for before in range(group):
            begin, end = -(-before * 8 // bits), (before + len(data)) * 8 // bits
            if end - begin >= MIN_ENCODED:
                yield encode(bytes(before) + data).decode()[begin:end]


_known: set[str] = set()
_redacted = _Forms([])
_masked = _Forms([])


def register(value: str) -> None:
    """Remember a secret. Of `Bearer …` and other schemes the credential by itself is remembered, too."""
    global _redacted, _masked
    found = _SCHEME.fullmatch(value.strip())
    if found is not None:
        register(found.group(2))
        if found.group(1).lower() == "basic":
            register(_password(found.group(2)))
    if len(value) < MIN_LENGTH or value in _known:
        return
    _known.add(value)
    _redacted = _Forms(sorted(_known))
    if len(value) >= MIN_MASKED:
        _masked = _Forms([secret for secret in sorted(_known) if len(secret) >= MIN_MASKED])


def register_environment(environment: Mapping[str, str]) -> None:
    """Remember the values of variables that are named like keys (`…_API_KEY`, `…_TOKEN`)."""
    for name, value in environment.items():
        if _NAMES_A_KEY.search(name):
            register(value)


def _password(credential: str) -> str:
    try:
        return base64.b64decode(credential, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def known() -> list[str]:
    """What was registered, for another process of the same run to register."""
    return sorted(_known)


def redact(text: str) -> str:
    """The text without any secret we know or that shows itself."""
    return _IN_ADDRESS.sub(f"{MASK}@", _LOOKS_LIKE_KEY.sub(MASK, _redacted.remove(text)))


def excerpt(text: str, limit: int) -> str:
    """The beginning of a text without secrets, at most `limit` characters and the sign that there was more."""
    # The window may end within a secret, which nothing recognises then.
    margin = max((6 * len(secret) for secret in _known), default=0)
    window = limit + max(10_000, margin)
    clean = redact(text[:window])
    if len(text) > window:
        clean = clean[: -margin or None]
    return clean if len(text) <= window and len(clean) <= limit else f"{clean[:limit]}…"


def mask(text: str) -> str:
    """The text of a conversation without registered secrets; the same object where there is none."""
    return _masked.remove(text)


def mask_data(data: dict[str, Any] | None) -> dict[str, Any] | None:
    """Plain JSON without registered secrets, keys included; the same object where none are registered."""
    return data if data is None or not _masked.has_any else _mask_value(data)


def _mask_value(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {_mask_value(key): _mask_value(inner) for key, inner in value.items()}
    return [_mask_value(inner) for inner in value] if isinstance(value, list | tuple) else value


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
