"""The files that an agent may upload: those that its task declares, with their contents.

A task says `"files": [{"name": "cv.txt", "text": "…"}, {"name": "photo.png", "base64": "…"}]` in its `task_info`. The
contents are in the task, so that no task can make an agent hand out a file of the machine it runs on.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any

import msgspec

from rollout.core.errors import ConfigError

MAX_SIZE = 20_000_000


class UploadFile(msgspec.Struct, frozen=True):
    """A file that can be uploaded."""

    name: str
    mime_type: str
    content: bytes


class _DeclaredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    text: str | None = None
    base64: str | None = None
    type: str | None = None


def read_files(declared: Any) -> dict[str, UploadFile]:
    """The files that a task declares, by name. Raises ConfigError where the declaration cannot be read."""
    try:
        entries = msgspec.convert(declared or [], list[_DeclaredFile])
    except msgspec.ValidationError as error:
        raise ConfigError(f'files: {error}; expected [{{"name": "cv.txt", "text": "…"}}]') from error
    return {entry.name: _read(entry) for entry in entries}


def _read(entry: _DeclaredFile) -> UploadFile:
    if (entry.text is None) == (entry.base64 is None) or "/" in entry.name or not entry.name:
        raise ConfigError(f"files: {entry.name!r}: expected a plain name, and either text or base64")
    try:
        content = base64.b64decode(entry.base64, validate=True) if entry.base64 is not None else None
    except binascii.Error as error:
        raise ConfigError(f"files: {entry.name}: base64: {error}") from error
    content = (entry.text or "").encode() if content is None else content
    if len(content) > MAX_SIZE:
        raise ConfigError(f"files: {entry.name}: has {len(content)} bytes; at most {MAX_SIZE}")
    guessed = entry.type or mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
    return UploadFile(entry.name, guessed, content)
