"""`rollout filter`: mark what should not be learnt."""

from __future__ import annotations

import collections
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollout.cli.options import AsJson, NoColors, Runs

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.config.filters import Filters
    from rollout.config.schema import Config
    from rollout.pipelines.filter import FilteredInput
    from rollout.trajectories.filters.summary import FilterSummary

SHOWN_PROBLEMS = 5


def filter_run(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run directory, the name of a run below runs/, or a file of trajectories.",
            show_default=False,
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Its `filters`, instead of those of the run's own config."),
    ] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", "-f", metavar="NAME[=POLICY]", help="Only these; your own as module:Name. May be repeated."
        ),
    ] = None,
    off: Annotated[
        list[str] | None, typer.Option("--off", metavar="NAME", help="Without this filter. May be repeated.")
    ] = None,
    filter_param: Annotated[
        list[str] | None,
        typer.Option("--filter-param", metavar="NAME.KEY=VALUE", help="A parameter of a filter. May be repeated."),
    ] = None,
    counts_in_group: Annotated[
        bool | None,
        typer.Option(
            "--counts-in-group/--leaves-group", help="Whether what is dropped still counts in its group's statistics."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(metavar="N", min=0, help="Examples shown of each filter.")] = 2,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of RUN/filters.jsonl.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: AsJson = False,
    run: Runs = None,
    no_colors: NoColors = False,
) -> None:
    """Mark what should not be learnt, and say why. Trajectories are not changed; the marks lie beside them.

    What the filters find, as the run's config sets them:

        rollout filter runs/default

    Only two of them, more strictly, and nothing is written:

        rollout filter runs/default --dry-run --filter void_turns --filter repetition=drop_trajectory
        --filter-param repetition.n=3

    For training that compares the attempts at a task:

        rollout filter runs/default --filter-param constant_groups.policy=drop_trajectory

    Then `rollout export … --filters` does as the marks say.
    """
    from rollout.pipelines.filter import FilteredInput, filter_trajectories
    from rollout.pipelines.wiring.active_filters import FiltersByDataset
    from rollout.store.files.filter_file import write_records
    from rollout.store.run_dir import FILTERS
    from rollout.terminal.console import make_console
    from rollout.trajectories.filters.summary import FilterSummary

    console = make_console(no_colors)
    trajectories = FilteredInput(path, run or ())
    given = _config(config, trajectories.run_dir)
    filters = FiltersByDataset(given, _wished(given, filter_, off, filter_param, counts_in_group))
    summary = FilterSummary(filters.listed(), examples)
    target = output or (None if trajectories.run_dir is None else trajectories.run_dir / FILTERS)
    if dry_run:
        target = None
    records = filter_trajectories(trajectories, filters, summary, None if target is None else target.parent)
    if target is None:
        collections.deque(records, maxlen=0)
    else:
        write_records(target, records)
    if as_json:
        _print_json(summary, trajectories, target)
    else:
        _show(console, summary, trajectories, target)
    sys.exit(1 if trajectories.unreadable else 0)


filter_run.older_options = {"--set": "--filter-param"}  # type: ignore[attr-defined]


def _config(path: Path | None, run_dir: Path | None) -> Config:
    from rollout.config.load import load_config
    from rollout.config.schema import Config
    from rollout.pipelines.saved_config import saved_config

    if path is not None:
        return load_config(path)
    return Config() if run_dir is None else saved_config(run_dir)


def _wished(
    config: Config,
    only: Sequence[str] | None,
    off: Sequence[str] | None,
    filter_param: Sequence[str] | None,
    counts_in_group: bool | None,
) -> Filters:
    """What the options ask for. Raises ConfigError."""
    from rollout.config.filters import Filters, filter_problems
    from rollout.config.load import validate
    from rollout.config.problems import list_problems
    from rollout.core.errors import ConfigError
    from rollout.pipelines.wiring.active_filters import named_filters

    wished: dict[str, Any] = {}
    if only:
        named = [entry.partition("=") for entry in only]
        wished = {name: {"enabled": False} for name in named_filters(config)}
        for name, _, policy in named:
            wished[_known(name, "--filter")] = {"enabled": True, **({"policy": policy} if policy else {})}
    for name in off or ():
        wished.setdefault(_known(name, "--off"), {})["enabled"] = False
    for entry in filter_param or ():
        name, key, value = _read_setting(entry)
        wished.setdefault(_known(name, "--filter-param"), {})[key] = value
    if counts_in_group is not None:
        wished["counts_in_group"] = counts_in_group
    filters = validate(wished, Filters, "the options")
    problems = filter_problems(filters)
    if problems:
        raise ConfigError(list_problems("the options", problems))
    return filters


