"""`rollout run`: from a config file to trajectories."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rollout.config import Config, load_config
from rollout.errors import ConfigError, RolloutError

EXIT_PROBLEMS = 2
EXIT_FAILED = 1


DatasetOption = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", metavar="NAME", help="Only this dataset. May be repeated.")
]
ResumeOption = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        "-r",
        help="Go on where the last run stopped, or move it aside and start anew. Default: what the config says.",
    ),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print the conversations as they happen.")]
NoColorsOption = Annotated[bool, typer.Option("--no-colors", help="No colours, no live display.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check all that can be wrong, print what would run, run nothing.")
]


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The YAML configuration.", show_default=False)],
    dataset: DatasetOption = None,
    resume: ResumeOption = None,
    verbose: VerboseOption = False,
    no_colors: NoColorsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Roll out the datasets of a config.

    The embedded example, with no key and no network:

        rollout run configs/default.yml

    What would run, and what is missing:

        rollout run configs/example_new.yml --dry-run

    One dataset, from where it stopped, printed as it happens:

        rollout run configs/example_new.yml -d CustomerService --resume --verbose
    """
    sys.exit(run_config(config, dataset, resume, verbose, no_colors, dry_run))


def run_by_option(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.", show_default=False)],
    dataset: DatasetOption = None,
    resume: ResumeOption = None,
    verbose: VerboseOption = False,
    no_colors: NoColorsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Roll out the datasets of a config: `rollout run CONFIG` in the seed's spelling."""
    sys.exit(run_config(config, dataset, resume, verbose, no_colors, dry_run))


def run_config(
    path: Path,
    names: list[str] | None = None,
    resume: bool | None = None,
    verbose: bool = False,
    no_colors: bool = False,
    dry_run: bool = False,
) -> int:
    """Run a configuration file; returns the exit code. `run.py` calls this too."""
    from rollout.cli.terminal import make_console, show_error

    console = make_console(no_colors)
    try:
        from rollout.engine.discover import with_discovered

        config = with_discovered(load_config(path))
        names = _choose(config, names, path)
        if dry_run:
            from rollout.cli.check import check_config, show_check

            report = check_config(config, names)
            return show_check(console, report)
        updates: dict[str, object] = {"verbose": config.verbose or verbose}
        if no_colors:
            updates["verbose_colors"] = False
        config = config.model_copy(update=updates)
        return _run(config, path, names, config.resume if resume is None else resume, no_colors)
    except RolloutError as error:
        show_error(console, error)
        return EXIT_PROBLEMS


def _choose(config: Config, names: list[str] | None, path: Path) -> list[str]:
    if not config.datasets:
        raise ConfigError(f"{path}: datasets: there are none; expected at least one")
    unknown = [name for name in names or () if name not in config.datasets]
    if unknown:
        raise ConfigError(
            f"{path}: no dataset {', '.join(map(repr, unknown))}; there are: {', '.join(config.datasets)}"
        )
    return list(dict.fromkeys(names)) if names else list(config.datasets)


def _run(config: Config, path: Path, names: list[str], resume: bool, no_colors: bool) -> int:
    import uvloop

    from rollout.engine.run import run_dir_of

    run_dir = run_dir_of(config, path)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_roll_out(config, path, run_dir, names, resume, no_colors))


async def _roll_out(config: Config, path: Path, run_dir: Path, names: list[str], resume: bool, no_colors: bool) -> int:
    from rollout.cli.display import Display
    from rollout.cli.terminal import make_console, set_up_logging, show_summary
    from rollout.cli.verbose import VerbosePrinter
    from rollout.engine.observer import Observer
    from rollout.engine.run import open_run

    console = make_console(no_colors)
    set_up_logging(config.log_level, config.log_file, console)
    observers: list[Observer] = []
    is_person = any(
        user is not None and user.kind == "person" for user in (config.datasets[name].user for name in names)
    )
    if is_person:
        config = config.model_copy(update={"max_workers": 1})
    if config.verbose:
        observers.append(
            VerbosePrinter(make_console(no_colors or not config.verbose_colors), config.verbose_max_length)
        )
    interrupted: list[int] = []
    async with open_run(config, run_dir, datasets=names, resume=resume, observers=observers) as opened:
        for plan in opened.plans:
            for problem in plan.tasks.problems:
                console.print(f"[yellow]warning[/] {problem}", highlight=False)
        for old, new in opened.moved:
            console.print(f"{old} was there already: moved to {new}", highlight=False, soft_wrap=True)
        engine = opened.engine
        if engine.progress.finished_before:
            console.print(
                f"resuming: {engine.progress.finished_before} of {engine.progress.total} trajectories are finished"
            )
        _listen(engine.control.pause, engine.cut, interrupted)
        live = not config.verbose and not is_person
        async with Display(console, engine.progress, engine.control, is_live=live):
            await engine.run()
    assert opened.summary is not None
    show_summary(console, opened, path, paused=engine.control.reason)
    if interrupted:
        return 128 + interrupted[0]
    return EXIT_FAILED if opened.summary.total.failed else 0


def _listen(pause: Callable[[str], None], cut: Callable[[], None], interrupted: list[int]) -> None:
    """First Ctrl-C or SIGTERM pauses; the second cuts. Either way the run resumes later."""
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        interrupted.append(number)
        if len(interrupted) == 1:
            logging.getLogger(__name__).warning("stopping: live work gets a short grace; press again to stop at once")
            pause(signal.Signals(number).name)
        else:
            cut()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
