"""`rollout init`: a small project that works, to be changed into your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make.", show_default=False)],
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="KIND", help="python, domain, mcp, or web.")
    ] = "python",
) -> None:
    """Make a small project that works: config, environment, tasks, scorer, test. Nothing is overwritten.

    A world, tools and a scorer in Python:

        rollout init library

    Mock tools over tables, with a policy and a user:

        rollout init desk --template domain

    The tools of a real MCP server, or a site of your own in real browsers:

        rollout init tools --template mcp

        rollout init shelf --template web

    Each passes `rollout check` and runs with the built-in models before a line is changed.
    """
    from rollout.pipelines.new_project import CONFIG, create_project
    from rollout.terminal.console import make_console

    console = make_console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for path in create_project(name, template):
        say(str(path))
    say(f"\nNext:\n  cd {name}\n  rollout check {CONFIG}\n  rollout run {CONFIG}")
    say("  python -m pytest    (needs: pip install pytest)")