def _known(name: str, option: str) -> str:
    from rollout.config.filters import filter_names
    from rollout.core.errors import ConfigError
    from rollout.core.plugins import is_reference

    names = filter_names()
    if name not in names and not is_reference(name):
        raise ConfigError(f"{option}: there is no filter {name!r}; there are {', '.join(names)}")
    return name


def _read_setting(text: str) -> tuple[str, str, Any]:
    import yaml

    from rollout.core.errors import ConfigError

    where, given, value = text.partition("=")
    name, dot, key = where.rpartition(".")
    if not (given and dot and name and key):
        raise ConfigError(f"--filter-param: {text!r} is not NAME.KEY=VALUE; expected such as repetition.ratio=0.4")
    try:
        return name, key, yaml.safe_load(value)
    except yaml.YAMLError:
        return name, key, value


def _print_json(summary: FilterSummary, trajectories: FilteredInput, target: Path | None) -> None:
    from rollout.terminal.console import print_json

    document = {
        **summary.to_json(),
        "without_prompt": trajectories.without_prompt,
        "unreadable": trajectories.unreadable,
        "file": None if target is None else str(target),
    }
    print_json(document)


def _show(console: Console, summary: FilterSummary, trajectories: FilteredInput, target: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from rollout.trajectories.filters.marks import VERDICTS

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    found = Table(title="what the filters found", title_justify="left", title_style="bold")
    found.add_column("filter")
    found.add_column("policy")
    for column in ("trajectories", "turns", "decided"):
        found.add_column(column, justify="right")
    for count in summary.filters.values():
        cells = [count.trajectories, count.turns, count.decided]
        found.add_row(count.filter, count.policy, *(str(cell) if cell else "–" for cell in cells))
    console.print(found)
    left = Table(title="what is left", title_justify="left", title_style="bold")
    left.add_column("status")
    for column in ("read", "kept", "masked", "truncated", "dropped"):
        left.add_column(column, justify="right")
    rows = {**{status: dict(counts) for status, counts in sorted(summary.verdicts.items())}}
    rows["all"] = {verdict: summary.of(verdict) for verdict in VERDICTS}
    for status, counts in rows.items():
        numbers = [counts.get(verdict, 0) for verdict in ("keep", "mask", "truncate", "drop")]
        left.add_row(status, str(sum(numbers)), *map(str, numbers))
    console.print(left)
    groups, groups_left = summary.groups
    say(
        f"{summary.turns} turns, {summary.masked_turns} masked; {groups} groups, {groups_left} left; "
        f"{summary.counting} trajectories count in their groups"
    )
    for count in summary.filters.values():
        for example in count.examples:
            where = example.id if example.turn is None else f"{example.id} turn {example.turn}"
            line = Text.assemble((count.filter, "bold"), f"  {where}: {example.reason}")
            if example.evidence:
                line.append(f": {example.evidence}", "dim")
            console.print(line, highlight=False, soft_wrap=True)
    if trajectories.without_prompt:
        say(f"{trajectories.without_prompt} without a known system prompt: pieces of it were not looked for")
    for problem in trajectories.unreadable[:SHOWN_PROBLEMS]:
        say(f"cannot be read: {problem}")
    if len(trajectories.unreadable) > SHOWN_PROBLEMS:
        say(f"and {len(trajectories.unreadable) - SHOWN_PROBLEMS} more that cannot be read")
    if target is not None:
        say(f"marks: {target}")
