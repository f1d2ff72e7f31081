"""Every name of ours on the page `Coming from …` is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import typer

from rollout.cli import COMMANDS
from rollout.config.problems import known_keys
from rollout.config.schema import Config
from rollout.config.web import WebConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "getting-started" / "coming-from.md").read_text(encoding="utf-8")
WORDS = {"add_key", "chain", "verl", "tau2", "actions", "state", "communicate", "user", "metadata", "on_checkpoint"}
"""What stands beside a name and is a value of it, or a word of another page."""
IN_LINES = {"task_info.actions", "user_system_prompt"}
"""Keys of task lines."""
WRITTEN = {".pt"} | {f"outputs_{name}" for name in ("single", "single_0114", "cross", "cross_domain_0114")}
"""Where the scripts and commands write: tests/cli/test_batch.py."""


def our_names() -> list[str]:
    rows = [line.rsplit("|", 2)[1] for line in PAGE.splitlines() if line.startswith("|")]
    return sorted({name for row in rows for name in re.findall(r"`([^`]+)`", row)})


def has_option(command: str, option: str) -> bool:
    module, _, function = COMMANDS[command][0].partition(":")
    app = typer.Typer()
    app.command()(getattr(importlib.import_module(module), function))
    known = [
        name
        for parameter in typer.main.get_command(app).params
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
    return option in known


def has_key(name: str) -> bool:
    *place, last = name.split(".")
    return any(last in known_keys(section, place) for section in (Config, WebConfig))


def is_importable(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            fields = getattr(found, "__struct_fields__", ())
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


def exists(name: str) -> bool:
    program, _, rest = name.partition(" ")
    if program == "rollout":
        command, _, option = rest.partition(" ")
        return command in COMMANDS and (not option or has_option(command, option))
    if program == "run.sh":
        return not rest or re.search(rf"{re.escape(rest)}[ )]", (ROOT / "run.sh").read_text()) is not None
    if name.startswith(("rollout.", "@rollout.")):
        return is_importable(name.lstrip("@"))
    return (
        name in WORDS | IN_LINES | WRITTEN
        or name == "builtin/oracle"
        or ((ROOT / name).exists() and "/" in name)
        or has_key(name)
    )


@pytest.mark.parametrize("name", our_names())
def test_name_of_ours_exists(name: str) -> None:
    assert exists(name), f"docs/getting-started/coming-from.md names `{name}`, which is not there"


def test_what_is_not_there_is_noticed() -> None:
    wrong = [
        "rollout sing",
        "rollout run --nothing",
        "rollout.Runs",
        "datasets.*.sample",
        "run.sh --what",
        "scripts/x.py",
    ]
    assert [name for name in wrong if exists(name)] == []
    assert len(our_names()) > 80
