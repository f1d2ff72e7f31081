"""The options that several commands share: one word, one meaning, one help text in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# What is read.
ConfigPath = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help="A YAML file, or the name of a shipped one: default.", show_default=False),
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run directory, or the name of a run below runs/.", show_default=False),
]
Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH", help="Run directories or names of runs, output folders, JSONL files.", show_default=False
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Option("--run", metavar="DIR", help="A run directory to look for prompts in. May be repeated."),
]

# What of a configuration is run, and what of it is changed for one command.
DatasetNames = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", metavar="NAME", help="Only this dataset. May be repeated.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N tasks of each dataset.")
]
Samples = Annotated[
    int | None, typer.Option("--samples", metavar="N", min=1, help="Attempts at each task.", show_default=False)
]
AgentModel = Annotated[
    str | None, typer.Option("--agent-model", metavar="NAME", help="Who acts, in every dataset.", show_default=True)
]
UserModel = Annotated[
    str | None,
    typer.Option("--user-model", metavar="NAME", help="Whom the agent talks to, in every dataset.", show_default=True),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME", help="Explore every task by this strategy, with its default parameters."
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Spread the run over a Ray cluster: auto (the one of this machine), local (one of its own), ray://…",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other key of the YAML, with dots; datasets.* is every dataset. May be repeated.",
    ),
]

# Where results go.
OutputFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="The folder of the run and its trajectories. Default: what the config says.",
    ),
]

# How it is run and shown.
Resume = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        "-r",
        help="Go on where the last run stopped, or move it aside and start again. Default: what the config says.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the conversations as they happen.")]
NoColors = Annotated[bool, typer.Option("--no-colors", help="No colours, no live display.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything that can be wrong, print what would run, run nothing.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# Which trajectories are chosen.
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only of this status. May be repeated."),
]
Success = Annotated[
    bool | None,
    typer.Option("--success/--no-success", help="Only those that succeeded, or only those that did not."),
]
StopReasons = Annotated[
    list[str] | None, typer.Option("--stop-reason", metavar="REASON", help="Only these. May be repeated.")
]
MinScores = Annotated[
    list[str] | None,
    typer.Option("--min-score", metavar="NAME=VALUE", help="Only with at least this score. May be repeated."),
]
WithMarks = Annotated[
    list[str] | None, typer.Option("--with-mark", metavar="MARK", help="Only with this mark. May be repeated.")
]
WithoutMarks = Annotated[
    list[str] | None, typer.Option("--without-mark", metavar="MARK", help="Only without it. May be repeated.")
]
PersonMarks = Annotated[
    list[str] | None,
    typer.Option(
        "--mark",
        metavar="KIND",
        help="Only what people marked so: good, bad, note, label, verdict. May be repeated: one of these.",
    ),
]
NoPersonMarks = Annotated[
    list[str] | None,
    typer.Option("--no-mark", metavar="KIND", help="Only what people did not mark so. May be repeated."),
]
PersonLabels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME", help="Only with this label of a person. May be repeated: one of these."),
]
MarkAuthors = Annotated[
    list[str] | None,
    typer.Option("--author", metavar="NAME", help="Only marks of this person count. May be repeated: one of these."),
]
UseFilters = Annotated[
    bool, typer.Option("--filters", help="Drop, truncate and mask as `rollout filter` marked the run.")
]
Split = Annotated[
    str | None, typer.Option(metavar="NAME=SHARE,…", help="Several files, by task, such as train=0.9,test=0.1.")
]
SplitSeed = Annotated[int, typer.Option(metavar="N", min=0, help="Another seed, another split.")]
