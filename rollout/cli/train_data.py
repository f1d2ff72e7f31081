"""`rollout train-data`: write training data out of finished runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rollout.cli.export import OLDER_OPTIONS, make_selection, read_field
from rollout.cli.options import (
    Inputs,
    MarkAuthors,
    MinScores,
    NoPersonMarks,
    PersonLabels,
    PersonMarks,
    Runs,
    Split,
    SplitSeed,
    Statuses,
    StopReasons,
    Success,
    UseFilters,
    WithMarks,
    WithoutMarks,
)
from rollout.trajectories.rows import BUILT_IN

FORMATS = ("parquet", "pt", "jsonl")


def train_data(
    paths: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder that is written to.")],
    form: Annotated[
        str, typer.Option(metavar="FORM", help=f"What a record is: {', '.join(BUILT_IN)}, or your own as module:Name.")
    ] = "prefix_merge",
    form_param: Annotated[
        list[str] | None,
        typer.Option("--form-param", metavar="KEY=VALUE", help="A parameter of the form. May be repeated."),
    ] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", metavar="FORMAT", help="parquet (default), pt, jsonl. May be repeated."),
    ] = None,
    reward: Annotated[
        str,
        typer.Option(
            help="recorded (by the run's own rule), success, scores, partial, score:NAME, partial:NAME, "
            "module:function.",
            metavar="RULE",
        ),
    ] = "recorded",
    advantage: Annotated[
        str, typer.Option(help="grpo, rloo, inter_intra, tree_rl, at2po, gigpo, or none.", metavar="ESTIMATOR")
    ] = "grpo",
    advantage_param: Annotated[
        list[str] | None,
        typer.Option("--advantage-param", metavar="KEY=VALUE", help="A parameter of the estimator. May be repeated."),
    ] = None,
    text: Annotated[
        bool | None, typer.Option("--text/--tokens", help="Messages, or token ids. Default: ids where there are some.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Makes token ids of text with this chat template; marked exact: false."),
    ] = None,
    images: Annotated[
        Literal["bytes", "paths"],
        typer.Option(help="What Parquet holds of images: the files themselves, or their paths in the run directory."),
    ] = "bytes",
    memory: Annotated[
        str | None, typer.Option(metavar="NAME", help="memory: who writes the prompts, module:function.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="memory: how many steps are remembered (3).", show_default=False),
    ] = None,
    best: Annotated[
        Literal["one", "all"] | None,
        typer.Option(help="sft: of each task the best (default), or all that solved it."),
    ] = None,
    pairs: Annotated[
        Literal["extremes", "all"] | None,
        typer.Option(help="preferences: best against worst (default), or every two."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="preferences: values must differ by more than this (0).")
    ] = None,
    above: Annotated[
        float | None, typer.Option(metavar="X", help="process: a step whose value is above this (0) is labelled true.")
    ] = None,
    filters: UseFilters = False,
    status: Statuses = None,
    success: Success = None,
    stop_reason: StopReasons = None,
    min_score: MinScores = None,
    with_mark: WithMarks = None,
    without_mark: WithoutMarks = None,
    mark: PersonMarks = None,
    no_mark: NoPersonMarks = None,
    label: PersonLabels = None,
    author: MarkAuthors = None,
    split: Split = None,
    split_seed: SplitSeed = 0,
    run: Runs = None,
) -> None:
    """Write training data out of finished runs.

    Without --status, completed and truncated trajectories are taken.

    Rows for reinforcement learning, with token ids, masks, logprobs and advantages:

        rollout train-data runs/portal -o data --advantage inter_intra

    The best attempt at each task, for supervised training with TRL:

        rollout train-data runs/portal -o data --form sft

    Pairs of answers to the same request, for DPO:

        rollout train-data runs/portal -o data --form preferences

    With the verdicts of people as rewards:

        rollout train-data runs/portal -o data --reward score:person

    A form of your own, with a parameter:

        rollout train-data runs/portal -o data --form my_forms:Prompts --form-param longest=500
    """
    sys.exit(perform(**locals()))


train_data.older_options = {  # type: ignore[attr-defined]
    **OLDER_OPTIONS,
    "--set": "--form-param",
    "--param": "--advantage-param",
}


def perform(
    *,
    paths: list[Path],
    output: Path,
    form: str,
    form_param: list[str] | None,
    format_: list[str] | None,
    reward: str,
    advantage: str,
    advantage_param: list[str] | None,
    text: bool | None,
    tokenizer: Path | None,
    images: str,
    filters: bool,
    split: str | None,
    split_seed: int,
    run: list[Path] | None,
    memory: str | None,
    last: int | None,
    best: str | None,
    pairs: str | None,
    margin: float | None,
    above: float | None,
    **wanted: Any,
) -> int:
    """Write what these paths mean; returns the exit code."""
    from rollout.core.errors import ConfigError
    from rollout.pipelines.inputs import Prompts, find_sources
    from rollout.pipelines.training.row_forms import make_form
    from rollout.pipelines.training.train_data import DataWish, write_training_data
    from rollout.terminal.console import make_console
    from rollout.terminal.tally import show_tally
    from rollout.trajectories.merging import parse_splits
    from rollout.trajectories.rows.form import TokenChoice
    from rollout.trajectories.rows.tokenising import ChatTokenizer

    console = make_console()
    formats = tuple(dict.fromkeys(format_ or ("parquet",)))
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ConfigError(f"--format: there is no {', '.join(unknown)}; there are {', '.join(FORMATS)}")
    options = {"memory": memory, "last": last, "best": best, "pairs": pairs, "margin": margin, "above": above}
    params = dict(read_field(entry, "--form-param", "last=3") for entry in form_param or ())
    chosen = make_form(form, params, options)
    if text and (tokenizer is not None or chosen.needs_ids):
        raise ConfigError("--text: a tree and a --tokenizer make token ids; leave one of the two out")
    chat = None if tokenizer is None else ChatTokenizer.read(tokenizer)
    wish = DataWish(
        form.rpartition(":")[2].lower(),
        lambda found: chosen.maker(TokenChoice(text, chat, found.ids, found.images, images == "bytes")),
        make_selection(**wanted),
        None if split is None else parse_splits(split, split_seed),
        formats,
        reward,
        advantage if chosen.has_advantages and advantage != "none" else None,
        dict(read_field(entry, "--advantage-param", "scale=none") for entry in advantage_param or ()),
        chosen.keeps_grown_on,
        filters,
    )
    sources = find_sources(paths, with_failed=True, leave_out=list(wish.files(output).values()))
    tally = write_training_data(sources, Prompts(run or ()), wish, output)
    return show_tally(console, f"training data: {form}", tally)
