"""What the commands print: errors, log lines, the table at the end."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from rollout.errors import RolloutError
from rollout.secrets import RedactingFilter, redact

if TYPE_CHECKING:
    from rollout.engine.run import Opened
    from rollout.engine.summary import DatasetSummary


def make_console(no_colors: bool = False) -> Console:
    """The console of this process: standard output, without colours where asked or where it is no terminal."""
    return Console(no_color=True, force_terminal=False) if no_colors else Console()


def show_error(console: Console, error: RolloutError) -> None:
    """One error, in words, on standard error."""
    stderr = Console(stderr=True, no_color=console.no_color)
    stderr.print(Text.assemble(("error ", "bold red"), redact(str(error))), soft_wrap=True, highlight=False)


def set_up_logging(level: str, file: Path | None, console: Console) -> None:
    """Log lines go to the file where there is one, else warnings to the terminal. No line holds a secret."""
    root = logging.getLogger("rollout")
    root.setLevel(level)
    root.handlers.clear()
    root.propagate = False
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        to_file = logging.FileHandler(file, encoding="utf-8")
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        to_file.addFilter(RedactingFilter())
        root.addHandler(to_file)
    to_terminal = RichHandler(console=console, show_path=False, show_time=False, rich_tracebacks=False)
    to_terminal.setLevel(logging.WARNING)
    to_terminal.addFilter(RedactingFilter())
    root.addHandler(to_terminal)


def show_summary(console: Console, opened: Opened, config_path: Path, paused: str | None) -> None:
    """The table at the end, and what to do next."""
    summary = opened.summary
    assert summary is not None
    table = Table(title="paused" if paused else "done", title_justify="left")
    table.add_column("dataset")
    for column in (
        "planned",
        "completed",
        "truncated",
        "failed",
        "unfinished",
        "success",
        "turns",
        "tool calls",
        "cost",
    ):
        table.add_column(column, justify="right")
    for name, found in summary.datasets.items():
        table.add_row(name, *_cells(found))
    if len(summary.datasets) > 1:
        table.add_section()
        table.add_row("all", *_cells(summary.total))
    console.print()
    console.print(table)
    reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(summary.total.stop_reasons.items()))
    if reasons:
        console.print(f"stop reasons: {reasons}", highlight=False)
    for plan in opened.plans:
        console.print(f"trajectories: {plan.output_path}", highlight=False, soft_wrap=True)
    console.print(f"run: {opened.run_dir}  (journal.db, metrics.json, run.json)", highlight=False, soft_wrap=True)
    command = f"rollout run {config_path} --resume"
    if paused or summary.total.unfinished:
        why = f" (paused by {paused})" if paused else ""
        console.print(f"{summary.total.unfinished} unfinished{why}; go on with: [bold]{command}[/]", highlight=False)
    elif summary.total.failed:
        console.print(
            f"{summary.total.failed} failed, see {opened.run_dir / 'failed.jsonl'}; try again with: [bold]{command}[/]",
            highlight=False,
            soft_wrap=True,
        )
    sys.stdout.flush()


def _cells(found: DatasetSummary) -> list[str]:
    rate = "–" if found.success_rate is None else f"{found.succeeded} ({found.success_rate:.0%})"
    return [
        str(found.planned),
        str(found.statuses.get("completed", 0)),
        str(found.statuses.get("truncated", 0)),
        str(found.failed),
        str(found.unfinished),
        rate,
        str(found.turns),
        str(found.tool_calls),
        f"${found.cost:.4f}" if found.cost else "–",
    ]
