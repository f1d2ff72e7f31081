"""`rollout label`, and AgentSkiller's `add_label_single.py` and `add_label_cross.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli.options import Inputs, Runs
from rollout.tasks.discovery import Kind

SEED_DATASETS = Path("rollout/tools/datasets")

PolicyRoot = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Policies, for trajectories that no run of ours made.")
]
ToolsList = Annotated[Path | None, typer.Option(metavar="DIR", help="Tool lists, for the same.")]
PreambleFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What was said before the policies, for the same.")
]


def label(
    paths: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="What is written.")] = Path(
        "labelled.jsonl"
    ),
    run: Runs = None,
    policy_root: PolicyRoot = None,
    tools_list: ToolsList = None,
    preamble_file: PreambleFile = None,
) -> None:
    """Add system prompt and tools to trajectories, exactly as they were sent.

    A run, or the folder that a batch wrote to:

        rollout label runs/default -o labelled.jsonl

        rollout label outputs_single

    Files that AgentSkiller's rollout wrote, from policies and tool lists:

        rollout label outputs_cross/*.jsonl --policy-root datasets/cross_domain/policies
        --tools-list datasets/cross_domain/tool_lists
    """
    sys.exit(perform(paths, output, run or (), policy_root, tools_list, preamble_file))


def label_single(
    policy_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="POLICY_ROOT. Default: …/single_domain/policies.")
    ] = None,
    tools_list: Annotated[
        Path | None, typer.Option(metavar="DIR", help="TOOLS_LIST. Default: …/single_domain/tool_lists.")
    ] = None,
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="OUTPUT_DIR: where the trajectories are.")] = Path(
        "outputs_single"
    ),
    result_file: Annotated[Path, typer.Option(metavar="FILE", help="RESULT_FILE: what is written.")] = Path(
        "./mt_single_domain_tool_call_thinking.jsonl"
    ),
    preamble_file: PreambleFile = None,
    run: Runs = None,
) -> None:
    """Add system prompt and tools to the trajectories of single domains: `rollout label` with AgentSkiller's settings.

    Where the run directory is there, they are exactly those that were sent. Policies and tool lists are read only for
    trajectories that no run of ours made.
    """
    sys.exit(_label_kind("single", policy_root, tools_list, output_dir, result_file, run or (), preamble_file))


def label_cross(
    policy_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="POLICY_ROOT. Default: …/cross_domain/policies.")
    ] = None,
    tools_list: Annotated[
        Path | None, typer.Option(metavar="DIR", help="TOOLS_LIST. Default: …/cross_domain/tool_lists.")
    ] = None,
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="OUTPUT_DIR: where the trajectories are.")] = Path(
        "outputs_cross"
    ),
    result_file: Annotated[Path, typer.Option(metavar="FILE", help="RESULT_FILE: what is written.")] = Path(
        "./mt_cross_domain_tool_call_thinking.jsonl"
    ),
    preamble_file: PreambleFile = None,
    run: Runs = None,
) -> None:
    """Add system prompt and tools to the trajectories of cross domains: `rollout label` with AgentSkiller's settings.

    A combination is a set: `A_B_C.jsonl` (also `A_B_C_output.jsonl`) finds the policy `C_B_A.md`.
    """
    sys.exit(_label_kind("cross", policy_root, tools_list, output_dir, result_file, run or (), preamble_file))


def _label_kind(
    kind: Kind,
    policy_root: Path | None,
    tools_list: Path | None,
    output_dir: Path,
    result_file: Path,
    runs: Sequence[Path],
    preamble_file: Path | None,
) -> int:
    from rollout.environments.domains.domain import SHIPPED

    places = [root / f"{kind}_domain" for root in (SEED_DATASETS, SHIPPED)]
    base = next((place for place in places if place.is_dir()), places[-1])
    policies = policy_root or base / "policies"
    # Cross domains have the tool lists of their single domains.
    lists = [base / "tool_lists", base.parent / "single_domain" / "tool_lists"]
    tools = tools_list or next((folder for folder in lists if folder.is_dir()), lists[0])
    is_needed = bool(policy_root or tools_list or preamble_file)
    return perform([output_dir], result_file, runs, policies, tools, preamble_file, is_needed=is_needed)


def perform(
    paths: Sequence[Path],
    output: Path,
    runs: Sequence[Path],
    policy_root: Path | None,
    tools_list: Path | None,
    preamble_file: Path | None = None,
    *,
    is_needed: bool = True,
) -> int:
    """Label what these paths mean; returns the exit code. `is_needed`: the two folders must be there."""
    from rollout.core.errors import ConfigError
    from rollout.environments.domains.domain import read_policy
    from rollout.environments.domains.offering import Offering
    from rollout.pipelines.export import label_sources
    from rollout.pipelines.inputs import Prompts, find_sources
    from rollout.terminal.console import make_console
    from rollout.terminal.tally import show_tally

    console = make_console()
    offering = None
    if (policy_root is None) != (tools_list is None):
        raise ConfigError("--policy-root and --tools-list belong together; give both")
    if policy_root is not None and tools_list is not None:
        is_there = policy_root.is_dir() and tools_list.is_dir()
        preamble = None if preamble_file is None else read_policy(preamble_file).strip("\n")
        offering = Offering(policy_root, tools_list, preamble) if is_needed or is_there else None
    elif preamble_file is not None:
        raise ConfigError("--preamble-file goes before the policies; give --policy-root and --tools-list, too")
    tally = label_sources(find_sources(paths, leave_out=[output]), Prompts(runs, offering), output)
    return show_tally(console, "labelled", tally)
