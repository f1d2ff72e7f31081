"""`rollout diff`: two runs, compared task by task."""

from __future__ import annotations

from typing import Annotated

import typer

from rollout.cli import options as o

SHOWN_FLIPS = 5


def diff(
    first: o.RunName,
    second: Annotated[str, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    is_all: Annotated[bool, typer.Option("--all", help="Every task that changed.")] = False,
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """Compare two runs task by task: what was lost, what was gained, and where the attempts part.

    With one attempt at each task, a task is lost where it was solved in RUN and is not in OTHER. With several, where
    the share of solved attempts fell. Attempts part at the first step that calls other tools, or calls them otherwise.

        rollout diff baseline changed-prompt

    Exit codes: 0, compared; 2, no such run, or one is damaged.
    """
    from rollout.pipelines.runs.diff import compare_runs
    from rollout.pipelines.runs.listing import locate_run
    from rollout.store.reading.reader import open_reader
    from rollout.terminal.console import make_console, print_json
    from rollout.terminal.run_diff import show_diff

    console = make_console(no_colors)
    shown = None if is_all else SHOWN_FLIPS
    places = locate_run(first), locate_run(second)
    with open_reader(places[0]) as ours, open_reader(places[1]) as theirs:
        found = compare_runs(ours, theirs, shown)
    if as_json:
        print_json(found)
    else:
        show_diff(console, (first, second), found, most=shown)
