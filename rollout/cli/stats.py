"""`rollout stats`: the distributions of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from rollout.cli import options as o


def stats(
    run: o.RunName,
    dataset: o.DatasetNames = None,
    is_all: Annotated[
        bool, typer.Option("--all", help="Every tool, and the steps of every attempt instead of a sample.")
    ] = False,
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """Show the distributions of a run: turns, steps, tools with their error rates, tokens, times, why attempts ended.

        rollout stats default

    One dataset, for a program:

        rollout stats runs/default --dataset AirlineReservations --json

    Of a run with more than 100,000 attempts, tools and times of requests are those of a sample, unless --all is given.
    Exit codes: 0, shown; 2, no such run or dataset, or the run is damaged.
    """
    from rollout.pipelines.runs.listing import locate_run
    from rollout.pipelines.runs.stats import MOST_STEPS_READ, read_stats
    from rollout.store.reading.reader import open_reader
    from rollout.terminal.console import make_console, print_json
    from rollout.terminal.run_stats import show_stats

    console = make_console(no_colors)
    run_dir = locate_run(run)
    with open_reader(run_dir) as journal:
        found = read_stats(journal, dataset, None if is_all else MOST_STEPS_READ)
    if as_json:
        print_json(found)
    else:
        show_stats(console, str(run_dir), found, shows_all_tools=is_all)
