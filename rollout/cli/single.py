"""`rollout single`: every single domain of a dataset folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli import batch as b
from rollout.cli import options as o
from rollout.compat import batch as defaults
from rollout.config.schema import MAX_TURNS


def single(
    all_: b.All = False,
    domains: b.Domains = None,
    list_: b.List = False,
    generate_configs: b.Generate = False,
    agent_model: o.AgentModel = defaults.AGENT_MODEL,
    user_model: o.UserModel = defaults.USER_MODEL,
    models_config: b.ModelsConfig = defaults.MODELS_CONFIG,
    base_path: b.BasePath = None,
    query_dir: b.QueryDir = None,
    policy_dir: b.PolicyDir = None,
    output_dir: b.OutputFolder = Path("outputs_single"),
    config_output_dir: b.ConfigOutput = Path("configs/generated"),
    max_turns: b.MaxTurns = MAX_TURNS,
    max_steps_per_turn: Annotated[int, typer.Option(metavar="N", min=1)] = 10,
    agent_temperature: b.AgentTemperature = 0.7,
    user_temperature: b.UserTemperature = 1.0,
    no_thinking: b.NoThinking = False,
    preamble: Annotated[
        bool, typer.Option("--preamble/--no-preamble", help="Tell the agent first not to make up arguments.")
    ] = True,
    max_workers: Annotated[int, typer.Option(metavar="N", min=1, help="Live conversations, over all domains.")] = 8,
    limit: o.Limit = None,
    samples: o.Samples = 1,
    seed: b.Seed = 0,
    set_: o.Settings = None,
    resume: o.Resume = None,
    quiet: b.Quiet = False,
    verbose: o.Verbose = False,
    dry_run: o.DryRun = False,
) -> None:
    """Roll out single domains.

    What there is:

        rollout single --list

    The shipped domains with the built-in models, no key needed:

        rollout single --all --agent-model builtin/oracle --user-model builtin/user

    One domain of your own folder:

        rollout single --domains LibraryDesk --base-path ./datasets --max-workers 64
    """
    sys.exit(b.perform("single", **locals()))


single.several = ("--domains",)  # type: ignore[attr-defined]
