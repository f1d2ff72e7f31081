"""`rollout cross`: every cross-domain combination of a dataset folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import batch as b
from rollout.cli import options as o
from rollout.compat import batch as defaults
from rollout.config.schema import MAX_TURNS


def cross(
    all_: b.All = False,
    domains: b.Domains = None,
    list_: b.List = False,
    generate_configs: b.Generate = False,
    merge_queries: Annotated[
        bool, typer.Option("--merge-queries", help="Merge the query files of each combination; run nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="With --merge-queries: replace merged files.")] = False,
    min_domains: Annotated[
        int, typer.Option(metavar="N", min=1, help="Only combinations of at least this many domains.")
    ] = 2,
    require_policy: Annotated[bool, typer.Option("--require-policy", help="Only combinations with a policy.")] = False,
    max_combinations: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N combinations.")
    ] = None,
    agent_model: o.AgentModel = defaults.AGENT_MODEL,
    user_model: o.UserModel = defaults.USER_MODEL,
    models_config: b.ModelsConfig = defaults.MODELS_CONFIG,
    base_path: b.BasePath = None,
    query_dir: b.QueryDir = None,
    policy_dir: b.PolicyDir = None,
    output_dir: b.OutputFolder = Path("outputs_cross"),
    config_output_dir: b.ConfigOutput = Path("configs/generated"),
    max_turns: b.MaxTurns = MAX_TURNS,
    max_steps_per_turn: Annotated[int, typer.Option(metavar="N", min=1)] = 20,
    agent_temperature: b.AgentTemperature = 0.7,
    user_temperature: b.UserTemperature = 1.0,
    no_thinking: b.NoThinking = False,
    max_workers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Live conversations, over all combinations.")
    ] = 16,
    limit: o.Limit = None,
    samples: o.Samples = 1,
    seed: b.Seed = 0,
    set_: o.Settings = None,
    resume: o.Resume = None,
    quiet: b.Quiet = False,
    verbose: o.Verbose = False,
    dry_run: o.DryRun = False,
) -> None:
    """Roll out combinations of domains. A combination is a set: its names may be in any order.

    What there is, and which files:

        rollout cross --list --verbose

    One combination:

        rollout cross --domains StudentFinancialServices StudentAcademicPortal

    Scattered query files merged into one for each combination, duplicates dropped:

        rollout cross --merge-queries --base-path ./datasets/cross_domain
    """
    sys.exit(b.perform("cross", **locals()))


cross.several = ("--domains",)  # type: ignore[attr-defined]
