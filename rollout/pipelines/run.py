"""A run on disk: opening a run directory, going on with what is there, and saying at the end what came out.

`resume` goes on in the directory as it is, after checking that it is the same run. Without it, whatever is there (the
directory and the output files) is moved aside first; nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollout.config.exploring import Dynamic
from rollout.config.schema import Config
from rollout.core import plugins
from rollout.core.errors import ConfigError, JournalError
from rollout.distributed.rank_counts import RankCounts
from rollout.engine.control import Control
from rollout.engine.engine import Engine
from rollout.engine.episode import Episode
from rollout.engine.observer import Observer
from rollout.engine.plan import Plan
from rollout.models.registry import Registry
from rollout.pipelines.identity import encoded_identity, identity_key, refuse_other_run
from rollout.pipelines.recorded_defaults import with_recorded_defaults
from rollout.pipelines.summary import DynamicSummary, Summary, summarize
from rollout.pipelines.wiring.datasets import open_plans
from rollout.pipelines.wiring.measures import measure_dataset, measured
from rollout.store.blobs import writing
from rollout.store.files.output_files import locked_outputs, move_aside, open_output, output_problems
from rollout.store.files.result_files import write_failed, write_metrics
from rollout.store.files.run_file import RecordedTasks, write_run_file
from rollout.store.journal import Journal, open_journal
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import LOGS, RUN_FILE, find_run, lock_run
from rollout.trajectories.causes import Causes
from rollout.trajectories.line import Failed

if TYPE_CHECKING:
    from rollout.distributed.link import Machines
    from rollout.distributed.ranks import Ranks

log = logging.getLogger(__name__)
MEASURED_WITHIN = 2.0
"""Seconds for the figures of a dataset where the run was paused: the user who pressed Ctrl-C waits for them."""


class Opened(msgspec.Struct):
    """What a caller gets: the engine to run, and where things lie."""

    engine: Engine
    plans: list[Plan]
    run_dir: Path
    moved: list[tuple[Path, Path]]
    """What was moved aside: old name, new name."""
    repaired_outputs: int = 0
    """Lines of output files that were completed from the journal."""
    ranks: Ranks | None = None
    """The workers, where the run is on a cluster."""
    summary: Summary | None = None
    """What came out; there once the run is left."""
    registry_file: str | None = None
    """The file of the models registry, for messages that say where to look."""


def run_dir_of(config: Config, config_path: Path) -> Path:
    """The run directory of a configuration."""
    if config.run_dir is not None:
        return config.run_dir
    return (config.checkpoint_dir or Path("runs")) / config_path.stem


@contextlib.asynccontextmanager
async def open_run(
    config: Config,
    run_dir: Path,
    *,
    datasets: Sequence[str] | None = None,
    resume: bool,
    observers: Sequence[Observer] = (),
    machines: Machines | None = None,
) -> AsyncIterator[Opened]:
    """Make everything ready to run, let go of everything on leaving. Run `engine` inside, read `summary` after. Where
    the configuration has a cluster, `machines` replace Ray's."""
    names = list(config.datasets) if datasets is None else list(datasets)
    if resume:
        config = with_recorded_defaults(config, names, run_dir)
    moved: list[tuple[Path, Path]] = []
    async with (
        Registry(
            config.models,
            timeouts=config.timeouts,
            retries=config.retries,
            local=config.local,
            log_dir=run_dir / LOGS,
        ) as registry,
        open_plans(config, names, registry, makes_worlds=config.cluster is None) as plans,
        contextlib.AsyncExitStack() as held,
    ):
        files = {plan.name: (plan.output_path, plan.tasks.paths) for plan in plans}
        for name, problem in output_problems(files):
            raise ConfigError(f"datasets.{name}.output_path: {problem}")
        if not resume:
            moved = _start_anew(run_dir, plans)
        journal = open_journal(run_dir, sync=config.journal_sync, keep_nodes=config.use_checkpoints)
        held.push_async_callback(journal.close)
        ranks: Ranks | None = None
        _check_identity(journal, plans, run_dir)
        repaired = sum(journal.attach(plan.name, open_output(plan.output_path)) for plan in plans)
        with writing(run_dir):
            for plan in plans:
                journal.keep_blob(plan.prompt(plan.toolset))
            _write_run_file(run_dir, config, plans)
        _record_planned(journal, plans)
        control = Control(config.max_cost)
        if config.cluster is not None:
            from rollout.distributed.opening import open_ranks

            # Ended before the journal is: what they still send has to be written down.
            ranks = await held.enter_async_context(
                open_ranks(config, names, journal, control, registry, open_plans, machines)
            )
        engine = Engine(
            plans,
            journal,
            max_workers=config.max_workers,
            control=control,
            grace=config.timeouts.grace,
            tail=config.tail,
            dynamic=config.dynamic,
            observers=observers,
            open_episode=Episode if ranks is None else ranks.open_episode,
        )
        if ranks is not None:
            ranks.divide(engine.progress.total - engine.progress.finished_before)
        engine.control.cost = sum(count.sums.cost for count in journal.counts()) + journal.uncounted_cost()
        if config.max_cost is not None and engine.control.cost >= config.max_cost:
            control.charge(0.0)
        registry_file = None if config.models_config_file is None else str(config.models_config_file)
        opened = Opened(engine, plans, run_dir, moved, repaired, ranks, registry_file=registry_file)
        yield opened
        await journal.flush()
        journal.look_at_files()
        if not (run_dir / RUN_FILE).exists():
            # The whole directory was taken away: nothing is to be made in its place.
            journal.refuse_if_gone()
        with writing(run_dir):
            opened.summary = finish_files(
                journal,
                plans,
                run_dir,
                engine.not_needed(),
                () if ranks is None else ranks.counts(),
                config.dynamic,
                seconds=MEASURED_WITHIN if control.is_pausing else math.inf,
            )
        journal.refuse_if_gone()
        if config.dynamic is not None and engine.control.reason is None:
            _warn_of_few_groups(opened.summary, config.dynamic)


