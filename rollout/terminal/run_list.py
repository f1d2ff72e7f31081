"""The list of runs on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.pipelines.runs.listing import ListedRun, RunList
from rollout.terminal.figures import day_and_time, dollars, per_cent, short_number

_STATE_STYLES = {"running": "bold cyan", "finished": "", "unfinished": "yellow", "damaged": "bold red"}


def show_run_list(console: Console, found: RunList) -> None:
    """Print the runs, newest first, and what cannot be read of them."""
    if not found.runs:
        text = f"{found.folder}: there is no run; `rollout run default` makes one"
        console.print(text, highlight=False, soft_wrap=True)
    else:
        console.print(_table(found))
    for run in found.runs:
        if run.problem is not None:
            console.print(Text.assemble((f"{run.name}: ", "bold red"), run.problem), highlight=False)
    if found.moved_aside:
        count = len(found.moved_aside)
        where = "" if str(found.folder) == "runs" else f" {found.folder}"
        runs, it = ("run", "it") if count == 1 else ("runs", "them")
        text = f"{count} old {runs} moved aside; rollout clean{where} removes {it}"
        console.print(text, style="dim", highlight=False, soft_wrap=True)


def _table(found: RunList) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("run", overflow="fold", min_width=8)
    table.add_column("started", no_wrap=True)
    has_other_configs = any(_config_of(run) for run in found.runs)
    if has_other_configs:
        table.add_column("config", overflow="fold")
    table.add_column("model", overflow="fold", min_width=8)
    table.add_column("progress", overflow="fold", min_width=10)
    table.add_column("solved", justify="right", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    for run in found.runs:
        cells = [run.name, day_and_time(run.started)]
        cells += [_config_of(run)] if has_other_configs else []
        cells += [", ".join(run.models) or "–"]
        solved = f"{run.solved} {per_cent(run.solved_rate):>4}" if run.scored else "–"
        table.add_row(*cells, _progress(run), solved, dollars(run.cost))
    return table


def _config_of(run: ListedRun) -> str:
    """The name of its configuration, unless the run is called so itself."""
    name = run.config or ""
    return "" if name in run.name.split("/") else name


def _progress(run: ListedRun) -> Text:
    if run.state == "damaged":
        return Text("damaged", _STATE_STYLES["damaged"])
    text = Text(f"{run.finished}/{'?' if run.planned is None else run.planned}")
    if run.state != "finished":
        text.append(f" {run.state}", _STATE_STYLES[run.state])
    if run.failed:
        text.append(f", {short_number(run.failed)} failed", "red")
    return text
