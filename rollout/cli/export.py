"""`rollout export`, and `add_key.py` of AgentSkiller's rollout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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

if TYPE_CHECKING:
    from rollout.trajectories.selection import Selection

RESULT_FILES = (
    Path("./mt_single_domain_tool_call_thinking.jsonl"),
    Path("./mt_cross_domain_tool_call_thinking.jsonl"),
)

PerTurn = Annotated[
    bool, typer.Option("--per-turn", help="One record for each turn, its context as the model was sent it.")
]
DropReasoning = Annotated[bool, typer.Option("--drop-reasoning", help="Write no reasoning.")]
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="KEY=VALUE", help="Put this into every record (JSON, else text). May be repeated."),
]


def export(
    paths: Inputs,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="NAME",
            help="add_key, openai, sharegpt, trl, parquet, or your own as module:Name.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="What is written. Default: named as the format."),
    ] = None,
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
    per_turn: PerTurn = False,
    filters: UseFilters = False,
    drop_reasoning: DropReasoning = False,
    field: Fields = None,
    run: Runs = None,
) -> None:
    """Write trajectories as trainers read them, with system prompt and tools exactly as sent.

    Without --status, completed and truncated trajectories are taken.

    What was solved, for TRL, in two files:

        rollout export runs/default --format trl --success --split train=0.9,validation=0.1 -o data/portal

    Several runs together, without those in which the simulated user erred:

        rollout export runs/a runs/b --format sharegpt --without-mark user_fault:told_unknown_fact

    What people marked as good, and not as bad:

        rollout export runs/default --format trl --mark good --no-mark bad

    Without what `rollout filter` found:

        rollout export runs/default --format openai --filters

    A format of your own:

        rollout export outputs_single --format my_formats:Prompts -o prompts.jsonl
    """
    sys.exit(perform(**locals()))


def add_key(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Default: what add_label_single.py and add_label_cross.py wrote."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="What is written.")] = Path(
        "./add_key.jsonl"
    ),
    data_source: Annotated[str, typer.Option(help="The field of this name.")] = "agent",
    use_cot: Annotated[bool, typer.Option(help="The field of this name.")] = True,
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
    per_turn: PerTurn = False,
    filters: UseFilters = False,
    drop_reasoning: DropReasoning = False,
    field: Fields = None,
    run: Runs = None,
) -> None:
    """Write records that are ready to be tokenised: `rollout export --format add_key` in AgentSkiller's spelling.

    Each message has role, content, reasoning_content, tool_calls and tool_call_id; each record messages, id,
    data_source, use_cot and tools.
    """
    given = locals()
    fields = [f"data_source={_as_json(data_source)}", f"use_cot={_as_json(use_cot)}", *(field or ())]
    given |= {
        "paths": paths or [path for path in RESULT_FILES if path.is_file()],
        "field": fields,
        "format_": "add_key",
    }
    for name in ("data_source", "use_cot"):
        del given[name]
    sys.exit(perform(**given))


OLDER_OPTIONS = {"--failed": "--no-success"}
"""Earlier spellings, which are read and not shown."""
export.older_options = add_key.older_options = OLDER_OPTIONS  # type: ignore[attr-defined]


def perform(
    *,
    paths: Sequence[Path],
    format_: str,
    output: Path | None,
    split: str | None,
    split_seed: int,
    per_turn: bool,
    filters: bool,
    drop_reasoning: bool,
    field: Sequence[str] | None,
    run: Sequence[Path] | None,
    **wanted: Any,
) -> int:
    """Export what these paths mean; returns the exit code. The rest of the options choose trajectories."""
    from rollout.core.errors import ConfigError
    from rollout.pipelines.export import Wish, export_sources
    from rollout.pipelines.inputs import Prompts, find_sources
    from rollout.terminal.console import make_console
    from rollout.terminal.tally import show_tally
    from rollout.trajectories.exports.exporter import find_exporter
    from rollout.trajectories.merging import parse_splits

    console = make_console()
    if not paths:
        names = " and ".join(map(str, RESULT_FILES))
        raise ConfigError(f"nothing to read: {names} are not there; name what is to be exported")
    exporter = find_exporter(format_)
    selection = make_selection(**wanted)
    fields = dict(map(read_field, field or ()))
    if fields and exporter.suffix == ".parquet":
        raise ConfigError("--field: Parquet has fixed columns; choose a format that is written as JSON lines")
    splits = None if split is None else parse_splits(split, split_seed)
    wish = Wish(exporter, selection, splits, per_turn, drop_reasoning, fields, filters)
    name = f"{format_.rpartition(':')[2].lower()}{exporter.suffix}"
    out = Path(name) if output is None else output / name if output.is_dir() else output
    files = list(wish.files(out).values())
    sources = find_sources(paths, with_failed="failed" in selection.statuses, leave_out=files)
    tally = export_sources(sources, Prompts(run or ()), wish, out)
    return show_tally(console, f"exported as {format_}", tally)


def make_selection(
    *,
    status: Sequence[str] | None,
    success: bool | None,
    stop_reason: Sequence[str] | None,
    min_score: Sequence[str] | None,
    with_mark: Sequence[str] | None,
    without_mark: Sequence[str] | None,
    mark: Sequence[str] | None,
    no_mark: Sequence[str] | None,
    label: Sequence[str] | None,
    author: Sequence[str] | None,
) -> Selection:
    """The selection that the options ask for. Raises ConfigError on values that mean nothing."""
    from rollout.trajectories.person_marks import make_mark_selection
    from rollout.trajectories.selection import FINISHED, Selection
    from rollout.trajectories.stop import STATUSES, Status, StopReason

    return Selection(
        statuses=_words("--status", status, STATUSES, list(Status)) or FINISHED,
        success=success,
        stop_reasons=_words("--stop-reason", stop_reason, list(StopReason)),
        min_scores=tuple(map(_read_score, min_score or ())),
        with_marks=_words("--with-mark", with_mark),
        without_marks=_words("--without-mark", without_mark),
        people=make_mark_selection(mark or (), no_mark or (), label or (), author or ()),
    )


def _words(
    option: str, given: Sequence[str] | None, known: Sequence[str] | None = None, taken: Sequence[str] | None = None
) -> frozenset[str]:
    """The words of an option. `known`: those that there are. `taken`: those that are not refused, where these are
    more."""
    from rollout.core.errors import ConfigError

    words = frozenset(word.strip() for text in given or () for word in text.split(",") if word.strip())
    unknown = sorted(words.difference(taken or known)) if known is not None else []
    if unknown:
        raise ConfigError(f"{option}: there is no {', '.join(unknown)}; there are {', '.join(known or ())}")
    return words


def _read_score(text: str) -> tuple[str, float]:
    from rollout.core.errors import ConfigError

    name, _, value = text.rpartition("=")
    try:
        least = float(value)
    except ValueError:
        name = ""
    if not name:
        raise ConfigError(f"--min-score: {text!r} is not NAME=VALUE; expected such as state=1")
    return name, least


def read_field(text: str, option: str = "--field", such_as: str = "data_source=agent") -> tuple[str, Any]:
    """Read KEY=VALUE; the value is JSON, else text."""
    import msgspec

    from rollout.core.errors import ConfigError

    name, given, value = text.partition("=")
    if not name or not given:
        raise ConfigError(f"{option}: {text!r} is not KEY=VALUE; expected such as {such_as}")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return name, value


def _as_json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
