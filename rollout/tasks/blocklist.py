"""Sites that keep agents out: which they are, and until when they are left alone.

A file of lines `{domain, url, blocked_at, task_id?, screenshot_path?}`, appended under a lock, so that several
processes can write it at once. The same finding is written once, however often it is learnt; a site that was found
blocked again later gets a later line. A line that was torn by a crash is skipped, and nothing is written behind it on
the same line. An entry is valid for some hours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from rollout.core.errors import ConfigError

HOURS = 12.0
"""How long a site stays on the list by default."""


class Blocked(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding."""

    domain: str
    url: str
    blocked_at: datetime
    task_id: str | None = None
    screenshot_path: str | None = None


_decode = msgspec.json.Decoder(Blocked).decode
_encode = msgspec.json.Encoder().encode


def domain_of(url: str) -> str:
    """The name under which a site is on the list: its host in lower case, without `www.`, with a port of its own."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    port = parts.port
    is_usual = port is None or port == {"http": 80, "https": 443}.get(parts.scheme)
    return host if is_usual else f"{host}:{port}"


def found_blocked(url: str, at: datetime, task_id: str | None = None, screenshot: str | None = None) -> Blocked:
    """A finding about the site of an address."""
    return Blocked(domain_of(url), url, at.astimezone(UTC), task_id, screenshot)


class Blocklist:
    """The block list in one file."""

    def __init__(self, path: Path, hours: float = HOURS) -> None:
        self.path = path
        self._valid = timedelta(hours=hours)

    def blocked(self, now: datetime) -> dict[str, Blocked]:
        """The newest finding of each domain that is blocked at this time."""
        found: dict[str, Blocked] = {}
        for entry in self._entries():
            if now - _aware(entry.blocked_at) < self._valid:
                before = found.get(entry.domain)
                if before is None or _aware(before.blocked_at) <= _aware(entry.blocked_at):
                    found[entry.domain] = entry
        return found

    def add(self, findings: Iterable[Blocked]) -> list[Blocked]:
        """Write down those that are not there yet; returns them."""
        findings = list(findings)
        if not findings:
            return []
        with self._locked() as file:
            known = {_identity(entry) for entry in self._entries()}
            fresh: dict[tuple[str, ...], Blocked] = {}
            for finding in findings:
                if (identity := _identity(finding)) not in known:
                    fresh.setdefault(identity, finding)
            lines = b"".join(_encode(finding) + b"\n" for finding in fresh.values())
            if lines and _ends_torn(file):
                lines = b"\n" + lines
            while lines:
                lines = lines[os.write(file, lines) :]
            return list(fresh.values())

    def _entries(self) -> Iterator[Blocked]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: the block list cannot be read: {error.strerror or error}") from error
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield _decode(line)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise ConfigError(f"{self.path}: the block list cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def _identity(entry: Blocked) -> tuple[str, ...]:
    return entry.domain, entry.task_id or "", _aware(entry.blocked_at).isoformat()


def _aware(moment: datetime) -> datetime:
    """A time without a zone is local time."""
    return moment.astimezone(UTC)


def _ends_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
