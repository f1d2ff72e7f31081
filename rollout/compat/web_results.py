"""An iteration of `rollout web`: what is prepared and written before it runs, and what is saved of it afterwards.

The command and `rollout.compat.web` both run the configuration that `open_iteration` gives them, and then `conclude`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rollout.compat.rank_files import ranks_of_run, save_rank_files
from rollout.config import Config
from rollout.config.compose import Composed
from rollout.config.web import WebConfig
from rollout.config.web_run import translate
from rollout.core.errors import ConfigError
from rollout.core.secrets import redact
from rollout.pipelines import web_iterations as iterations
from rollout.pipelines.web_iterations import Iteration, Sample
from rollout.pipelines.web_saving import save_iteration
from rollout.tasks.sampling import WebTaskFile


class OpenedIteration(msgspec.Struct, frozen=True):
    """An iteration that is ready to run."""

    iteration: Iteration
    run: Config
    """What the engine is to run."""
    sample: Sample | None
    """The tasks that were drawn for it; None where it was begun before and is resumed."""
    notes: tuple[str, ...]
    """What a person should know, such as what differs from the command that began it."""


@contextlib.contextmanager
def open_iteration(job: Composed, *, tasks: Path | None = None, dry_run: bool = False) -> Iterator[OpenedIteration]:
    """Choose the iteration that a configuration leads to, draw its sample, and write both down.

    `tasks` is a file of tasks to take as they are instead of a sample. A dry run writes nothing. Where the run is
    refused inside the block (ConfigError), the sample is withdrawn.
    """
    config = job.config
    now = datetime.now(UTC)
    if not dry_run:
        iterations.learn(config, now)
    iteration, is_begun = iterations.choose_iteration(config)
    sample, changes = None, list[str]()
    if not is_begun:
        sample = iterations.draw_sample(config, iteration, now, tasks)
    elif tasks is not None and set(WebTaskFile(tasks).ids) != set(WebTaskFile(iteration.paths.tasks).ids):
        raise ConfigError(
            f"tasks: iteration {iteration.number} of {config.split} in {config.save_path} is not finished and has "
            "other tasks; pass the same tasks to resume it, or resume=False to begin the next one"
        )
    if is_begun and (mark := iteration.mark()) is not None:
        changes = iterations.describe_changes(config, mark)
    with tempfile.TemporaryDirectory() as scratch:
        paths = iteration.paths
        if sample is not None and dry_run:
            paths = msgspec.structs.replace(paths, tasks=Path(scratch) / "tasks.jsonl")
            paths.tasks.write_bytes(sample.lines)
        translated = translate(config, iteration.number, paths)
        if not dry_run:
            _begin(config, iteration, sample, job.tree)
        try:
            yield OpenedIteration(iteration, translated.config, sample, (*changes, *translated.notes))
        except ConfigError:
            # A command that is refused leaves no sample that the corrected one would have to take.
            if sample is not None and not dry_run:
                iteration.withdraw()
            raise


def _begin(config: WebConfig, iteration: Iteration, sample: Sample | None, tree: dict[str, Any]) -> None:
    """Write down what is about to run."""
    try:
        if sample is not None:
            iteration.begin(sample)
        _append_hyperparameters(config.save_path, iteration, tree)
    except OSError as error:
        raise ConfigError(f"save_path: {config.save_path} cannot be used: {error.strerror or error}") from error


def conclude(config: WebConfig, iteration: Iteration, run: Config, *, is_over: bool) -> Iterator[str]:
    """Save what came out and learn which sites are blocked; each step as a line for the user. An iteration that is over
    is marked so, last of all."""
    dataset = run.datasets[config.split]
    judge = dataset.scoring.judge
    metadata: dict[str, Any] = {
        "solution_model": dataset.agent.model,
        "judge_model": None if judge is None else run.models[judge].model,
        "dataset_file": config.tasks_path.name,
        "server_size": config.env_config.server_size,
        "max_steps": {str(level): config.max_steps_of(level) for level in (1, 4, 7)},
    }
    paths = iteration.paths
    ranks = ranks_of_run(paths.run_dir)
    if ranks:
        metadata["num_ranks_aggregated"] = len(set(ranks.values()))
    saved = save_iteration(paths.run_dir, iteration.folder, config.split, iteration.number, metadata)
    for path in saved.files:
        yield f"saved: {path}"
    yield from saved.notes
    if ranks:
        yield from _save_ranks(config, paths.run_dir, saved.files[0], ranks, metadata)
    now = datetime.now(UTC)
    blocked = iterations.learn(config, now)
    if blocked:
        domains = ", ".join(sorted({entry.domain for entry in blocked}))
        yield f"blocked sites, left out of training for {config.blocklist_hours:g} h: {domains}"
    if failed := iterations.sites_unreachable(iteration):
        yield f"sites whose start page could not be shown: {', '.join(failed)}"
    if is_over:
        iteration.finish(config)


def _save_ranks(
    config: WebConfig,
    run_dir: Path,
    whole: Path,
    ranks: dict[tuple[str, str], int],
    metadata: dict[str, Any],
) -> Iterator[str]:
    """Write the files of single ranks; where they are not wanted they go, now that the file of all was checked."""
    cluster = config.on_cluster
    expected = len(cluster.rank_weights or ()) if cluster is not None else 0
    saved = save_rank_files(run_dir, whole, ranks, metadata, max(expected, max(ranks.values()) + 1))
    yield from saved.notes
    for path in saved.files:
        if config.keep_rank_files:
            yield f"saved: {path}"
        else:
            path.unlink()


def _append_hyperparameters(save_path: Path, iteration: Iteration, tree: dict[str, Any]) -> None:
    """Add the configuration to what the experiment was run with before, without secrets."""
    at = datetime.now().astimezone().isoformat("T", "seconds")
    with (save_path / "hyperparameters.yaml").open("a", encoding="utf-8") as file:
        file.write(f"---\n# {iteration.split}, iteration {iteration.number}, {at}\n{as_yaml(tree)}")


def as_yaml(tree: dict[str, Any]) -> str:
    """A configuration as text, without secrets."""
    return redact(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000))
