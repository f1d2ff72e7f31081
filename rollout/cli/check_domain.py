"""`rollout check-domain`: can every query be solved, and does solving it take anything?"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o
from rollout.cli.signals import listening
from rollout.core.errors import ConfigError
from rollout.environments.domains.domain import SHIPPED

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.scoring.solvable import QueryReport
    from rollout.tasks.discovery import Combination
    from rollout.tasks.source import Problem

SHOWN_IDS = 8


def check_domain(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Domains; a combination as A_B, in any order.", show_default=False),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every domain and combination in the folder.")] = False,
    base_path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The dataset folder. Default: the shipped domains.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every query.")] = False,
    no_colors: o.NoColors = False,
) -> None:
    """Play every query's reference actions and report what cannot be solved. Exit code 1 where something cannot.

    One of the shipped domains, a line for each query:

        rollout check-domain StudentAcademicPortal --verbose

    Everything in a folder of your own:

        rollout check-domain --all --base-path ./datasets
    """
    from rollout.terminal.console import make_console

    console = make_console(no_colors)
    found = _find(base_path or SHIPPED, names or [], all_)
    is_sound = True
    for base, combination in found:
        with listening() as signals:
            problems, reports = signals.run(_check(base, combination))
        is_sound = _show(console, combination.name, problems, reports, verbose) and is_sound
    sys.exit(0 if is_sound else 1)


def _find(path: Path, names: list[str], all_: bool) -> list[tuple[Path, Combination]]:
    """The domains that are meant, each with the folder that it is in."""
    from rollout.tasks.discovery import Kind, list_combinations, resolve_base
    from rollout.tasks.naming import fold, split_fused

    if not names and not all_:
        raise ConfigError("say which: check-domain NAME..., or --all")
    bases: list[Path] = []
    kinds: tuple[Kind, ...] = ("single", "cross")
    for kind in kinds:
        with contextlib.suppress(ConfigError):
            bases.append(resolve_base(path, kind))
    there = [(base, one) for base in dict.fromkeys(bases) for one in list_combinations(base)]
    if not there:
        raise ConfigError(f"{path}: no queries here, nor in single_domain or cross_domain below it")
    if all_:
        return there
    known = {server for _, one in there for server in one.servers}
    chosen = []
    for name in names:
        servers = set(split_fused(name, known) or ())
        fits = [each for each in there if fold(each[1].name) == fold(name) or set(each[1].servers) == (servers or None)]
        if not fits:
            raise ConfigError(f"{path}: no domain {name!r}; there are: {', '.join(each[1].name for each in there)}")
        chosen += fits
    return chosen


async def _check(base: Path, combination: Combination) -> tuple[list[Problem], list[QueryReport]]:
    from rollout.config.schema import Config, Dataset
    from rollout.pipelines.score import open_scoring
    from rollout.scoring.solvable import QueryChecker

    name = combination.name
    if not combination.servers:
        raise ConfigError(f"{combination.queries[0]}: its name is made of no known servers in {base / 'mcp_servers'}")
    dataset = Dataset(mcp_domain=name, base_path=base, path=list(combination.queries), policy=combination.policy)
    async with open_scoring(Config(datasets={name: dataset}), [name]) as (scoring,):
        opened, wired = scoring.opened, scoring.wired
        checker = QueryChecker(opened.make_world, wired.seed_of, opened.rules, scoring.panel)
        reports = [await checker.check(wired.read_task(place)) for place in range(len(scoring.tasks))]
    return list(scoring.tasks.problems), reports


def _show(console: Console, name: str, problems: list[Problem], reports: list[QueryReport], verbose: bool) -> bool:
    """Print what was found of one domain; whether every query can be solved."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=name, title_justify="left", title_style="bold")
    for column in ("kind", "queries", "solvable", "writes", "idle passes", "unscored", "remarks"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    kinds = Counter(report.kind or "–" for report in reports)
    for kind in [*kinds, *(["all"] if len(kinds) != 1 else [])]:
        some = [report for report in reports if kind in ("all", report.kind or "–")]
        table.add_row(
            kind,
            str(len(some)),
            str(sum(not report.problems for report in some)),
            str(sum(report.changed_rows > 0 for report in some)),
            str(sum(report.idle == "passes" for report in some)),
            str(sum(report.idle == "unscored" for report in some)),
            str(sum(len(report.remarks) for report in some)),
        )
    console.print(table)
    if verbose:
        for report in reports:
            console.print(
                f"{report.id}  {report.kind or '–'}  {report.actions} actions  {report.changed_rows} rows changed  "
                f"idle {report.idle}",
                highlight=False, markup=False, soft_wrap=True,
            )  # fmt: skip
    idle = [report.id for report in reports if report.idle == "passes"]
    if idle:
        more = f" and {len(idle) - SHOWN_IDS} more" if len(idle) > SHOWN_IDS else ""
        text = f"an idle agent passes: {', '.join(idle[:SHOWN_IDS])}{more}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    faults = [(str(problem.where), problem.what) for problem in problems]
    faults += [(report.id, problem) for report in reports for problem in report.problems]
    for report in reports:
        for remark in report.remarks:
            console.print(Text.assemble(("remark ", "yellow"), f"{report.id}: {remark}"), soft_wrap=True)
    for where, what in faults:
        console.print(Text.assemble(("problem ", "bold red"), f"{where}: {what}"), soft_wrap=True)
    if not reports:
        console.print(Text.assemble(("problem ", "bold red"), f"{name}: there is no query"), soft_wrap=True)
    return bool(reports) and not faults
