"""The findings of a dry run, for a person to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rollout.core.secrets import redact
from rollout.pipelines.checks.check import DatasetCheck, RunCheck
from rollout.terminal.tables import side_by_side


def show_checks(console: Console, found: RunCheck) -> None:
    """Print what would run, and everything that is wrong with it."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    def mark(word: str, style: str, text: str) -> None:
        console.print(Text.assemble((f"{word} ", style), redact(text)), highlight=False, soft_wrap=True)

    reports = found.datasets
    console.print(side_by_side(console, "would run", {report.name: _cells(report) for report in reports}))
    for report in reports:
        say(f"{report.name} → {report.output}")
        if report.offers:
            say(f"{report.name} offers {', '.join(report.offers)}")
    for ping in found.pings:
        if ping.problem is None:
            say(f"{ping.model} answered in {ping.seconds:.2f} s")
    for report in reports:
        for warning in report.warnings:
            mark("warning", "yellow", f"{report.name}: {warning}")
    for warning in found.warnings:
        mark("warning", "yellow", warning)
    problems = [*found.problems, *(ping.problem for ping in found.pings if ping.problem is not None)]
    for problem, names in _by_text(reports).items():
        where = "every dataset" if len(names) == len(reports) > 1 else ", ".join(names)
        problems.append(f"{where}: {problem}")
    for problem in problems:
        mark("problem", "bold red", problem)
    if count := len(problems):
        console.print(f"{count} problem{'s' if count != 1 else ''}; nothing was run.", highlight=False)
    else:
        planned = f"{found.trajectories} {'trajectory' if found.trajectories == 1 else 'trajectories'}"
        console.print(f"{planned}; no problems found; nothing was run.", highlight=False)


def _by_text(reports: Sequence[DatasetCheck]) -> dict[str, list[str]]:
    """The problems of the datasets, each once, with the datasets that have it."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for problem in dict.fromkeys(report.problems):
            found.setdefault(problem, []).append(report.name)
    return found


def _cells(report: DatasetCheck) -> dict[str, str]:
    return {
        "tasks": str(report.tasks),
        "samples": str(report.samples),
        "tools": str(report.tools),
        "policy": report.policy,
        "agent": report.agent,
        "user": report.user,
    }
