"""Batches of dataset folders with the options, defaults and file names of the earlier scripts.

A batch finds what there is below a folder and makes one configuration of it: each domain a dataset, one run directory
for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rollout.core.errors import ConfigError
from rollout.environments.domains.domain import read_tool_list
from rollout.store.blobs import write_atomic
from rollout.tasks.discovery import MERGED, Combination, Kind, find_file, list_combinations, resolve_base
from rollout.tasks.jsonl import TaskFile

AGENT_MODEL = "openai/deepseek-v3.2-fc"
USER_MODEL = "openai/gpt-5"
MODELS_CONFIG = Path("configs/models.yml")
PREAMBLE = (
    "Use only arguments that the user gave you or that a tool returned; never make one up. Where one is missing or "
    "unclear, ask the user, and have them confirm what you understood before you call the tool."
)
"""What `rollout single` says before every policy."""


class Batch:
    """What one call of a batch command asks for."""

    def __init__(
        self,
        kind: Kind,
        base_path: Path,
        output_dir: Path,
        *,
        query_dir: Path | None,
        policy_dir: Path | None,
        **settings: Any,
    ) -> None:
        for option, folder in (("--query-dir", query_dir), ("--policy-dir", policy_dir)):
            if folder is not None and not folder.is_dir():
                raise ConfigError(f"{option}: {folder} is not a folder")
        models = settings["models_config"]
        if models != MODELS_CONFIG and not models.is_file():
            raise ConfigError(f"--models-config: {models} is not a file")
        self.kind = kind
        self.base_path = base_path if query_dir is not None else resolve_base(base_path, kind)
        self.output_dir = output_dir
        self.query_dir = query_dir
        self.policy_dir = policy_dir
        self.settings = settings

    def find(self, *, min_domains: int = 1, require_policy: bool = False) -> list[Combination]:
        """What there is of this kind."""
        return [
            one
            for one in list_combinations(self.base_path, query_dir=self.query_dir, policy_dir=self.policy_dir)
            if _is_of(one, self.kind)
            and (not one.servers or len(one.servers) >= min_domains)
            and (one.policy is not None or not require_policy)
        ]

    def config(self, chosen: Sequence[Combination]) -> dict[str, Any]:
        """The configuration that rolls these out, as a document that can be written down."""
        settings = self.settings
        datasets = {}
        for one in chosen:
            dataset: dict[str, Any] = {
                "path": [str(path) for path in one.queries],
                "output_path": str(self.output_dir / f"{one.name}.jsonl"),
                "mcp_domain": one.name,
                "base_path": str(self.base_path),
                "agent": {
                    "model": settings["agent_model"],
                    "temperature": settings["agent_temperature"],
                    "enable_thinking": not settings["no_thinking"],
                },
                "user": {"model": settings["user_model"], "temperature": settings["user_temperature"]},
                "max_turns": settings["max_turns"],
                "max_steps_per_turn": settings["max_steps_per_turn"],
                "samples": settings["samples"],
            }
            if settings.get("preamble"):
                dataset["agent"]["preamble"] = PREAMBLE
            if one.policy is not None:
                dataset["policy"] = str(one.policy)
            datasets[dataset_name(one)] = dataset
        document: dict[str, Any] = {
            "max_workers": settings["max_workers"],
            "seed": settings["seed"],
            "run_dir": str(self.output_dir / "run"),
            "datasets": datasets,
        }
        if settings["models_config"].is_file():
            document["models_config_file"] = str(settings["models_config"])
        return document

    def runnable(self, chosen: Sequence[Combination]) -> tuple[list[Combination], dict[str, str]]:
        """Those whose names are made of servers that exist, and why the others, by name, cannot run."""
        why = f"its name is made of no known servers in {self.base_path / 'mcp_servers'}"
        left_out = {one.name: f"{one.queries[0]}: {why}" for one in chosen if not one.servers}
        return [one for one in chosen if one.servers], left_out

    def complete(self, found: Sequence[Combination]) -> list[Combination]:
        """Those for which nothing is missing that a server needs to start."""
        return [one for one in found if one.servers and not any("tool_lists" in part for part in one.missing)]

    def write_config(self, chosen: Sequence[Combination], folder: Path) -> Path:
        """Write the configuration down, for review by hand."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"all_{self.kind}_domain.yml"
        text = f"# Made by rollout {self.kind} --generate-configs. Review it, then: rollout run {path}\n"
        path.write_text(
            text + yaml.safe_dump(self.config(self.runnable(chosen)[0]), sort_keys=False, allow_unicode=True)
        )
        return path

    def describe(self, one: Combination, *, is_broken: bool, verbose: bool) -> dict[str, str]:
        """The files of a combination, and those that are missing, by columns."""
        tasks = TaskFile(*one.queries)
        tools, unread = self._tools(one)
        missing = [*one.missing, *unread, *([f"{len(tasks.problems)} bad lines"] if tasks.problems else [])]
        missing += ["a server that starts"] if is_broken else []
        # A long fused name breaks where its servers meet.
        is_fused = len(one.servers) > 1 and one.name == "_".join(one.servers)
        row = {
            "domain": "_\n".join(one.servers) if is_fused else one.name,
            "tools": str(tools),
            "queries": str(len(tasks)),
            "policy": "–" if one.policy is None else one.policy.name if verbose else "yes",
            "database": "–" if not one.servers or "database" in one.missing else "yes",
            "missing": ", ".join(missing) or "–",
        }
        if verbose:
            row["files"] = "\n".join(path.name for path in one.queries)
        return row

    def _tools(self, one: Combination) -> tuple[int, list[str]]:
        """How many tools the servers of a combination offer, and which lists are there but cannot be read."""
        count, unread = 0, []
        for server in one.servers:
            path = find_file(self.base_path, "tool_lists", f"{server}.json")
            try:
                count += len(read_tool_list(path))
            except ConfigError:
                unread += [f"{path.name} cannot be read"] if path.is_file() else []
        return count, unread


class Merge:
    """`--merge-queries`: merge the query files of a combination into one."""

    def __init__(self, force: bool) -> None:
        self._force = force

    def perform(self, found: Sequence[Combination]) -> list[str]:
        """Merge where there is something to merge; says for each combination what was done."""
        return [self._merge(one) for one in found if one.queries[0].parent.name == one.name or len(one.queries) > 1]

    def _merge(self, one: Combination) -> str:
        folder = one.queries[0].parent if one.queries[0].parent.name == one.name else one.queries[0].parent / one.name
        target = folder / MERGED
        sources = [path for path in one.queries if path != target]
        if target.exists() and not self._force:
            return f"{one.name}: {target} is there already; --force replaces it"
        tasks = TaskFile(*sources)
        duplicates = sum(1 for problem in tasks.problems if "is already in" in problem.what)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(target, b"".join(tasks.lines()))
        bad = len(tasks.problems) - duplicates
        return (
            f"{one.name}: {len(tasks)} queries in {target}; {duplicates} duplicates dropped, {bad} bad lines left out"
        )


def dataset_name(one: Combination) -> str:
    """The dataset of a combination: a name that can be written in a configuration."""
    return one.name.replace("-", "_")


def _is_of(one: Combination, kind: Kind) -> bool:
    if not one.servers:
        return ("_" in one.name) == (kind == "cross")
    return (len(one.servers) > 1) == (kind == "cross")
