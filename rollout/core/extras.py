"""The distribution's name on the package index, and its optional parts."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from rollout.core.errors import ConfigError

DISTRIBUTION = "rollout-engine"
Extra = Literal["web", "mcp", "train", "suites", "ray", "local", "litellm", "view"]


def installed_version() -> str:
    """The installed version of Rollout."""
    return version(DISTRIBUTION)


def install_command(extra: Extra) -> str:
    """The command that installs an optional part."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_extra(what: str, extra: Extra) -> ConfigError:
    """The error for something that needs a part which is not installed: `rollout web needs the extra: pip …`."""
    return ConfigError(f"{what} needs the extra: {install_command(extra)}")
