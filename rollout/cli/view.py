"""`rollout view`: runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import options as o


def view(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Run directories, folders of them, or names of runs. Default: all below runs/."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=65535, help="Default: 7788, or one that is free.")
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="HOST", help="The address to listen at. Other machines can reach any but loopback."),
    ] = ("127.0.0.1"),
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name that a reverse proxy uses. May be repeated."),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="/PATH", help="The path under which a reverse proxy shows it.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no marks, corrections or growths.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Grow and play with this configuration instead of the recorded one, which has no keys.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    while_stdin: Annotated[bool, typer.Option("--while-stdin", hidden=True)] = False,
    no_colors: o.NoColors = False,
) -> None:
    """Look at runs in a browser: tables, trajectories, trees, what was sent at any step.

    All runs below runs/:

        rollout view

    A run on a machine that you reached by ssh -L 7788:127.0.0.1:7788:

        rollout view runs/trial --no-browser

    The printed address holds a token, which the page needs. Ctrl-C ends the server; the runs do not change.

    Exit codes: 0, ended; 2, no such run, or the port is taken.
    """
    from rollout.cli.signals import listening
    from rollout.cli.viewing import show_runs
    from rollout.terminal.console import make_console

    with listening() as signals:
        signals.run(
            show_runs(
                make_console(no_colors),
                runs or [],
                host=host,
                port=port,
                allowed_hosts=allow_host or [],
                prefix=prefix,
                read_only=read_only,
                config_file=config,
                opens_browser=browser,
                while_stdin=while_stdin,
            )
        )
