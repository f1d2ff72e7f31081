"""Progress of a run: one live line block on a terminal, a plain line now and then anywhere else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from rich.box import HEAVY_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollout.distributed.rank_counts import RankCounts
from rollout.engine.control import Control
from rollout.engine.observer import Progress
from rollout.terminal.failures import FailureReport

REFRESH_SECONDS = 0.5
LOG_SECONDS = 30.0
MOST_CAUSES = 3
"""Causes of failure that are shown while a run goes."""
MOST_RANKS = 16
"""So many ranks are shown as they go; at the end all are."""


class Display:
    """Shows the progress while its `async with` block lasts."""

    def __init__(
        self,
        console: Console,
        progress: Progress,
        control: Control,
        *,
        is_live: bool,
        ranks: Callable[[], Sequence[RankCounts]] | None = None,
        failures: FailureReport | None = None,
    ) -> None:
        self._console = console
        self._progress = progress
        self._control = control
        self._failures = failures
        self._ranks = ranks or (lambda: ())
        self._is_live = is_live and (console.is_terminal or console.is_jupyter) and not console.no_color
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Display:
        self._task = asyncio.get_running_loop().create_task(self._show_live() if self._is_live else self._show_plain())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _show_live(self) -> None:
        with Live(self._block(), console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                await asyncio.sleep(REFRESH_SECONDS)
                live.update(self._block(), refresh=True)

    async def _show_plain(self) -> None:
        while True:
            await asyncio.sleep(LOG_SECONDS)
            counts, rates = _counts(self._progress), _rates(self._progress)
            lines = [f"{time.strftime('%H:%M:%S')} {counts}", f"         {rates}"]
            lines += [f"         {describe_rank(rank)}" for rank in self._ranks()]
            for line in lines:
                self._console.print(Text(line), overflow="ellipsis", no_wrap=True, highlight=False)

    def _block(self) -> Group:
        progress = self._progress
        finished = progress.finished_before + progress.done + progress.failed
        grid = Table.grid(padding=(0, 1))
        state = Text("pausing", "yellow") if self._control.is_pausing else Text("rolling out", "bold")
        width = max(10, min(40, self._console.width - 40))
        bar = ProgressBar(total=max(1, progress.total), completed=finished, width=width)
        grid.add_row(state, bar, f"{finished}/{progress.total}")
        # Two short lines: a long one would wrap when the terminal echoes ^C into it, and leave its head standing.
        texts = [_counts(progress), _rates(progress)]
        lines = [Text(text, "dim", no_wrap=True, overflow="ellipsis") for text in texts]
        causes = self._failures.lines() if self._failures is not None else []
        lines += [Text(f"failed {cause}", "red", no_wrap=True, overflow="ellipsis") for cause in causes[:MOST_CAUSES]]
        ranks = list(self._ranks())
        return Group(grid, *lines, *([rank_table(ranks[:MOST_RANKS])] if ranks else []))


def describe_rank(rank: RankCounts) -> str:
    """A rank in one line, for a log."""
    return ", ".join(f"{name} {value}" for name, value in rank.cells().items())


def rank_table(ranks: Sequence[RankCounts], title: str | None = None) -> Table:
    """What each rank has done."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None if title is None else HEAVY_HEAD)
    for name in ranks[0].cells():
        table.add_column(name, style="dim" if title is None else None)
    for rank in ranks:
        table.add_row(*rank.cells().values())
    return table


def _counts(progress: Progress) -> str:
    rate = f"{progress.succeeded / progress.done:.0%}" if progress.done else "–"
    return (
        f"done {progress.finished_before + progress.done}/{progress.total} · running {progress.running} · "
        f"failed {progress.failed} · retries {progress.retries} · success {rate}"
    )


def _rates(progress: Progress) -> str:
    return (
        f"{progress.turns / progress.elapsed:.1f} turns/s · {progress.tokens / progress.elapsed:.0f} tokens/s · "
        f"cost ${progress.cost:.4f} · ETA {_clock(progress.remaining)}"
    )


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
