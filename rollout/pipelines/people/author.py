"""The name under which a person's work is recorded."""

from __future__ import annotations

import getpass

from rollout.trajectories.person_marks import read_name

UNKNOWN = "unknown"


def author_name(given: str | None = None) -> str:
    """The name that was given, else the login name. Raises ConfigError for a name that cannot be one."""
    if given is not None:
        return read_name("an author", given)
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return UNKNOWN
