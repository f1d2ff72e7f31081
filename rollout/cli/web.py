"""`rollout web`: an iteration of a web experiment, configured with Hydra.

From overrides to a configuration (`rollout.config.compose`), to a sample (`rollout.pipelines.web_iterations`), to an
ordinary run of `rollout run`'s own runner; then the iteration is saved and the block list learns from it.
"""

from __future__ import annotations

import inspect
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollout.cli import options as o
from rollout.cli.exit_codes import EXIT_FAILED, EXIT_PROBLEMS
from rollout.cli.run import run_checked
from rollout.compat.web_results import as_yaml, conclude, open_iteration
from rollout.config.compose import DEFAULT_NAME, Composed, compose_web
from rollout.config.web import WebConfig, describe_keys
from rollout.core.errors import JournalError, RolloutError
from rollout.core.secrets import redact
from rollout.pipelines.web_iterations import Sample
from rollout.terminal.console import make_console, show_error, show_warning

SHOWN_PROBLEMS = 5
"""Bad lines of a task file that are reported one by one."""


def web(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Overrides, as Hydra takes them.", show_default=False),
    ] = None,
    config_name: Annotated[
        str,
        typer.Option("--config-name", "-cn", metavar="NAME", help="rollout_train, rollout_test, or one of your own."),
    ] = DEFAULT_NAME,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", "-cd", metavar="FOLDER", help="Where YAML files of your own lie.")
    ] = None,
    multirun: Annotated[
        bool, typer.Option("--multirun", "-m", help="Run every combination of KEY=A,B values, one after the other.")
    ] = False,
    cfg: Annotated[
        str | None, typer.Option("--cfg", "-c", metavar="job", help="Print the configuration and run nothing.")
    ] = None,
    cluster: o.ClusterAddress = None,
    verbose: o.Verbose = False,
    no_colors: o.NoColors = False,
    dry_run: o.DryRun = False,
) -> None:
    """Roll out tasks on web pages: the next iteration of an experiment, or the one that was not finished.

    The next iteration over train.jsonl in the folder tasks, with a model that a server on this machine serves:

        rollout web save_path=exp data_path=tasks policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct

    The test tasks; `builtin/oracle` plays their reference actions:

        rollout web --config-name rollout_test save_path=exp data_path=tasks policy_config.base_model=builtin/oracle

    Two iterations that draw other tasks:

        rollout web -m save_path=exp data_path=tasks policy_config.base_model=openai/gpt-5 seed=0,1

    Over three machines of a Ray cluster, the first of which does half of it:

        rollout web --cluster auto rank_weights="2,1,1" save_path=exp data_path=tasks \\
            policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct

    Trajectories go to `exp/train_trajectories/train_trajectories.iteration0.jsonl`, then `iteration1` and so on. The
    same command goes on with an iteration that was stopped or killed.
    """
    sys.exit(
        run_web(
            [*(overrides or []), *([f"cluster.address='{cluster}'"] if cluster is not None else [])],
            config_name=config_name,
            config_dir=config_dir,
            multirun=multirun,
            cfg=cfg is not None,
            verbose=verbose,
            no_colors=no_colors,
            dry_run=dry_run,
        )
    )


web.__doc__ = f"{inspect.cleandoc(web.__doc__ or '')}\n\n{describe_keys()}"


def run_web(
    overrides: list[str],
    *,
    config_name: str = DEFAULT_NAME,
    config_dir: Path | None = None,
    multirun: bool = False,
    cfg: bool = False,
    verbose: bool = False,
    no_colors: bool = False,
    dry_run: bool = False,
) -> int:
    """Run what the overrides say; returns the exit code, of several runs the first that is not 0."""
    console = make_console(no_colors)
    command = ["rollout", "web"]
    command += [] if config_name == DEFAULT_NAME else ["--config-name", config_name]
    command += [] if config_dir is None else ["--config-dir", str(config_dir)]
    worst = 0
    try:
        jobs = compose_web(overrides, config_name=config_name, config_dir=config_dir, multirun=multirun)
        for number, job in enumerate(jobs, 1):
            if cfg:
                sys.stdout.write(("---\n" if number > 1 else "") + as_yaml(job.tree))
                continue
            if len(jobs) > 1:
                _say(console, f"\nrun {number} of {len(jobs)}: {' '.join(job.overrides)}")
            code = _run_one(job, console, command, verbose=verbose, no_colors=no_colors, dry_run=dry_run)
            worst = worst or code
            if code not in (0, EXIT_FAILED):
                break
    except JournalError as error:
        show_error(console, JournalError(f"{error}. resume=false begins the next iteration"))
        return EXIT_PROBLEMS
    except RolloutError as error:
        show_error(console, error)
        return EXIT_PROBLEMS
    return worst


def _run_one(
    job: Composed, console: Console, command: list[str], *, verbose: bool, no_colors: bool, dry_run: bool
) -> int:
    config = job.config
    for note in job.notes:
        show_warning(note)
    with open_iteration(job, dry_run=dry_run) as opened:
        iteration, run = opened.iteration, opened.run
        named = f"env_config.resume_checkpoint_path=iteration{iteration.number}"
        again = redact(shlex.join([*command, *job.overrides, named]))
        begun = "going on with iteration" if opened.sample is None else "iteration"
        _say(console, f"{begun} {iteration.number} of {config.split}: {iteration.paths.run_dir}")
        if opened.sample is not None:
            _show_sample(config, opened.sample, console)
        for note in opened.notes:
            show_warning(note)
        if verbose:
            run = run.model_copy(update={"verbose": True})
        code = run_checked(run, [config.split], resume=True, again=again, no_colors=no_colors, dry_run=dry_run)
    if not dry_run:
        for line in conclude(config, iteration, run, is_over=code in (0, EXIT_FAILED)):
            _say(console, line)
    return code


def _show_sample(config: WebConfig, sample: Sample, console: Console) -> None:
    """Tell of a new iteration's sample."""
    for problem in sample.problems[:SHOWN_PROBLEMS]:
        show_warning(str(problem))
    if len(sample.problems) > SHOWN_PROBLEMS:
        show_warning(f"{config.tasks_path}: {len(sample.problems) - SHOWN_PROBLEMS} more lines like these")
    for note in sample.mark.notes:
        _say(console, note)
    _say(console, f"{sample.mark.tasks} tasks of {config.tasks_path}, the hardest first")


def _say(console: Console, text: str) -> None:
    console.print(redact(text), highlight=False, markup=False, soft_wrap=True)
