"""Files that come with the package, found wherever it is installed.

A path that begins with `configs/` or `rollout/examples/` and does not exist in the working directory means the file
that the package brings. So what the documentation shows works in a clone and outside of it alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest

_PACKAGE = Path(__file__).parents[1]
EXAMPLES = _PACKAGE / "examples"
CONFIGS = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"
"""Part of the package once it is built. In a clone it is beside the package."""


def find_shipped(path: Path) -> Path:
    """The path itself, or the file of the package that it means."""
    for prefix, folder in (("configs", CONFIGS), ("rollout/examples", EXAMPLES)):
        if path.is_relative_to(prefix) and not path.exists():
            found = folder / path.relative_to(prefix)
            return found if found.exists() else path
    return path


def find_config(given: Path) -> Path:
    """The configuration file that a user means: a path, or the name of a shipped one. Raises ConfigError where a name
    is neither."""
    name, found = str(given), find_shipped(given)
    if found.exists() or not name.isprintable():
        return found
    beside = sorted(path.name for path in given.parent.glob("*.y*ml"))
    if found.name != name or given.suffix:
        near = suggest(given.name, beside)
        if near.startswith("did you mean"):
            raise ConfigError(f"{name}: cannot be read: No such file or directory; {near}")
        return found
    names = sorted(path.stem for path in CONFIGS.glob("*.yml") if path.stem != "models")
    if name not in names:
        near = suggest(name, [*beside, *names])
        raise ConfigError(f"{name}: there is no such file, and no such shipped config; {near}")
    return CONFIGS / f"{name}.yml"


ShippedPath = Annotated[Path, AfterValidator(find_shipped)]
"""A path that may be one of the package's files."""
