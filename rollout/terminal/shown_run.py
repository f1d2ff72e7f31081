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
from rollout.models.builtin.oracle import ORACLE
from rollout.pipelines.run import Opened, open_run
from rollout.terminal.console import make_console
from rollout.terminal.failures import FailureReport
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
    observers: Sequence[Observer] = (),
    is_called: bool = False,
) -> AsyncIterator[Opened]:
    """Open a run, with its progress on `console` where there is one. `warn` reports what must not be overlooked;
    further `observers` look on. `is_called`: from Python, where models are arguments and not options."""
    names = list(config.datasets) if datasets is None else list(datasets)
    users = [config.datasets[name].user for name in names]
    has_person = any(user is not None and user.kind == "person" for user in users)
    if has_person:
        config = config.model_copy(update={"max_workers": 1})
    looking: list[Observer] = [*observers]
    if config.verbose:
        printed = make_console(no_colors=not config.verbose_colors or (console is not None and console.no_color))
        looking.append(VerbosePrinter(printed, config.verbose_max_length))
    if config.cluster is not None and console is not None:
        where = "a Ray of its own" if config.cluster.address == "local" else f"the cluster ({config.cluster.address})"
        console.print(f"starting workers on {where} …", highlight=False)
    registry_file = None if config.models_config_file is None else str(config.models_config_file)
    failures = FailureReport(warn, registry_file)
    async with open_run(config, run_dir, datasets=names, resume=resume, observers=[*looking, failures]) as opened:
        for plan in opened.plans:
            for problem in plan.tasks.problems:
                warn(str(problem))
        if console is None:
            for old, new in opened.moved:
                warn(f"{old} was there already: moved to {new}")
            yield opened
            return
        for notice in [*_builtin_notices(opened, is_called), *_notices(opened)]:
            console.print(notice, highlight=False, soft_wrap=True)
        engine = opened.engine
        is_live = not config.verbose and not has_person
        ranks = opened.ranks.counts if opened.ranks is not None else None
        async with Display(console, engine.progress, engine.control, is_live=is_live, ranks=ranks, failures=failures):
            yield opened


def _builtin_notices(opened: Opened, is_called: bool) -> Iterator[str]:
    """Says where no language model is at work: what comes out shows the way, and is nothing to learn from."""
    agents = [plan.name for plan in opened.plans if plan.agent_name == ORACLE]
    users = [plan.name for plan in opened.plans if (plan.user_name or "").startswith("builtin")]
    if not agents:
        return
    where = "" if len(agents) == len(opened.plans) else f" of {', '.join(agents)}"
    if users:
        yield f"Agent and user{where} are built in, no language models."
    else:
        yield f"The agent{where} is built in, no language model."
    if is_called:
        options = 'model="openai/…"' + (', user="openai/…"' if users else "")
    else:
        options = "--agent-model openai/…" + (" --user-model openai/…" if users else "")
    yield f"For real data, name your own: {options}"


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
