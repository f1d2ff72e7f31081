"""The findings of `rollout doctor`, for a person to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.pipelines.checks.doctor import MachineFinding, is_sound

_WORDS = {"required": ("missing", "bold red"), "optional": ("–", "dim"), "protection": ("missing", "yellow")}


def show_findings(console: Console, findings: Sequence[MachineFinding]) -> None:
    """A line for each finding, then what to do about what is missing."""
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for column in range(3):
        table.add_column(no_wrap=column < 2, overflow="fold")
    for finding in findings:
        word, style = ("ok", "green") if finding.state == "ok" else _WORDS[finding.need]
        table.add_row(Text(word, style), finding.name, finding.found)
    console.print(table)
    absent = [finding for finding in findings if finding.state == "missing" and finding.remedy]
    if absent:
        console.print(Text("\nHow to get what is missing", "bold"))
    by_remedy: dict[str, list[str]] = {}
    for finding in absent:
        by_remedy.setdefault(finding.remedy or "", []).append(finding.name)
    for remedy, names in by_remedy.items():
        console.print(Text.assemble(f"{', '.join(names)}: ", (remedy, "bold")), highlight=False, soft_wrap=True)
    verdict = "Ready." if is_sound(list(findings)) else "Not ready: something that is required is missing."
    console.print(f"\n{verdict}", highlight=False)
