"""A new project: a template of the package, copied into a folder that does not exist yet.

A template is a small project that works as it stands: configuration, environment, tasks, scorer, test, README. Its
files are copied as they are, except that `@PYTHON@` becomes the path of this interpreter.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from rollout.config.shipped import EXAMPLES
from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest

TEMPLATES = EXAMPLES / "templates"
CONFIG = "project.yml"
DEFAULT = "python"
KINDS: dict[str, str] = {
    "python": "a world, tools and a scorer in Python",
    "domain": "mock tools over tables, with a policy and a user",
    "mcp": "the tools of a real MCP server",
    "web": "a site of your own, in real browsers",
}
"""The templates, each with what it is."""
_PYTHON = "@PYTHON@"
_REASON = re.compile(r"^\[Errno \d+\] |: '.*", re.DOTALL)
"""What an error of the system puts before and after its reason."""


def create_project(folder: Path, template: str = DEFAULT) -> list[Path]:
    """Make a project; returns its files. Raises ConfigError where the folder holds something, or cannot be made."""
    if template not in KINDS:
        raise ConfigError(f"--template: there is no {template!r}; {suggest(template, KINDS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there already, and nothing is overwritten; choose another name")
    try:
        shutil.copytree(TEMPLATES / template, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        config = folder / CONFIG
        config.write_text(config.read_text(encoding="utf-8").replace(_PYTHON, sys.executable), encoding="utf-8")
    except shutil.Error as error:
        # What could not be copied, each with its reason, which is the same for all: a full disk, say.
        path, reason = error.args[0][0][1:]
        raise ConfigError(f"{path}: cannot be written: {_REASON.sub('', reason)}; choose another folder") from error
    except OSError as error:
        where = error.filename or folder
        raise ConfigError(f"{where}: cannot be written: {error.strerror or error}; choose another folder") from error
    return sorted(path for path in folder.rglob("*") if path.is_file())
