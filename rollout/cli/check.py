"""`--dry-run`: prints what would run, and everything that is wrong with it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from rollout.cli.signals import listening
from rollout.config.schema import Config
from rollout.core.secrets import redact
from rollout.pipelines.check import DatasetCheck, broken_environments, check_datasets
from rollout.terminal.tables import side_by_side


def check_config(config: Config, names: list[str]) -> list[DatasetCheck]:
    """Look at everything that a run of these datasets would use. Asks no model and writes nothing."""
    with listening() as signals:
        return signals.run(check_datasets(config, names))


def broken_servers(config: Config, names: list[str]) -> dict[str, list[str]]:
    """The datasets whose environments cannot be opened, each with the reasons."""
    with listening() as signals:
        return signals.run(broken_environments(config, names))


def show_check(console: Console, reports: list[DatasetCheck]) -> int:
    """Print what would run and what is wrong; returns the exit code: 0 where nothing is."""
    console.print(side_by_side(console, "would run", {report.name: _cells(report) for report in reports}))
    for report in reports:
        console.print(f"{report.name} → {report.output}", highlight=False, markup=False, soft_wrap=True)
        if report.offers:
            text = f"{report.name} offers {', '.join(report.offers)}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
    count = 0
    for report in reports:
        for warning in report.warnings:
            console.print(Text.assemble(("warning ", "yellow"), f"{report.name}: {redact(warning)}"), soft_wrap=True)
        for problem in report.problems:
            count += 1
            console.print(Text.assemble(("problem ", "bold red"), f"{report.name}: {redact(problem)}"), soft_wrap=True)
    if count:
        console.print(f"{count} problem{'s' if count != 1 else ''}; nothing was run.")
        return 2
    total = sum(report.tasks * report.samples for report in reports)
    console.print(f"{total} trajectories; no problems found; nothing was run.")
    return 0


def _cells(report: DatasetCheck) -> dict[str, str]:
    return {
        "tasks": str(report.tasks),
        "samples": str(report.samples),
        "tools": str(report.tools),
        "policy": report.policy,
        "agent": report.agent,
        "user": report.user,
    }
