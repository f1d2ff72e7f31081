"""The command `rollout`. One file a sub-command, imported only when that sub-command is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("rollout.cli.run:run", "Roll out the datasets of a config: talk, call tools, save trajectories."),
    "stub-server": ("rollout.cli.stub_server:stub_server", "Serve a scripted, fault-injecting model for tests and benchmarks."),
}
"""Each sub-command with where it lives and what `rollout --help` says of it without importing it."""


class LazyGroup(click.Group):
    """A group that knows its sub-commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, _, function = COMMANDS[cmd_name][0].partition(":")
        return as_command(getattr(importlib.import_module(module_name), function), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def as_command(function: Any, name: str | None = None) -> click.Command:
    """A typed function as a command, by typer."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command(name)(function)
    return typer.main.get_command(app)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rollout")
def main() -> None:
    """Collect agent trajectories: conversations over tools, the web, reinforcement learning.

    \b
    Try it, with no key and no network:
      rollout run configs/default.yml
      rollout run configs/default.yml --dry-run
    """
