"""Shell completion, by typer: the one place in which all commands are parts of one program.

`rollout` itself imports a command only when it is called. Completion does the same: the names come from the table, and
only the command that is being completed is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

VARIABLE = "_ROLLOUT_COMPLETE"
"""Set by the shell's completion script when it asks."""
OPTIONS = ("--install-completion", "--show-completion")


class CommandTable(TyperGroup):
    """The commands of the table, each imported when it is asked for."""

    table: Mapping[str, tuple[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the table's order."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None where there is none of this name."""
        if cmd_name not in self.table:
            return None
        place, summary = self.table[cmd_name]
        command = as_command(load_function(place))
        command.name, command.short_help = cmd_name, summary
        return command


def load_function(place: str) -> Any:
    """The function of a command, by `module:function`."""
    module, _, function = place.partition(":")
    return getattr(importlib.import_module(module), function)


def as_command(function: Any) -> Any:
    """A typed function as a command."""
    app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    app.command()(function)
    return get_command(app)


def run_completion(table: Mapping[str, tuple[str, str]], words: Sequence[str]) -> None:
    """Install or show the script of this shell, or answer what it asks."""
    group = type("Commands", (CommandTable,), {"table": table})
    app = typer.Typer(cls=group, add_completion=True, name="rollout")

    @app.callback()
    def rollout() -> None:
        """Collect agent trajectories."""

    get_command(app)(args=list(words), prog_name="rollout", complete_var=VARIABLE)
