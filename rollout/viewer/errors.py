"""Refusals of the server, each with its HTTP status."""

from __future__ import annotations

from rollout.core.errors import ConfigError, JournalError, RolloutError


class RequestRefused(RolloutError):
    """A refused request. The text says what is wrong, what was expected, and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_found(message: str) -> RequestRefused:
    """A refusal with status 404."""
    return RequestRefused(404, message)


def status_of(error: RolloutError) -> int:
    """The HTTP status of an error: 400 for a wrong request, 409 for a run that cannot be used in its present state."""
    if isinstance(error, RequestRefused):
        return error.status
    if isinstance(error, ConfigError):
        return 400
    return 409 if isinstance(error, JournalError) else 502
