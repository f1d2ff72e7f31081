"""Terminal output of the commands: errors, log lines, the table at the end.

Everything is printed through `SafeConsole`. Most of it holds text of models, tools, servers and data files, so the
console takes no string for markup and removes control sequences from whatever is rendered; only our own styles colour
the output.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rollout.cli.token_metrics import show_token_metrics
from rollout.cli.web_metrics import show_web_metrics
from rollout.core.errors import ConfigError, RolloutError
from rollout.core.printable import printable
from rollout.core.secrets import RedactingFilter, excerpt
from rollout.pipelines.display import rank_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rollout.core.messages import JSON
    from rollout.pipelines.run import Opened
    from rollout.trajectories.passk import PassK

NOTHING = ("0", "–")
MEASURES: dict[str, Callable[[Console, JSON, str], None]] = {"web": show_web_metrics, "tokens": show_token_metrics}
"""How the figures of `rollout.pipelines.measures` are shown, by their names."""
NAME_WIDTH = 25
SIDE_BY_SIDE = 3
MOST_SHOWN = 2000
"""Characters of one message on the terminal."""


class SafeConsole(Console):
    """A console that untrusted text cannot command: no markup, no emoji codes, no control sequences."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text on its way to the terminal comes through here; rich's own control codes are marked as such."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                clean = printable(segment.text)
                yield segment if clean is segment.text else Segment(clean, segment.style)
            else:
                yield segment


def make_console(no_colors: bool = False) -> Console:
    """The console of this process: standard output, without colours where asked or where it is no terminal."""
    return SafeConsole(no_color=True, force_terminal=False) if no_colors else SafeConsole()


def show_warning(text: str) -> None:
    """Something that a person should know and that stops nothing, on standard error."""
    SafeConsole(stderr=True).print(
        Text.assemble(("warning ", "yellow"), excerpt(text, MOST_SHOWN)), soft_wrap=True, highlight=False
    )


def show_error(console: Console, error: RolloutError) -> None:
    """One error, in words, on standard error."""
    stderr = SafeConsole(stderr=True, no_color=console.no_color)
    stderr.print(
        Text.assemble(("error ", "bold red"), excerpt(str(error), MOST_SHOWN)), soft_wrap=True, highlight=False
    )


class _PrintableFormatter(logging.Formatter):
    """Log lines without control sequences: a log file is read on a terminal, too."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _TerminalFormatter(_PrintableFormatter):
    """Log lines of a length that a person reads; the log file has all of them."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text):,} characters)"


def set_up_logging(level: str, file: Path | None, console: Console) -> None:
    """Log lines go to the file where there is one, else warnings to the terminal. No line holds a secret."""
    root = logging.getLogger("rollout")
    root.setLevel(level)
    root.handlers.clear()
    root.propagate = False
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # For its owner only, as the files of a run directory are.
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            to_file = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"log_file: {file} cannot be written: {error.strerror or error}") from error
        to_file.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        to_file.addFilter(RedactingFilter())
        root.addHandler(to_file)
    to_terminal = RichHandler(
        console=console,
        show_path=False,
        show_time=False,
        rich_tracebacks=False,
        # Its patterns take quadratic time over a long word.
        highlighter=NullHighlighter(),
        keywords=[],
    )
    to_terminal.setLevel(logging.WARNING)
    to_terminal.setFormatter(_TerminalFormatter("%(message)s"))
    to_terminal.addFilter(RedactingFilter())
    root.addHandler(to_terminal)


def show_summary(console: Console, opened: Opened, again: str, paused: str | None) -> None:
    """The table at the end, and what to do next. `again` is the command that goes on."""
    from rollout.cli.summary_columns import summary_cells

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
        text = f"replay mismatches: {summary.total.replay_mismatches}; each of these paths began anew"
        console.print(text, highlight=False, soft_wrap=True)
    for plan in opened.plans:
        console.print(f"trajectories: {plan.output_path}", highlight=False, markup=False, soft_wrap=True)
    text = f"run: {opened.run_dir}  (journal.db, metrics.json, run.json)"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    todo = ""
    if paused or summary.total.unfinished:
        why = f" (paused by {paused})" if paused else ""
        todo = f"{summary.total.unfinished} unfinished{why}; go on with: "
    elif summary.total.failed:
        todo = f"{summary.total.failed} failed, see {opened.run_dir / 'failed.jsonl'}; try again with: "
    if todo:
        console.print(Text.assemble(todo, (again, "bold")), highlight=False, soft_wrap=True)
    sys.stdout.flush()


def side_by_side(console: Console, title: str, columns: dict[str, dict[str, str]]) -> Table:
    """The same rows for several datasets, so that they fit the terminal: few datasets stand side by side; many stand
    one below the other, each in a line of its own or, where that is too wide, in a block."""
    table = Table(title=title, title_justify="left", title_style="bold")
    rows = list(next(iter(columns.values())))
    if len(columns) <= SIDE_BY_SIDE:
        table.add_column("")
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(row, *(cells[row] for cells in columns.values()))
        return table
    # What is the same everywhere is told once.
    told = [row for row in rows if len({cells[row] for cells in columns.values()}) > 1]
    alike = {row: cells[row] for cells in columns.values() for row in rows if row not in told}
    said = ", ".join(f"{row} {value}" for row, value in alike.items() if value not in NOTHING)
    table.caption, table.caption_justify = (f"everywhere: {said}" if said else None), "left"
    table.add_column("dataset", overflow="fold", min_width=min(NAME_WIDTH, max(map(len, columns))))
    widths = [max(len(part) for part in (*row.split(), *(cells[row] for cells in columns.values()))) for row in told]
    if sum(widths) + 3 * len(told) + NAME_WIDTH + 4 <= console.width:
        for row in told:
            table.add_column(row.replace(" ", "\n"), overflow="fold")
        for name, cells in columns.items():
            table.add_row(name, *(cells[row] for row in told))
        return table
    table.add_column("")
    table.add_column("")
    for name, cells in columns.items():
        for place, row in enumerate(told):
            table.add_row("" if place else name, row, cells[row], end_section=row == told[-1])
    return table


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
