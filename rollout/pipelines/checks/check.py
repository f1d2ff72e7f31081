"""The dry run: everything that can be wrong with a configuration, found before money is spent.

The datasets are wired as a run wires them, their environments constructed; then their tasks, models, files and folders
are looked at. No model is asked, unless `ping` wants it, and nothing is left behind.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.config.schema import Config, Dataset
from rollout.core.calls import schema_problem
from rollout.core.errors import ConfigError
from rollout.core.extras import install_command
from rollout.core.messages import JSON
from rollout.core.spelling import suggest
from rollout.environments.environment import OpenEnvironment
from rollout.models.registry import Registry
from rollout.pipelines.checks.ping import Ping, ping_models
from rollout.pipelines.checks.places import check_places
from rollout.pipelines.run_options import BUILTIN_USER
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.pipelines.wiring.agent import secret_text
from rollout.pipelines.wiring.datasets import Wired, open_wired
from rollout.scoring.panel import Panel
from rollout.store.files.output_files import output_problems
from rollout.store.writable import file_problem
from rollout.tasks.source import Tasks


class DatasetCheck(msgspec.Struct):
    """Findings about one dataset."""

    name: str
    tasks: int = 0
    task_paths: list[Path] = msgspec.field(default_factory=list)
    samples: int = 1
    tools: int = 0
    policy: str = "–"
    agent: str = ""
    user: str = "–"
    output: str = ""
    offers: list[str] = msgspec.field(default_factory=list)
    """The tools that servers offer, if only the servers know them."""
    problems: list[str] = msgspec.field(default_factory=list)
    broken: list[str] = msgspec.field(default_factory=list)
    """The problems that prevent its environment from opening."""
    warnings: list[str] = msgspec.field(default_factory=list)


class RunCheck(msgspec.Struct):
    """Findings about a whole run."""

    datasets: list[DatasetCheck]
    run_dir: str = ""
    problems: list[str] = msgspec.field(default_factory=list)
    """Problems of the run directory and the log file."""
    warnings: list[str] = msgspec.field(default_factory=list)
    pings: list[Ping] = msgspec.field(default_factory=list)
    """What models answered, where they were asked."""

    @property
    def problem_count(self) -> int:
        """Everything that has to be put right before a run."""
        asked = sum(ping.problem is not None for ping in self.pings)
        return len(self.problems) + asked + sum(len(one.problems) for one in self.datasets)

    @property
    def trajectories(self) -> int:
        """How many attempts the run would make."""
        return sum(one.tasks * one.samples for one in self.datasets)

    def to_json(self) -> JSON:
        """All of it, for a program."""
        return {
            "ok": not self.problem_count,
            "trajectories": self.trajectories,
            **msgspec.to_builtins(self, enc_hook=str),
        }


async def check_run(config: Config, names: list[str], *, resume: bool = True, ping: bool = False) -> RunCheck:
    """Check everything that a run of these datasets would use. With `ping`, ask each model one tiny request."""
    registry = Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local)
    async with open_wired(config, names, registry) as wired:
        await _try_worlds(wired)
        found = RunCheck(_check_wired(config, wired, registry), run_dir=str(config.run_dir or ""))
        plans = [one.plan for one in wired if one.plan is not None]
        found.problems, found.warnings = check_places(config, plans, resume=resume)
    if ping:
        found.pings = await ping_models(config, names)
    return found


async def check_datasets(config: Config, names: list[str]) -> list[DatasetCheck]:
    """Look at everything that these datasets would use."""
    registry = Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local)
    async with open_wired(config, names, registry) as wired:
        await _try_worlds(wired)
        return _check_wired(config, wired, registry)


async def _try_worlds(wired: Sequence[Wired]) -> None:
    for one in wired:
        if one.opened is not None and one.tasks:
            task = one.read_task(0)
            one.environment_problems += await one.opened.try_world(task, one.seed_of(task))


def _check_wired(config: Config, wired: Sequence[Wired], registry: Registry) -> list[DatasetCheck]:
    found = [_check(one, config, registry) for one in wired]
    by_name = {report.name: report for report in found}
    if config.cluster is not None and importlib.util.find_spec("ray") is None:
        for report in found:
            report.problems.append(f"cluster: needs the extra: {install_command('ray')}")
    try:
        FiltersByDataset(config)
    except ConfigError as error:
        for report in found:
            report.problems.append(str(error))
    files = {report.name: (Path(report.output), report.task_paths) for report in found}
    for name, problem in output_problems(files):
        by_name[name].problems.append(f"output_path: {problem}")
    return found


async def broken_environments(config: Config, names: list[str]) -> dict[str, list[str]]:
    """The datasets whose environments cannot be opened, each with the reasons."""
    registry = Registry(config.models, timeouts=config.timeouts, retries=config.retries, local=config.local)
    async with open_wired(config, names, registry) as wired:
        return {one.name: one.environment_problems for one in wired if one.environment_problems}


def _check(one: Wired, config: Config, registry: Registry) -> DatasetCheck:
    dataset = one.dataset
    report = DatasetCheck(one.name, agent=dataset.agent.model)
    report.output = str(dataset.output_path or Path("outputs") / f"{one.name}.jsonl")
    report.broken = list(one.environment_problems)
    report.problems = [*one.environment_problems, *one.problems]
    report.warnings = list(one.warnings)
    if one.environment is not None and one.opened is not None:
        report.tools = len(one.opened.toolset)
        found = (schema_problem(spec.name, spec.parameters) for spec in one.opened.toolset.specs)
        report.warnings += [problem for problem in found if problem is not None]
        report.offers = list(one.opened.toolset.by_name) if one.environment.traits.are_tools_found else []
        report.policy = _describe_policy(one, dataset)
        if dataset.mode == "positive" and not len(one.opened.toolset):
            report.warnings.append("no tools: the agent can only talk (mode positive)")
    has_actions = one.tasks is None or _check_tasks(report, one, dataset, one.tasks)
    _check_models(report, dataset, config, registry)
    if dataset.agent.model == "builtin/oracle" and not has_actions:
        without = next(task.id for task in one.tasks or () if task.actions is None)
        report.problems.append(
            "agent: builtin/oracle needs tasks with reference actions (task_info.actions), and there are none in "
            f"{without!r}"
        )
    if not Path(report.output).is_dir() and (problem := file_problem(Path(report.output))) is not None:
        report.problems.append(f"datasets.{one.name}.output_path: {problem}")
    report.problems = list(dict.fromkeys(report.problems))
    return report


def _describe_policy(one: Wired, dataset: Dataset) -> str:
    if dataset.agent.system_prompt_file is not None:
        return str(dataset.agent.system_prompt_file)
    assert one.environment is not None
    policy = one.environment.system_for(dataset.agent)
    return "–" if policy is None else f"{len(policy):,} chars"


def _check_tasks(report: DatasetCheck, one: Wired, dataset: Dataset, tasks: Tasks) -> bool:
    """Read the tasks; returns whether all of them have reference actions."""
    report.task_paths = list(tasks.paths)
    report.samples = one.strategy.most if one.strategy is not None else 1
    report.problems += [str(problem) for problem in tasks.problems]
    report.tasks = len(tasks) if dataset.limit is None else min(dataset.limit, len(tasks))
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
    if one.panel is not None:
        _check_decisions(report, tasks, one.panel)
    if one.environment is not None and one.opened is not None and one.environment.traits.do_actions_name_tools:
        _check_actions(report, tasks, one.opened)
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


def _check_actions(report: DatasetCheck, tasks: Tasks, opened: OpenEnvironment) -> None:
    """Whether the tools of reference actions are offered."""
    unknown: dict[str, str] = {}
    for task in tasks:
        for action in task.actions or ():
            if (opened.offered_name(action.name) or action.name) not in opened.toolset.by_name:
                unknown.setdefault(action.name, task.id)
    if unknown:
        tool, task_id = next(iter(unknown.items()))
        report.warnings.append(
            f"task_info.actions: tools that are not offered: {len(unknown)}, such as {tool!r} in task {task_id!r}; "
            f"{suggest(tool, opened.toolset.by_name)}"
        )


def _check_models(report: DatasetCheck, dataset: Dataset, config: Config, registry: Registry) -> None:
    agent, user = dataset.agent, dataset.user
    report.problems += registry.check(
        agent.model, agent.api_base, secret_text(agent.api_key), is_agent=True, reveal_reference=agent.reveal_reference
    )
    if dataset.max_turns > 1:
        if user is not None:
            report.user = {"model": user.model, "builtin": BUILTIN_USER}.get(user.kind, user.kind)
            if user.kind == "model":
                report.problems += registry.check(user.model, user.api_base, secret_text(user.api_key))
    elif user is not None:
        report.warnings.append("user: is not used, because max_turns is 1; leave max_turns out, or raise it")
    if dataset.scoring.judge is not None:
        report.problems += registry.check(dataset.scoring.judge)
    if config.enable_monitor and config.monitor_use_llm_judge:
        report.problems += registry.check(config.monitor_judge_model)