def _start_anew(run_dir: Path, plans: Sequence[Plan]) -> list[tuple[Path, Path]]:
    """Move an earlier run and its outputs aside, unless it is running, holds other datasets, or is no run of ours. The
    locks of all that is moved are held over it: nothing is moved away under a run that writes it."""
    moved = []
    with contextlib.ExitStack() as held:
        held.enter_context(locked_outputs(plan.output_path for plan in plans))
        paths = [plan.output_path for plan in plans]
        if run_dir.exists():
            if not run_dir.is_dir() or (any(run_dir.iterdir()) and find_run(run_dir) != run_dir):
                raise JournalError(f"run_dir: {run_dir} is there and is not a run directory; choose another run_dir")
            held.callback(os.close, lock_run(run_dir))
            others = sorted(set(_datasets_in(run_dir)) - {plan.name for plan in plans})
            if others:
                raise JournalError(
                    f"{run_dir}: also holds {', '.join(others)}, which would be moved aside too; start all its "
                    "datasets again, or give these another run_dir"
                )
            paths = [run_dir, *paths]
        for path in paths:
            try:
                aside = move_aside(path)
            except OSError as error:
                raise JournalError(f"{path}: cannot be moved aside: {error.strerror or error}") from error
            if aside is not None:
                moved.append((path, aside))
    return moved


def _datasets_in(run_dir: Path) -> list[str]:
    with contextlib.suppress(JournalError), open_reader(run_dir) as reader:
        return reader.datasets()
    return []


