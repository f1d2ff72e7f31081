"""A run that a person follows: what it prints when it opens, and its progress while it goes on.

`rollout run` and `rollout.run` open their runs here, so both follow the same rules. A person who plays the user talks
to one attempt at a time, and has the terminal to themselves; so do conversations that are printed as they happen.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from rollout.config.schema import Config
from rollout.engine.observer import Observer
from rollout.pipelines.run import Opened, open_run
from rollout.terminal.console import make_console
from rollout.terminal.progress import Display
from rollout.terminal.verbose import VerbosePrinter


@contextlib.asynccontextmanager
async def open_shown_run(
    config: Config,
    run_dir: Path,
    *,
    resume: bool,
    datasets: Sequence[str] | None = None,
    warn: Callable[[str], None],
    console: Console | None,
) -> AsyncIterator[Opened]:
    """Open a run, with its progress on `console` where there is one. `warn` reports what must not be overlooked."""
    names = list(config.datasets) if datasets is None else list(datasets)
    users = [config.datasets[name].user for name in names]
    has_person = any(user is not None and user.kind == "person" for user in users)
    if has_person:
        config = config.model_copy(update={"max_workers": 1})
    observers: list[Observer] = []
    if config.verbose:
        printed = make_console(no_colors=not config.verbose_colors or (console is not None and console.no_color))
        observers.append(VerbosePrinter(printed, config.verbose_max_length))
    if config.cluster is not None and console is not None:
        where = "a Ray of its own" if config.cluster.address == "local" else f"the cluster ({config.cluster.address})"
        console.print(f"starting workers on {where} …", highlight=False)
    async with open_run(config, run_dir, datasets=names, resume=resume, observers=observers) as opened:
        for plan in opened.plans:
            for problem in plan.tasks.problems:
                warn(str(problem))
        if console is None:
            for old, new in opened.moved:
                warn(f"{old} was there already: moved to {new}")
            yield opened
            return
        for notice in _notices(opened):
            console.print(notice, highlight=False, soft_wrap=True)
        engine = opened.engine
        is_live = not config.verbose and not has_person
        ranks = opened.ranks.counts if opened.ranks is not None else None
        async with Display(console, engine.progress, engine.control, is_live=is_live, ranks=ranks):
            yield opened


def _notices(opened: Opened) -> Iterator[str]:
    for old, new in opened.moved:
        yield f"{old} was there already: moved to {new}"
    progress = opened.engine.progress
    if progress.finished_before:
        yield f"resuming: {progress.finished_before} of {progress.total} trajectories are finished"
    if opened.ranks is not None:
        ranks = opened.ranks.counts()
        hosts = ", ".join(dict.fromkeys(rank.host for rank in ranks))
        yield f"{sum(rank.is_live for rank in ranks)} workers are ready: {hosts}"
