"""`rollout single` and `rollout cross`: roll out whole dataset folders, with the seed's flags and defaults.

Both find what there is below a folder, make one configuration of it (each domain a dataset, one run directory for all)
and hand it to the same engine as `rollout run`, so `--max-workers` is live conversations over all domains together.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from rollout.config import Config, load_registry
from rollout.config.load import validate
from rollout.core.errors import ConfigError, RolloutError
from rollout.environments.domains.domain import SHIPPED, read_tool_list
from rollout.store.blobs import write_atomic
from rollout.tasks.discovery import (
    MERGED,
    Combination,
    Kind,
    choose_combinations,
    default_base,
    find_file,
    list_combinations,
    resolve_base,
)
from rollout.tasks.jsonl import TaskFile

AGENT_MODEL = "openai/deepseek-v3.2-fc"
USER_MODEL = "openai/gpt-5"
MODELS_CONFIG = Path("configs/models.yml")
PREAMBLE = (
    "Use only arguments that the user gave you or that a tool returned; never make one up. Where one is missing or "
    "unclear, ask the user, and have them confirm what you understood before you call the tool."
)
"""What `rollout single` says before every policy, as the seed's script does in words of its own."""

All = Annotated[bool, typer.Option("--all", help="Everything that is found.")]
List = Annotated[bool, typer.Option("--list", help="Show what is found, and what is missing for it.")]
Generate = Annotated[bool, typer.Option("--generate-configs", help="Write a config for review by hand; run nothing.")]
AgentModel = Annotated[str, typer.Option(help="Who acts.")]
UserModel = Annotated[str, typer.Option(help="Whom the agent talks to.")]
ModelsConfig = Annotated[Path, typer.Option(help="The registry of models. The default is left out if it is missing.")]
ConfigOutput = Annotated[Path, typer.Option(help="The folder for --generate-configs.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="User messages in a conversation, at most.")]
AgentTemperature = Annotated[float, typer.Option(min=0)]
UserTemperature = Annotated[float, typer.Option(min=0)]
NoThinking = Annotated[bool, typer.Option("--no-thinking", help="Do not ask the agent's model to think.")]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Start anew; what is there is moved aside.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the summary.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print conversations as they happen; more in --list.")]
Samples = Annotated[int, typer.Option(min=1, help="Attempts at each task.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same run.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, run nothing.")]
Domains = Annotated[list[str] | None, typer.Option("--domains", metavar="NAME...", help="These, one or several.")]
BasePath = Annotated[
    Path | None,
    typer.Option(help="The dataset folder. Default: rollout/tools/datasets here, else the shipped domains."),
]
QueryDir = Annotated[Path | None, typer.Option(help="Instead of <base-path>/queries.")]
PolicyDir = Annotated[Path | None, typer.Option(help="Instead of <base-path>/policies.")]


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
            datasets[_dataset_name(one)] = dataset
        document: dict[str, Any] = {
            "max_workers": settings["max_workers"],
            "seed": settings["seed"],
            "run_dir": str(self.output_dir / "run"),
            "datasets": datasets,
        }
        if settings["models_config"].is_file():
            document["models_config_file"] = str(settings["models_config"])
        return document

    def run(
        self, chosen: Sequence[Combination], *, is_all: bool, resume: bool, quiet: bool, verbose: bool, dry_run: bool
    ) -> int:
        """Roll these out; returns the exit code. Where all are wanted, those that cannot run are left out and told."""
        from rollout.cli.run import EXIT_FAILED, run_checked

        chosen = self._with_servers(chosen, is_all=is_all)
        document = self.config(chosen)
        registry = document.pop("models_config_file", None)
        config = validate(document, Config, str(self.base_path))
        if registry is not None:
            config = config.model_copy(update={"models": load_registry(Path(registry))})
        config = config.model_copy(update={"verbose": verbose and not quiet})
        names = list(config.datasets)
        broken = self._broken(config, names) if is_all and not dry_run else set[str]()
        again = " ".join(["rollout", *sys.argv[1:]]) if sys.argv[0].endswith("rollout") else " ".join(sys.argv)
        names = [name for name in names if name not in broken] or names
        code = run_checked(config, names, resume=resume, again=again, no_colors=quiet, dry_run=dry_run)
        return code or (EXIT_FAILED if broken else 0)

    def _with_servers(self, chosen: Sequence[Combination], *, is_all: bool) -> list[Combination]:
        """Those whose names are made of servers that exist. The others are told, or refused where they were named."""
        from rollout.cli.terminal import show_warning

        for one in chosen:
            if not one.servers:
                text = f"{one.queries[0]}: its name is made of no known servers in {self.base_path / 'mcp_servers'}"
                if not is_all:
                    raise ConfigError(text)
                show_warning(f"{one.name} is left out: {text}")
        return [one for one in chosen if one.servers]

    def _broken(self, config: Config, names: list[str]) -> set[str]:
        """The domains whose servers or tools cannot be loaded, each said with its reason."""
        from rollout.cli.check import check_config
        from rollout.cli.terminal import show_warning

        found = {report.name: report.broken for report in check_config(config, names) if report.broken}
        for name, reasons in found.items():
            show_warning(f"{name} is left out: {'; '.join(reasons)}")
        return set(found)

    def write_config(self, chosen: Sequence[Combination], folder: Path) -> Path:
        """Write the configuration down, for review by hand."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"all_{self.kind}_domain.yml"
        text = f"# Made by rollout {self.kind} --generate-configs. Review it, then: rollout run {path}\n"
        chosen = self._with_servers(chosen, is_all=True)
        path.write_text(text + yaml.safe_dump(self.config(chosen), sort_keys=False, allow_unicode=True))
        return path

    def broken(self, found: Sequence[Combination]) -> dict[str, list[str]]:
        """The combinations that are complete and whose servers cannot be loaded or constructed, with the reasons."""
        from rollout.cli.check import broken_servers

        complete = [one for one in found if one.servers and not any("tool_lists" in part for part in one.missing)]
        config = Config.model_validate(self.config(complete))
        reasons = broken_servers(config, list(config.datasets))
        return {one.name: reasons[key] for one in complete if (key := _dataset_name(one)) in reasons}

    def table(self, found: Sequence[Combination], broken: Collection[str], *, verbose: bool) -> Table:
        """What there is, and what is missing or broken."""
        table = Table(title=str(self.base_path), title_justify="left", title_style="bold")
        rows = [self._row(one, is_broken=one.name in broken, verbose=verbose) for one in found]
        for column in rows[0] if rows else ("domain",):
            is_number = column in ("tools", "queries")
            table.add_column(column, overflow="fold", justify="right" if is_number else "left")
        for row in rows:
            table.add_row(*row.values())
        return table

    def _row(self, one: Combination, *, is_broken: bool, verbose: bool) -> dict[str, str]:
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
    """`--merge-queries`: the scattered query files of a combination into one."""

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


def _dataset_name(one: Combination) -> str:
    return one.name.replace("-", "_")


def _is_of(one: Combination, kind: Kind) -> bool:
    if not one.servers:
        return ("_" in one.name) == (kind == "cross")
    return (len(one.servers) > 1) == (kind == "cross")


def perform(
    kind: Kind,
    *,
    all_: bool,
    list_: bool,
    generate_configs: bool,
    domains: Sequence[str] | None,
    base_path: Path | None,
    output_dir: Path,
    config_output_dir: Path,
    no_resume: bool,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    min_domains: int = 1,
    require_policy: bool = False,
    limit: int = 0,
    merge_queries: bool = False,
    force: bool = False,
    **settings: Any,
) -> int:
    """What both commands do with their options; returns the exit code. The rest of the options are `Batch`'s."""
    from rollout.cli.terminal import make_console, show_error

    console = make_console(quiet)
    try:
        batch = Batch(kind, base_path or default_base(SHIPPED, kind), output_dir, **settings)
        if merge_queries:
            for line in Merge(force).perform(batch.find()):
                console.print(line, highlight=False, soft_wrap=True)
            return 0
        if not (all_ or list_ or generate_configs or domains):
            raise ConfigError("say what to do: --all, --domains NAME..., --list or --generate-configs")
        found = batch.find(min_domains=min_domains, require_policy=require_policy)
        if list_:
            broken = batch.broken(found)
            console.print(batch.table(found, broken, verbose=verbose))
            for name, reasons in broken.items():
                for reason in reasons:
                    show_error(console, ConfigError(f"{name}: {reason}"))
            return 2 if broken else 0
        chosen = choose_combinations(found, domains, batch.kind) if domains else found
        chosen = chosen[:limit] if limit else chosen
        if not chosen:
            raise ConfigError(f"{batch.base_path / 'queries'}: nothing to roll out")
        if generate_configs:
            console.print(f"wrote {batch.write_config(chosen, config_output_dir)}", highlight=False, soft_wrap=True)
            return 0
        return batch.run(chosen, is_all=all_, resume=not no_resume, quiet=quiet, verbose=verbose, dry_run=dry_run)
    except RolloutError as error:
        show_error(console, error)
        return 2
