"""`rollout tree`: all attempts at a task, drawn as a tree."""

from __future__ import annotations

from typing import Annotated

import typer

from rollout.cli import options as o

STYLES = {
    "head": "bold",
    "agent": "cyan",
    "user": "green",
    "call": "magenta",
    "result": "",
    "error": "red",
    "solved": "bold green",
    "unsolved": "bold red",
    "ended": "bold yellow",
}


def tree(
    run: o.RunName,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's id, or the beginning of one.")],
    dataset: o.DatasetNames = None,
    no_colors: o.NoColors = False,
) -> None:
    """Draw all attempts at a task: what they share once, where they part, and how each ended.

        rollout tree default 0d5cf89e

    With lines as long as they are, in a pager:

        COLUMNS=400 rollout tree default 0d5cf89e | less -S

    `rollout show RUN TASK~3` shows attempt 3. Exit codes: 0, drawn; 2, no such run or task, or the run is damaged.
    """
    from rich.text import Text

    from rollout.pipelines.runs.find import find_tree
    from rollout.pipelines.runs.listing import locate_run
    from rollout.terminal.console import make_console
    from rollout.terminal.task_tree import draw_tree

    console = make_console(no_colors)
    found = find_tree(locate_run(run), task, dataset or ())
    for line in draw_tree(found, console.width):
        console.print(
            Text.assemble((line.branch, "dim"), (line.text, STYLES[line.kind])),
            highlight=False,
            no_wrap=True,
            overflow="ignore",
        )
