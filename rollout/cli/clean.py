"""`rollout clean`: remove old runs that were moved aside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import options as o


def clean(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    no_colors: o.NoColors = False,
) -> None:
    """Remove the old runs below DIR that `--no-resume` has moved aside, with the outputs that were moved with them.

    Says what there is and how large it is, and asks before it removes anything. Runs under their own name are never
    touched, nor is a run that a process writes.

        rollout clean

    In a script:

        rollout clean runs --yes

    Exit codes: 0, removed, or nothing is there; 1, you said no, or some could not be removed; 2, no such folder, or
    there is no terminal to ask at.
    """
    from rollout.core.errors import RolloutError
    from rollout.pipelines.runs.old import find_old_runs, remove_old_run
    from rollout.terminal.console import make_console, show_error
    from rollout.terminal.figures import size

    console = make_console(no_colors)
    found = find_old_runs(folder)
    if not found:
        console.print(f"{folder}: no run was moved aside", highlight=False)
        return
    for old in found:
        several = f" and {len(old.outputs)} output{'' if len(old.outputs) == 1 else 's'}" if old.outputs else ""
        marks = ", with marks of people" if old.has_marks else ""
        console.print(f"{size(old.size):>9}  {old.path}{several}{marks}", highlight=False, soft_wrap=True)
    total = size(sum(old.size for old in found))
    if not yes:
        if not sys.stdin.isatty():
            console.print(f"{total} in all; give --yes to remove them", highlight=False)
            sys.exit(2)
        count = "this old run" if len(found) == 1 else f"these {len(found)} old runs"
        if not typer.confirm(f"Remove {count}, {total} in all?"):
            sys.exit(1)
    failed = False
    for old in found:
        try:
            remove_old_run(old)
        except RolloutError as error:
            show_error(console, error)
            failed = True
    if failed:
        sys.exit(1)
    console.print(f"removed: {total}", highlight=False)
