"""`--dry-run`: everything that can be wrong is found before money is spent, and what would run is shown."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from rollout.cli.signals import listening
from rollout.cli.terminal import side_by_side
from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.secrets import redact
from rollout.core.spelling import suggest
from rollout.environments.domains.domain import Domain
from rollout.environments.suites.find import settle_dataset
from rollout.environments.suites.suite import Suite
from rollout.models.builtin import OracleModel
from rollout.models.registry import Registry
from rollout.pipelines.active_filters import FiltersByDataset
from rollout.pipelines.costs import describe_unpriced
from rollout.pipelines.pools import Pools, open_pools
from rollout.pipelines.scorers import make_panel
from rollout.pipelines.tools import DatasetTools, load_tools, open_tasks
from rollout.pipelines.viewing import describe_blindness, make_viewing
from rollout.pipelines.wiring import make_dataset_strategy, refuse_model
from rollout.scoring.panel import Panel
from rollout.store.output_files import output_problems
from rollout.tasks.source import Tasks, refuse_clashes


class DatasetCheck(msgspec.Struct):
    """What was found about one dataset."""

    name: str
    tasks: int = 0
    task_paths: list[Path] = msgspec.field(default_factory=list)
    samples: int = 1
    tools: int = 0
    domain: Domain | None = None
    policy: str = "–"
    agent: str = ""
    user: str = "–"
    output: str = ""
    offers: list[str] = msgspec.field(default_factory=list)
    """The tools that MCP servers were found to offer: nobody can read them in a file."""
    problems: list[str] = msgspec.field(default_factory=list)
    broken: list[str] = msgspec.field(default_factory=list)
    """Those problems that keep it from being run at all: its servers or its tools."""
    warnings: list[str] = msgspec.field(default_factory=list)


def check_config(config: Config, names: list[str]) -> list[DatasetCheck]:
    """Look at everything that a run of these datasets would use. Asks no model and writes nothing."""
    registry = Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local)
    with listening() as signals:
        found = signals.run(_check_all(config, names, registry))
    by_name = {report.name: report for report in found}
    if config.cluster is not None and importlib.util.find_spec("ray") is None:
        for report in found:
            report.problems.append("cluster: needs the extra: pip install 'rollout[ray]'")
    try:
        FiltersByDataset(config)
    except ConfigError as error:
        for report in found:
            report.problems.append(str(error))
    files = {report.name: (Path(report.output), report.task_paths) for report in found}
    for name, problem in output_problems(files):
        by_name[name].problems.append(f"output_path: {problem}")
    return found


async def _check_all(config: Config, names: list[str], registry: Registry) -> list[DatasetCheck]:
    async with open_pools(config) as pools:
        found = [_check(name, config.datasets[name], config, registry, pools) for name in names]
        for domain, problem in await pools.problems():
            for report in found:
                if report.domain is domain:
                    report.problems.append(problem)
                    report.broken.append(problem)
    return found


def broken_servers(config: Config, names: list[str]) -> dict[str, list[str]]:
    """The datasets whose tools cannot be loaded or whose servers cannot be constructed, each with the reasons."""
    with listening() as signals:
        return signals.run(_broken_servers(config, names))


async def _broken_servers(config: Config, names: list[str]) -> dict[str, list[str]]:
    broken: dict[str, list[str]] = {}
    loaded: dict[str, DatasetTools] = {}
    async with open_pools(config) as pools:
        for name in names:
            try:
                loaded[name] = load_tools(name, config.datasets[name], pools)
            except ConfigError as error:
                broken.setdefault(name, []).append(str(error))
        for domain, problem in await pools.problems():
            for name, tools in loaded.items():
                if tools.domain is domain:
                    broken.setdefault(name, []).append(problem)
    return broken


def show_check(console: Console, reports: list[DatasetCheck]) -> int:
    """Print what would run and what is wrong; returns the exit code: 0 where nothing is."""
    console.print(side_by_side(console, "would run", {report.name: _cells(report) for report in reports}))
    for report in reports:
        console.print(f"{report.name} → {report.output}", highlight=False, markup=False, soft_wrap=True)
        if report.offers:
            text = f"{report.name} offers {', '.join(report.offers)}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
    count = 0
    for report in reports:
        for warning in report.warnings:
            console.print(Text.assemble(("warning ", "yellow"), f"{report.name}: {redact(warning)}"), soft_wrap=True)
        for problem in report.problems:
            count += 1
            console.print(Text.assemble(("problem ", "bold red"), f"{report.name}: {redact(problem)}"), soft_wrap=True)
    if count:
        console.print(f"{count} problem{'s' if count != 1 else ''}; nothing was run.")
        return 2
    total = sum(report.tasks * report.samples for report in reports)
    console.print(f"{total} trajectories; no problems found; nothing was run.")
    return 0


def _cells(report: DatasetCheck) -> dict[str, str]:
    return {
        "tasks": str(report.tasks),
        "samples": str(report.samples),
        "tools": str(report.tools),
        "policy": report.policy,
        "agent": report.agent,
        "user": report.user,
    }


def _check(name: str, dataset: Dataset, config: Config, registry: Registry, pools: Pools) -> DatasetCheck:
    report = DatasetCheck(name, agent=dataset.agent.model)
    report.output = str(dataset.output_path or Path("outputs") / f"{name}.jsonl")
    suite: Suite | None = None
    tools: DatasetTools | None = None
    panel: Panel | None = None
    has_actions = True
    try:
        tools = load_tools(name, dataset, pools)
        report.domain = tools.domain
        suite = tools.suite
        dataset = settle_dataset(name, dataset, suite)
        report.tools = len(tools.toolset)
        report.offers = list(tools.toolset.by_name) if dataset.mcpServers else []
        if dataset.agent.system_prompt_file is not None:
            report.policy = str(dataset.agent.system_prompt_file)
            if not dataset.agent.system_prompt_file.is_file():
                report.problems.append(f"agent.system_prompt_file: {dataset.agent.system_prompt_file} is not a file")
        elif (source := suite or tools.domain) is not None and source.policy is not None:
            report.policy = f"{len(source.policy):,} chars"
        elif tools.domain is not None:
            report.warnings.append(f"no policy for {tools.domain.name} in {tools.domain.base_path / 'policies'}")
        if dataset.mode == "positive" and not len(tools.toolset):
            report.warnings.append("no tools: the agent can only talk (mode positive)")
        panel = make_panel(name, dataset, config, registry, tools, lambda task: 0)
        _check_view(report, dataset, registry, suite)
    except ConfigError as error:
        report.problems.append(str(error))
        report.broken.append(str(error))
    if suite is not None or dataset.suite is None:
        has_actions = _check_tasks(report, name, dataset, config, tools, panel)
    _check_models(report, dataset, config, registry)
    report.warnings += describe_unpriced(dataset, config, registry)
    _check_strategy(report, dataset, config, registry)
    if dataset.agent.model == "builtin/oracle":
        try:
            OracleModel(dataset.agent.params)
        except ConfigError as error:
            report.problems.append(str(error))
        if not has_actions:
            report.problems.append("agent: builtin/oracle needs tasks with reference actions (task_info.actions)")
    folder = Path(report.output).absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        report.problems.append(f"output_path: {folder} is not a folder that can be written to")
    return report


def _check_tasks(
    report: DatasetCheck, name: str, dataset: Dataset, config: Config, tools: DatasetTools | None, panel: Panel | None
) -> bool:
    """Read the tasks; returns whether all of them have reference actions. Without `tools` and `panel`, which could not
    be made, what the tasks ask of them is not looked at."""
    try:
        tasks = open_tasks(name, dataset, None if tools is None else tools.suite)
        report.task_paths = list(tasks.paths)
        report.samples = make_dataset_strategy(name, dataset, config).most
        refuse_clashes(tasks, report.samples)
    except ConfigError as error:
        report.problems.append(str(error))
        return True
    report.problems += [str(problem) for problem in tasks.problems]
    report.tasks = len(tasks) if dataset.limit is None else min(dataset.limit, len(tasks))
    if not len(tasks):
        report.problems.append(f"{tasks}: there is no task in it")
    if dataset.mode == "wrong_tool":
        without = [task.id for task in tasks if not task.tools]
        if without:
            report.problems.append(f"mode wrong_tool: {len(without)} tasks have no `tools`, such as {without[0]!r}")
    if dataset.user is not None and dataset.user.kind == "scripted" and not dataset.user.messages:
        silent = [task.id for task in tasks if not task.user_turns]
        if silent:
            report.warnings.append(f"user scripted: {len(silent)} tasks have no user_turns, such as {silent[0]!r}")
    asserting = [task.id for task in tasks if task.info.get("nl_assertions")]
    if asserting and dataset.scoring.judge is None and dataset.scoring.decide is None:
        report.warnings.append(
            f"{len(asserting)} tasks have nl_assertions, such as {asserting[0]!r}, and there is no scoring.judge: they "
            "stay unscored unless scoring.decide leaves nl_assertions out"
        )
    if panel is not None:
        _check_decisions(report, tasks, panel)
    if tools is not None and tools.suite is None and dataset.web is None and dataset.mode == "positive":
        _check_actions(report, tasks, tools)
    return all(task.actions is not None for task in tasks)


def _check_decisions(report: DatasetCheck, tasks: Tasks, panel: Panel) -> None:
    """Whether the scorers that tasks choose exist."""
    problems = []
    for task in tasks:
        try:
            panel.chosen(task)
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        report.problems.append(problems[0] + (f" (and {len(problems) - 1} tasks more)" if len(problems) > 1 else ""))


def _check_actions(report: DatasetCheck, tasks: Tasks, tools: DatasetTools) -> None:
    """Whether the tools of reference actions are offered."""
    unknown: dict[str, str] = {}
    for task in tasks:
        for action in task.actions or ():
            offered = None if tools.offered is None else tools.offered(action.name)
            if (offered or action.name) not in tools.toolset.by_name:
                unknown.setdefault(action.name, task.id)
    if unknown:
        tool, task_id = next(iter(unknown.items()))
        report.warnings.append(
            f"task_info.actions name {len(unknown)} tools that are not offered, such as {tool!r} in task {task_id!r}; "
            f"{suggest(tool, tools.toolset.by_name)}"
        )


def _check_view(report: DatasetCheck, dataset: Dataset, registry: Registry, suite: Suite | None) -> None:
    try:
        found = registry.resolve(dataset.agent.model)
    except ConfigError:
        return  # told with the models
    viewing = make_viewing(report.name, dataset, found.entry, suite)
    if (blindness := describe_blindness(dataset, viewing, found)) is not None:
        report.warnings.append(blindness)


def _check_models(report: DatasetCheck, dataset: Dataset, config: Config, registry: Registry) -> None:
    agent, user = dataset.agent, dataset.user
    report.problems += registry.check(agent.model, agent.api_base, _reveal(agent.api_key))
    if dataset.max_turns > 1:
        if user is None:
            report.problems.append(f"user: needed because max_turns is {dataset.max_turns}; or set max_turns: 1")
        else:
            report.user = user.model if user.kind == "model" else user.kind
            if user.kind == "model":
                report.problems += registry.check(user.model, user.api_base, _reveal(user.api_key))
    elif user is not None:
        report.warnings.append("user: is not used, because max_turns is 1; leave max_turns out, or raise it")
    if dataset.scoring.judge is not None:
        report.problems += registry.check(dataset.scoring.judge)
    if config.enable_monitor and config.monitor_use_llm_judge:
        report.problems += registry.check(config.monitor_judge_model)


def _check_strategy(report: DatasetCheck, dataset: Dataset, config: Config, registry: Registry) -> None:
    """Whether the agent's model can do what the strategy needs. What is wrong with either alone is told elsewhere."""
    agent = dataset.agent
    try:
        strategy = make_dataset_strategy(report.name, dataset, config)
        model = registry.model(agent.model, api_base=agent.api_base, api_key=_reveal(agent.api_key))
    except ConfigError:
        return
    try:
        refuse_model(report.name, dataset, strategy, model)
    except ConfigError as error:
        report.problems.append(str(error))


def _reveal(secret: object) -> str | None:
    return None if secret is None else str(secret.get_secret_value())  # type: ignore[attr-defined]
