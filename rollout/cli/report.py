"""`rollout report`: trajectories as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import options as o

MOST = 100
"""Trajectories that are written, unless names are given."""


def report(
    run: o.RunName,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Trajectories or tasks. Default: the first ones.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write.")] = Path(
        "report.html"
    ),
    first: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The first N that fit. Default: 100; all, where names are given."),
    ] = None,
    is_random: Annotated[bool, typer.Option("--random", help="Any that fit, instead of the first.")] = False,
    unsolved: Annotated[bool, typer.Option("--unsolved", help="Only those that the scorers found not solved.")] = False,
    status: o.Statuses = None,
    dataset: o.DatasetNames = None,
    no_colors: o.NoColors = False,
) -> None:
    """Write trajectories as one HTML file for sharing. It needs no server and no network.

    The first hundred of a run:

        rollout report default -o report.html

    Twenty that were not solved, at random:

        rollout report default --unsolved --first 20 --random

    Exit codes: 0, written; 2, no such run or trajectory.
    """
    from rollout.cli.viewing import refuse_missing_extra
    from rollout.core.errors import ConfigError
    from rollout.pipelines.runs.find import TrajectoryWish
    from rollout.pipelines.runs.listing import locate_run
    from rollout.store.blobs import write_atomic
    from rollout.terminal.console import make_console

    refuse_missing_extra("rollout report")
    from rollout.viewer.report_file import find_keys, report_of

    wish = TrajectoryWish(
        datasets=dataset or (),
        statuses=status or (),
        is_unsolved=unsolved,
        is_random=is_random,
        most=first or (sys.maxsize if names else MOST),
    )
    wish.refuse_unknown_status()
    path = locate_run(run)
    keys, total = find_keys(path, names or [], wish)
    content = report_of(path, keys)
    try:
        write_atomic(output, content)
    except OSError as error:
        raise ConfigError(f"--output {output}: cannot be written: {error.strerror or error}") from error
    console = make_console(no_colors)
    size = f"{len(content) / 1e6:.1f} MB"
    count = f"{total:,} trajector{'y' if total == 1 else 'ies'}"
    if len(keys) < total:
        count = f"{'any' if is_random else 'the first'} {len(keys):,} of {count} (--first N for more)"
    console.print(f"{output}: {count}, {size}", highlight=False, soft_wrap=True)
