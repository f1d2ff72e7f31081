"""`rollout compare`: the same tasks with several strategies, each for the same budget, and a table of what came out."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o
from rollout.cli.exit_codes import EXIT_PROBLEMS
from rollout.cli.run import run_checked
from rollout.config import Config
from rollout.config.exploring import Budget, StrategyChoice
from rollout.config.params import read_params
from rollout.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.pipelines.compare import Figures
    from rollout.pipelines.run_options import RunOptions

RESULTS = "compare.json"


def compare(
    config: o.ConfigPath,
    strategies: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Strategies, or names under compare.strategies. Default: all of those."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="UNIT=NUMBER,…", help="For each task: generations, tokens, tool_calls, cost."),
    ] = None,
    dataset: o.DatasetNames = None,
    limit: o.Limit = None,
    agent_model: o.AgentModel = None,
    user_model: o.UserModel = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder of the runs. Default: runs/<config>-compare."),
    ] = None,
    set_: o.Settings = None,
    resume: o.Resume = None,
    no_colors: o.NoColors = False,
) -> None:
    """Roll out the same tasks with several strategies at equal budget, each in a run directory of its own.

    With no key and no network:

        rollout compare configs/compare.yml

    Other strategies, another budget, fewer tasks:

        rollout compare configs/compare.yml --strategies chain,random_tree --budget generations=30 --limit 5
    """
    from rollout.pipelines.run_options import RunOptions
    from rollout.terminal.console import make_console

    console = make_console(no_colors)
    options = RunOptions(
        datasets=tuple(dataset or ()),
        limit=limit,
        agent_model=agent_model,
        user_model=user_model,
        output=output,
        settings=tuple(set_ or ()),
    )
    sys.exit(_compare(console, config, strategies, budget, options, resume, no_colors))


def _compare(
    console: Console,
    path: Path,
    strategies: str | None,
    budget: str | None,
    options: RunOptions,
    resume: bool | None,
    no_colors: bool,
) -> int:
    from rollout.pipelines.compare import read_figures, refuse_strategies, with_strategies
    from rollout.pipelines.run_options import load_changed, with_output
    from rollout.store.reading.reader import open_reader

    config, chosen = load_changed(path, options)
    allowed = _budget(config, budget)
    choices = _choices(config, strategies)
    refuse_strategies(config, chosen, choices.values(), allowed)
    folder = options.output or Path("runs") / f"{path.stem}-compare"
    own = [f"{option} {value}" for option, value in (("--strategies", strategies), ("--budget", budget)) if value]
    again = " ".join(filter(None, ["rollout compare", str(path), *own, options.words(), "--resume"]))
    code = 0
    for label, choice in choices.items():
        run_dir = folder / label
        console.print(f"{label}: {run_dir}", highlight=False, markup=False, soft_wrap=True)
        one = with_output(with_strategies(config, chosen, choice, allowed), run_dir)
        is_resumed = config.resume if resume is None else resume
        ended = run_checked(one, chosen, resume=is_resumed, again=again, no_colors=no_colors, is_brief=True)
        if ended >= EXIT_PROBLEMS:
            return ended
        code = code or ended
    with contextlib.ExitStack() as stack:
        readers = {label: stack.enter_context(open_reader(folder / label)) for label in choices}
        figures = read_figures(readers, chosen, allowed)
    for label, found in figures.items():
        _write_results(folder / label, found)
    show_figures(console, figures, allowed)
    return code


def _budget(config: Config, text: str | None) -> Budget:
    """`generations=40,cost=0.5`, or what the configuration says."""
    if text is None:
        if not config.compare.budget.limits():
            raise ConfigError("compare: say how much each strategy may use: --budget generations=40, or compare.budget")
        return config.compare.budget
    given = dict(part.partition("=")[::2] for part in text.split(","))
    return read_params(Budget, given, "--budget")


def _choices(config: Config, names: str | None) -> dict[str, StrategyChoice]:
    """The strategies to compare, by what the table calls them."""
    known = config.compare.strategies
    if names is None:
        if not known:
            raise ConfigError("compare: say what to compare: --strategies chain,random_tree, or compare.strategies")
        return dict(known)
    labels = [name.strip() for name in names.split(",") if name.strip()]
    if not labels:
        raise ConfigError("--strategies: there is no name in it; expected one or several, such as chain,random_tree")
    return {label: known.get(label) or StrategyChoice(name=label) for label in labels}


def _write_results(run_dir: Path, figures: Figures) -> None:
    import msgspec

    from rollout.store.blobs import write_atomic

    write_atomic(run_dir / RESULTS, msgspec.json.format(msgspec.json.encode(figures), indent=2))


def show_figures(console: Console, figures: dict[str, Figures], budget: Budget) -> None:
    """The table: a column for each strategy."""
    from rich.table import Table

    limits = ", ".join(f"{most:g} {unit.replace('_', ' ')}" for unit, most in budget.limits().items())
    table = Table(title=f"at most {limits} for each task", title_justify="left", title_style="bold")
    table.add_column("")
    for label in figures:
        table.add_column(label, justify="right", overflow="fold")
    columns = [_cells(found) for found in figures.values()]
    for row in columns[0]:
        table.add_row(row, *(cells[row] for cells in columns))
    console.print(table)
    for unit in budget.limits():
        if not any(getattr(found, unit) for found in figures.values()):
            console.print(f"nothing was counted in {unit.replace('_', ' ')}: that limited nothing", highlight=False)
    over = ", ".join(f"{label} {found.over}" for label, found in figures.items() if found.over)
    if over:
        console.print(f"not counted, because they went over the budget: {over}", highlight=False, soft_wrap=True)


def _cells(found: Figures) -> dict[str, str]:
    return {
        "tasks": str(found.tasks),
        "tasks solved": f"{found.solved} ({_per_cent(found.solved_rate)})",
        "attempts": str(found.attempts),
        "attempts solved": _per_cent(found.success_rate),
        "useful groups": str(found.useful),
        "distinct outcomes": str(found.outcomes),
        "generations": str(found.generations),
        "tokens": f"{found.tokens:,}" if found.tokens else "–",
        "tool calls": str(found.tool_calls),
        "seconds": f"{found.seconds:.1f}",
    }


def _per_cent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
