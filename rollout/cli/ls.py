"""`rollout ls`: the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import options as o


def ls(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path("runs"),
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """List runs, newest first: when each began, its model, how far it is, what was solved, what it cost.

    A run is `running` while a process writes it, `unfinished` where it was stopped before its end (`rollout run CONFIG
    --resume` goes on), `damaged` where its journal cannot be read.

        rollout ls

    Somewhere else, for a program:

        rollout ls checkpoints --json

    Exit codes: 0, listed; 2, no such folder.
    """
    from rollout.pipelines.runs.listing import list_runs
    from rollout.terminal.console import make_console, print_json
    from rollout.terminal.run_list import show_run_list

    console = make_console(no_colors)
    found = list_runs(folder)
    if as_json:
        print_json(found)
    else:
        show_run_list(console, found)
