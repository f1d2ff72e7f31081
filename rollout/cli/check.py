"""`rollout check`, and `--dry-run` of the commands that run something."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o
from rollout.cli.exit_codes import EXIT_PROBLEMS
from rollout.cli.signals import listening
from rollout.pipelines.checks.check import DatasetCheck, RunCheck, broken_environments, check_datasets, check_run

if TYPE_CHECKING:
    from rollout.config.schema import Config


def check(
    config: o.ConfigPath,
    dataset: o.DatasetNames = None,
    limit: o.Limit = None,
    samples: o.Samples = None,
    agent_model: o.AgentModel = None,
    user_model: o.UserModel = None,
    strategy: o.Strategy = None,
    output: o.OutputFolder = None,
    set_: o.Settings = None,
    resume: o.Resume = None,
    ping: Annotated[
        bool, typer.Option("--ping", help="Send each model one tiny request, and report what cannot answer.")
    ] = False,
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """Check a config and everything that it names; run nothing and leave nothing behind.

    Every environment is constructed: mock servers are loaded, MCP servers are started and asked for their tools,
    functions are imported. Tasks, policies, models, keys and addresses are checked; the run directory, the log and the
    outputs are opened. Exit code 0 where nothing is wrong, else 2.

    What would run, and what is missing:

        rollout check configs/example_new.yml

    Whether the models answer, too:

        rollout check configs/default.yml --ping

    For a program:

        rollout check configs/default.yml --json
    """
    from rollout.core.errors import RolloutError
    from rollout.pipelines.run_options import RunOptions, load_changed
    from rollout.terminal.checks import show_checks
    from rollout.terminal.console import make_console, print_json

    console = make_console(no_colors)
    options = RunOptions(
        datasets=tuple(dataset or ()),
        limit=limit,
        samples=samples,
        agent_model=agent_model,
        user_model=user_model,
        strategy=strategy,
        output=output,
        settings=tuple(set_ or ()),
    )
    try:
        read, names = load_changed(config, options)
        found = check_whole(read, names, resume=read.resume if resume is None else resume, ping=ping)
    except RolloutError as error:
        if not as_json:
            raise
        print_json({"ok": False, "trajectories": 0, "datasets": [], "problems": str(error).splitlines()})
        sys.exit(EXIT_PROBLEMS)
    if as_json:
        print_json(found.to_json())
    else:
        show_checks(console, found)
    sys.exit(EXIT_PROBLEMS if found.problem_count else 0)


def check_whole(config: Config, names: list[str], *, resume: bool, ping: bool = False) -> RunCheck:
    """Look at everything that a run of these datasets would use."""
    with listening() as signals:
        return signals.run(check_run(config, names, resume=resume, ping=ping))


def check_config(config: Config, names: list[str]) -> list[DatasetCheck]:
    """Look at everything that these datasets would use."""
    with listening() as signals:
        return signals.run(check_datasets(config, names))


def broken_servers(config: Config, names: list[str]) -> dict[str, list[str]]:
    """The datasets whose environments cannot be opened, each with the reasons."""
    with listening() as signals:
        return signals.run(broken_environments(config, names))
