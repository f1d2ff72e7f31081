"""`rollout show`: a trajectory as a person reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import options as o


def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run directory, the name of a run below runs/, or a file of trajectories."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="A trajectory's id, the beginning of one, or a task's id.", show_default=False
        ),
    ] = None,
    unsolved: Annotated[bool, typer.Option("--unsolved", help="Only those that the scorers found not solved.")] = False,
    status: o.Statuses = None,
    first: Annotated[int, typer.Option(metavar="N", min=1, help="The first N that fit.")] = 1,
    is_random: Annotated[bool, typer.Option("--random", help="Any that fit, instead of the first.")] = False,
    dataset: o.DatasetNames = None,
    mark: o.PersonMarks = None,
    no_mark: o.NoPersonMarks = None,
    label: o.PersonLabels = None,
    author: o.MarkAuthors = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, results and pages.")] = False,
    no_colors: o.NoColors = False,
) -> None:
    """Show a trajectory as a person reads it: the conversation, each call with its result, scores with their evidence.

    The first one of a run:

        rollout show default

    One of those that were not solved, whichever:

        rollout show default --unsolved --random

    What people marked as bad:

        rollout show default --mark bad --first 3

    What broke:

        rollout show default --status failed

    One by its id or the beginning of it, with nothing cut, in a pager:

        rollout show runs/default 0d5cf89e~1 --full | less

    Exit codes: 0, shown; 2, no such run or trajectory, or the run is damaged.
    """
    from rollout.pipelines.runs.find import TrajectoryWish, find_trajectories
    from rollout.pipelines.runs.listing import locate_run
    from rollout.terminal.console import make_console
    from rollout.terminal.trajectory import show_trajectory
    from rollout.trajectories.person_marks import make_mark_selection

    console = make_console(no_colors)
    wish = TrajectoryWish(
        name=name,
        datasets=dataset or (),
        statuses=status or (),
        is_unsolved=unsolved,
        people=make_mark_selection(mark or (), no_mark or (), label or (), author or ()),
        is_random=is_random,
        most=first,
    )
    place = Path(run) if Path(run).is_file() else locate_run(run)
    for number, found in enumerate(find_trajectories(place, wish)):
        if number:
            console.print()
        show_trajectory(console, found, is_full=full)
