"""Refusals of the server, each with its HTTP status."""

from __future__ import annotations

from rollout.core.errors import ConfigError, JournalError, RolloutError


class Refused(RolloutError):
    """A request that is not answered. The text names what, what was expected, and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_found(message: str) -> Refused:
    """The refusal of something that is not there."""
    return Refused(404, message)


def status_of(error: RolloutError) -> int:
    """The HTTP status of an error: 400 for what was asked wrongly, 409 for a run that cannot be used as it is."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, ConfigError):
        return 400
    return 409 if isinstance(error, JournalError) else 502
