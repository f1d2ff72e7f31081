"""`rollout doctor`: whether this machine has what runs need, and how to get what is missing.

Findings are required (without it nothing runs), optional (a part of the package needs it) or a protection (what keeps
untrusted code apart; a run warns of what is missing). Nothing is installed, nothing is asked of the network.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, get_args

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.extras import DISTRIBUTION, Extra, install_command, installed_version

State = Literal["ok", "missing"]
Need = Literal["required", "optional", "protection"]
LEAST_PYTHON = (3, 11)
LEAST_SPACE = 1 << 30
"""Bytes that should be free where runs are written."""
EXTRAS: dict[Extra, tuple[tuple[str, ...], str]] = {
    "web": (("playwright", "hydra", "publicsuffixlist"), "tasks in real browsers, rollout web"),
    "mcp": (("mcp",), "MCP servers as tools, rollout serve-domain"),
    "train": (
        ("numpy", "pyarrow", "datasets", "transformers", "jinja2", "gguf"),
        "Parquet, tokenizers, rollout train-data",
    ),
    "suites": (("miniwob", "deepdiff", "docstring_parser"), "BFCL, tau2-bench, MiniWoB++"),
    "ray": (("ray",), "runs on several machines"),
    "local": (("xllamacpp",), "models on this machine, without a server"),
    "litellm": (("litellm",), "providers other than OpenAI-compatible servers"),
    "view": (("starlette", "uvicorn"), "runs in the browser, rollout view"),
}
"""The extras: a module of each of their packages, and what they are for."""
_SANDBOX_SECONDS = 30.0
_PROBE = """
import json
from rollout.environments.domains.sandbox import PIECES, Reach, give_up_rights
print(json.dumps(give_up_rights(Reach((), ()), 1 << 32)))
"""


class MachineFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    need: Need = "optional"
    remedy: str | None = None
    """What to do where it is missing."""


def examine(folder: Path = Path()) -> list[MachineFinding]:
    """Look at this machine. `folder` is where runs would be written."""
    return [*_versions(), _space(folder), *_extras(), _chromium(), *_sandbox(), _bubblewrap()]


def is_sound(findings: list[MachineFinding]) -> bool:
    """Whether everything that is required is there."""
    return all(finding.state == "ok" for finding in findings if finding.need == "required")


def _versions() -> Iterator[MachineFinding]:
    yield MachineFinding(DISTRIBUTION, "ok", installed_version(), "required")
    least = ".".join(map(str, LEAST_PYTHON))
    found = f"{platform.python_version()} ({sys.executable})"
    state: State = "ok" if sys.version_info >= LEAST_PYTHON else "missing"
    yield MachineFinding("python", state, found, "required", f"install Python {least} or newer")
    yield MachineFinding("system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}", "required")
    yield MachineFinding("sqlite", "ok", sqlite3.sqlite_version, "required")


def _space(folder: Path) -> MachineFinding:
    free = shutil.disk_usage(folder).free
    state: State = "ok" if free >= LEAST_SPACE else "missing"
    remedy = f"make room on the disk of {folder.absolute()}, or choose another place with --output"
    return MachineFinding("disk space", state, f"{free / (1 << 30):.1f} GB free", "required", remedy)


def _extras() -> Iterator[MachineFinding]:
    for extra in get_args(Extra):
        modules, purpose = EXTRAS[extra]
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        if absent:
            yield MachineFinding(f"extra {extra}", "missing", f"for {purpose}", remedy=install_command(extra))
        else:
            yield MachineFinding(f"extra {extra}", "ok", f"{_version_of(modules[0])}, for {purpose}")


def _version_of(module: str) -> str:
    try:
        return f"{module} {version(module)}"
    except PackageNotFoundError:
        return f"{module}, installed"


def _chromium() -> MachineFinding:
    from rollout.environments.web.chromium import find_chromium

    try:
        found = find_chromium() or "Playwright's own"
    except ConfigError:
        remedy = "apt-get install chromium-headless-shell, or playwright install chromium-headless-shell"
        return MachineFinding("chromium", "missing", "for tasks in real browsers", remedy=remedy)
    return MachineFinding("chromium", "ok", found)


def _sandbox() -> Iterator[MachineFinding]:
    """What keeps the code of mock servers apart. A process of its own gives its rights up and says what it could."""
    from rollout.environments.domains.sandbox import PIECES

    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            timeout=_SANDBOX_SECONDS,
            check=True,
        )
        given = msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, bool])
    except (subprocess.SubprocessError, OSError, IndexError, msgspec.MsgspecError):
        given = {}
    for piece, meaning in PIECES.items():
        remedy = "a newer Linux kernel, or a container that allows it; without it, run only servers that you trust"
        state: State = "ok" if given.get(piece) else "missing"
        yield MachineFinding(f"sandbox {piece.replace('_', ' ')}", state, meaning, "protection", remedy)


def _bubblewrap() -> MachineFinding:
    found = shutil.which("bwrap")
    if found is None:
        remedy = "apt-get install bubblewrap"
        return MachineFinding("bubblewrap", "missing", "for programs in a sandbox of their own", "protection", remedy)
    return MachineFinding("bubblewrap", "ok", found, "protection")
