"""The summary at the end of a run: its table, its measures, and what to do next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.terminal.progress import rank_table
from rollout.terminal.summary_columns import summary_cells
from rollout.terminal.tables import side_by_side
from rollout.terminal.token_metrics import show_token_metrics
from rollout.terminal.web_metrics import show_refused_hosts, show_web_metrics
from rollout.trajectories.causes import Cause, describe_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rollout.core.messages import JSON
    from rollout.pipelines.run import Opened
    from rollout.trajectories.passk import PassK

MEASURES: dict[str, Callable[[Console, JSON, str], None]] = {
    "web": show_web_metrics,
    "refused_hosts": show_refused_hosts,
    "tokens": show_token_metrics,
}
"""How the figures of `rollout.pipelines.wiring.measures` are shown, by their names."""


def show_summary(console: Console, opened: Opened, again: str, paused: str | None) -> None:
    """The table at the end, and what to do next. `again` is the command that goes on."""
    summary = opened.summary
    assert summary is not None
    console.print()
    console.print(side_by_side(console, "paused" if paused else "done", summary_cells(summary)))
    show_pass_k(console, {name: sums.pass_k for name, sums in summary.datasets.items()})
    if summary.ranks:
        console.print(rank_table(summary.ranks, "ranks"))
    for measure, by_dataset in summary.measured.items():
        for name, found in by_dataset.items():
            if name in {plan.name for plan in opened.plans} and measure in MEASURES:
                MEASURES[measure](console, found, name)
    show_failures(console, summary.failures, opened.registry_file)
    for reason in summary.unscored[:MOST_CAUSES]:
        line = Text.assemble(("unscored ", "yellow"), f"{reason.count} × {reason.text}")
        console.print(line, highlight=False, soft_wrap=True)
    reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(summary.total.stop_reasons.items()))
    if reasons:
        console.print(f"stop reasons: {reasons}", highlight=False)
    if summary.total.passed_but_truncated:
        text = (
            f"{summary.total.passed_but_truncated} truncated attempts passed every scorer and still count as unsolved; "
            "see which limit ended them in the stop reasons"
        )
        console.print(text, highlight=False, soft_wrap=True)
    if summary.total.replay_mismatches:
        text = f"replay mismatches: {summary.total.replay_mismatches}; each of these paths started again"
        console.print(text, highlight=False, soft_wrap=True)
    for plan in opened.plans:
        console.print(f"trajectories: {plan.output_path}", highlight=False, markup=False, soft_wrap=True)
    text = f"run: {opened.run_dir}  (journal.db, metrics.json, run.json)"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    todo = ""
    if paused:
        control = opened.engine.control
        fix = _FIXES.get(paused, "")
        cause = control.cause or f"by {paused}"
        todo = f"Paused: {cause}. {summary.total.unfinished} unfinished. {fix}To go on, run: "
    elif summary.total.unfinished:
        todo = f"{summary.total.unfinished} unfinished; go on with: "
    elif summary.total.failed:
        todo = f"{summary.total.failed} failed, see {opened.run_dir / 'failed.jsonl'}; try again with: "
    if todo:
        console.print(Text.assemble(todo, (again, "bold")), highlight=False, soft_wrap=True)
    sys.stdout.flush()


_FIXES = {"nothing works": "Fix the cause first. ", "max_cost": "Raise max_cost first. "}
"""What has to be done before a paused run goes on, by the reason of the pause."""
MOST_CAUSES = 5


def show_failures(console: Console, causes: Sequence[Cause], registry_file: str | None) -> None:
    """Why attempts failed: a line for each cause, with how often it came and what to check."""
    for cause in causes[:MOST_CAUSES]:
        text = describe_cause(cause.text, cause.check, registry_file)
        line = Text.assemble(("failed ", "bold red"), f"{cause.count} × {text}")
        console.print(line, highlight=False, soft_wrap=True)
    if len(causes) > MOST_CAUSES:
        more = sum(cause.count for cause in causes[MOST_CAUSES:])
        console.print(f"failed {more} more, of {len(causes) - MOST_CAUSES} other causes: see failed.jsonl")


def show_pass_k(console: Console, tables: dict[str, list[PassK]]) -> None:
    """pass@k and pass^k of the datasets whose tasks were attempted more than once: k = 1, 2, 4 and the most."""
    several = {name: table for name, table in tables.items() if len(table) > 1}
    if not several:
        return
    most = max(len(table) for table in several.values())
    shown = sorted({k for k in (1, 2, 4, most) if k <= most})
    table = Table(title="pass@k / pass^k, per cent", title_justify="left", title_style="bold")
    table.add_column("dataset", overflow="fold")
    for k in shown:
        table.add_column(f"k = {k}")
    for name, entries in several.items():
        by_k = {entry.k: entry for entry in entries}
        cells = [f"{by_k[k].at:.1%} / {by_k[k].all:.1%}".replace("%", "") if k in by_k else "–" for k in shown]
        table.add_row(name, *cells)
    console.print(table)
    for name, entries in several.items():
        fewer = [f"k = {entry.k}: {entry.tasks}" for entry in entries if entry.tasks < entries[0].tasks]
        if fewer:
            text = f"{name}: fewer than {entries[0].tasks} tasks have enough scored attempts: {', '.join(fewer)}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