def finish_files(
    journal: Journal,
    plans: Sequence[Plan],
    run_dir: Path,
    not_needed: Mapping[str, int] | None = None,
    ranks: Sequence[RankCounts] = (),
    dynamic: Dynamic | None = None,
    *,
    seconds: float = math.inf,
) -> Summary:
    """Write what is a view of the whole journal: the failed trajectories and the summary.

    `not_needed`: trajectories of each dataset that are no longer needed. `ranks`: what each rank of a cluster did
    in this command. `dynamic`: how this command chose its tasks, where it did not open all of them. `seconds`: how long
    measuring a dataset may take; what takes longer is left for the command that goes on.
    """
    _record_planned(journal, plans)
    for plan in plans:
        journal.set_meta(f"not_needed:{plan.name}", str((not_needed or {}).get(plan.name, 0)))
        if not measure_dataset(journal, plan.name, plan.tasks, plan.measures, seconds):
            log.warning(
                "%s: paused before the figures of this dataset were computed; metrics.json keeps those of the last "
                "command that finished, and resuming the run to its end computes them",
                plan.name,
            )
    names = dict.fromkeys([plan.name for plan in plans] + journal.datasets())
    planned = {name: journal.number(f"planned:{name}") for name in names}
    write_failed(run_dir, journal, planned)
    spared = {name: journal.number(f"not_needed:{name}") for name in names}
    groups = {name: journal.groups_by_task(name).values() for name in planned}
    again = {name: journal.begun_anew(name) for name in planned}
    summary = summarize(journal.counts(), planned, groups, spared, again, journal.passed_but_truncated())
    summary.measured = measured(journal, names)
    summary.ranks = list(ranks)
    summary.failures = Causes(head.error for name in planned for head in journal.failed_heads(name)).listed()
    if summary.total.unscored:
        summary.unscored = Causes(Failed("unscored", reason) for reason in journal.unscored_reasons()).listed()
    if dynamic is not None:
        useful = sum(summary.datasets[plan.name].useful_groups for plan in plans)
        opened = sum(len(journal.begun_tasks(plan.name)) for plan in plans)
        summary.dynamic = DynamicSummary(dynamic.groups, useful, opened)
    write_metrics(run_dir, summary.to_json())
    return summary


def _record_planned(journal: Journal, plans: Sequence[Plan]) -> None:
    """Record how many trajectories of each dataset there will be, for commands that look at the run meanwhile."""
    for plan in plans:
        # Trajectories of tasks that were removed since are finished or failed all the same.
        journal.set_meta(f"planned:{plan.name}", str(len(plan.wanted_ids() | journal.recorded_ids(plan.name))))


def _warn_of_few_groups(summary: Summary, rule: Dynamic) -> None:
    """Say that dynamic sampling ended without the groups that it was to find."""
    found = summary.dynamic
    if found is None or not found.is_short:
        return
    is_capped = rule.max_tasks is not None and found.opened_tasks >= rule.max_tasks
    why, advice = ("dynamic.max_tasks", "raise it") if is_capped else ("all there are", "add tasks")
    log.warning(
        "dynamic: only %d of the %d wanted groups are useful after %d tasks (%s); %s, or attempt each task more often",
        found.useful_groups,
        found.wanted_groups,
        found.opened_tasks,
        why,
        advice,
    )


def _check_identity(journal: Journal, plans: Sequence[Plan], run_dir: Path) -> None:
    """A resumed run must be the same run; a new one says what it is."""
    for plan in plans:
        if not refuse_other_run(journal, plan, run_dir):
            facts = {identity_key(plan): encoded_identity(plan), f"output:{plan.name}": str(plan.output_path.resolve())}
            journal.set_facts(facts)


def _write_run_file(run_dir: Path, config: Config, plans: Sequence[Plan]) -> None:
    write_run_file(
        run_dir,
        seed=config.seed,
        datasets={
            plan.name: RecordedTasks([str(path) for path in plan.tasks.paths], plan.tasks.fingerprint) for plan in plans
        },
        # Secrets are masked by their type.
        config=config.model_dump(mode="json"),
        modules=plugins.folders(),
        folder=os.getcwd(),
    )
