"""Finding MiniWoB++'s pages: in the installed package `miniwob`, whose files are read and whose code is not imported
(it would bring gymnasium and selenium)."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.core.extras import install_command

EXCLUDED = {
    "button-delay": "what counts is the time between two clicks",
    "chase-circle": "what counts is the time that the mouse is inside a circle that moves",
    "hover-shape": "what counts is the time that the mouse is over a square that moves",
    "moving-items": "what counts is how many moving circles are clicked before they are gone",
    "simon-says": "the order to repeat is flashed for moments that no observation can be sure to show",
}
"""Pages that the package holds but does not register as tasks. All of them need real time, which agents do not have."""


class MiniwobPackage:
    """The package's pages."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("miniwob")
        places = found.submodule_search_locations if found is not None else None
        if not places:
            raise ConfigError(
                f"its pages are in the package miniwob, which is not installed: {install_command('suites')}"
            )
        self.folder = Path(next(iter(places))) / "html"
        """What is served: pages, and what they load."""
        self.version = importlib.metadata.version("miniwob")
        self.task_types = tuple(
            sorted(page.stem for page in (self.folder / "miniwob").glob("*.html") if page.stem not in EXCLUDED)
        )
        if not self.task_types:
            raise ConfigError(f"miniwob {self.version} holds no pages in {self.folder}; install it again")

    @staticmethod
    def page_of(task_type: str) -> str:
        """The path of a task type's page on the site."""
        return f"/miniwob/{task_type}.html"
