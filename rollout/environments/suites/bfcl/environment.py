"""BFCL multi-turn: 800 tasks over eight stateful back ends, from the package `bfcl-eval` (Apache-2.0).

A task is a fixed list of user messages; what the agent does is compared with reference calls after each turn. Four
categories of 200: `base`; `miss_func`, where some functions are handed out only later; `miss_param`, where the user
first forgets to say something; `long_context`, where the back ends answer at length.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from pydantic import Field

from rollout.agents.monitor import MonitorRules
from rollout.config.models import UserConfig
from rollout.config.params import read_params
from rollout.config.schema import Config
from rollout.config.section import Section
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, Toolset, ToolSpec
from rollout.core.task import Action, Task
from rollout.core.world import SeedOf
from rollout.environments.environment import Defaults, Environment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.environments.suites.bfcl.calls import read_call
from rollout.environments.suites.bfcl.package import BfclPackage
from rollout.environments.suites.bfcl.schemas import to_spec
from rollout.environments.suites.bfcl.scorer import BfclScorer
from rollout.environments.suites.bfcl.world import BackEnds, BfclWorld
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList

Category = Literal["base", "miss_func", "miss_param", "long_context"]
CATEGORIES: tuple[Category, ...] = ("base", "miss_func", "miss_param", "long_context")
STEPS_PER_TURN = 20
"""BFCL's own limit: an agent that needs more has failed."""


class BfclParams(Section):
    """What `suite_params` may say."""

    categories: list[Category] = Field(list(CATEGORIES), min_length=1)
    """Which of base, miss_func, miss_param and long_context; all by default."""


class BfclMultiTurn(Environment):
    """The suite `bfcl_multi_turn`."""

    name = "bfcl_multi_turn"
    traits = Traits(do_tools_vary=True, do_actions_name_tools=False, do_scripts_go_on=True)

    def __init__(self, **params: Any) -> None:
        wanted = read_params(BfclParams, params, "suite_params").categories
        categories = [category for category in CATEGORIES if category in wanted]
        package = BfclPackage()
        backend = package.module("bfcl_eval.constants.executable_backend_config")
        prompts = package.module("bfcl_eval.constants.default_prompts")
        files = [(package.questions(category), package.answers(category)) for category in categories]
        entries = [_read_entries(category, *pair) for category, pair in zip(categories, files, strict=True)]
        names = sorted({name for listed in entries for entry, _ in listed for name in entry["involved_classes"]})
        documents = {name: _read_documents(package, backend, name) for name in names}
        self._specs = {name: tuple(map(to_spec, documents[name])) for name in names}
        self._back_ends = BackEnds(
            {name: package.back_end(backend.CLASS_FILE_PATH_MAPPING[name], name) for name in names},
            {name: tuple(spec.name for spec in self._specs[name]) for name in names},
            frozenset(backend.STATELESS_CLASSES),
        )
        handed_out: str = prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
        tasks = [
            self._make_task(entry, answer, category, handed_out)
            for category, listed in zip(categories, entries, strict=True)
            for entry, answer in listed
        ]
        paths = [path for pair in files for path in pair]
        self.tasks = TaskList(f"bfcl-eval {package.version} ({', '.join(categories)})", tasks, paths)
        self.identity = {"suite": {"name": self.name, "version": package.version, "categories": categories}}
        self.toolset = Toolset(tuple(spec for specs in self._specs.values() for spec in specs))
        self.defaults = Defaults(
            user=UserConfig(kind="scripted"),
            is_user_fixed=True,
            max_turns=max(1 + len(task.user_turns) for task in tasks),
            max_steps_per_turn=STEPS_PER_TURN,
        )

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        return None

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        yield OpenBfcl(self.toolset, self._specs, self._back_ends)

    def _make_task(self, entry: JSON, answer: list[list[str]], category: str, handed_out: str) -> Task:
        signatures = {
            function: _signature(self._back_ends.classes[name], function)
            for name in entry["involved_classes"]
            for function in self._back_ends.functions[name]
        }
        try:
            actions: list[Action] = [
                read_call(source, turn, signatures) for turn, sources in enumerate(answer) for source in sources
            ]
            said = [_said(messages, handed_out) for messages in entry["question"]]
        except ValueError as error:
            raise ConfigError(f"bfcl-eval: task {entry['id']}: {error}") from error
        scenario = {
            "category": category,
            "involved_classes": entry["involved_classes"],
            "initial_config": entry["initial_config"],
            "missed_function": entry.get("missed_function", {}),
        }
        return Task(
            id=entry["id"],
            messages=(Message(role="user", content=said[0]),),
            actions=tuple(actions),
            user_turns=tuple(said[1:]),
            info={"bfcl": scenario},
        )


class OpenBfcl(OpenEnvironment):
    """The back ends in use."""

    def __init__(self, toolset: Toolset, specs: Mapping[str, Sequence[ToolSpec]], back_ends: BackEnds) -> None:
        super().__init__(toolset)
        self._specs = specs
        self._back_ends = back_ends
        self._offered: dict[tuple[Any, ...], Toolset] = {}

    def tools_for(self, task: Task, turn: int) -> Toolset:
        """The functions of the task's classes, without those that are handed out after this turn."""
        scenario: JSON = task.info["bfcl"]
        missed: dict[str, list[str]] = scenario.get("missed_function", {})
        withheld = {name for names in missed.values() for name in names}
        given = [name for first, names in missed.items() if int(first) <= turn for name in names]
        key = (*scenario["involved_classes"], None, *sorted(withheld), None, *given)
        found = self._offered.get(key)
        if found is None:
            specs = [spec for name in scenario["involved_classes"] for spec in self._specs[name]]
            by_name: dict[str, ToolSpec] = {spec.name: spec for spec in specs}
            # Handed out later, so at the end of the list.
            offered = [spec for spec in specs if spec.name not in withheld] + [by_name[name] for name in given]
            found = self._offered[key] = Toolset(tuple(offered))
        return found

    def make_world(self, task: Task) -> BfclWorld:
        return BfclWorld(self._back_ends)

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        return [BfclScorer(self.make_world), AssertionScorer(judge)]


def _said(messages: list[JSON], handed_out: str) -> str:
    """A turn's user message; where functions are handed out, BFCL has none and says so in words of its own."""
    if not messages:
        return handed_out
    if len(messages) != 1 or messages[0]["role"] != "user":
        raise ValueError(f"expected one user message a turn, got {[message['role'] for message in messages]}")
    return str(messages[0]["content"])


def _signature(kind: type, function: str) -> inspect.Signature:
    """What a method takes, without `self`."""
    signature = inspect.signature(getattr(kind, function))
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _read_documents(package: BfclPackage, backend: Any, name: str) -> list[JSON]:
    return _read_lines(package.folder / "data" / "multi_turn_func_doc" / backend.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name])


def _read_entries(category: str, questions: Path, answers: Path) -> list[tuple[JSON, list[list[str]]]]:
    """The tasks of a category, each with its reference calls, turn by turn."""
    known = {entry["id"]: entry["ground_truth"] for entry in _read_lines(answers)}
    entries = _read_lines(questions)
    unanswered = [entry["id"] for entry in entries if len(known.get(entry["id"], ())) != len(entry["question"])]
    if unanswered:
        raise ConfigError(f"{answers}: no reference calls for each turn of {unanswered[0]!r} of {category}")
    return [(entry, known[entry["id"]]) for entry in entries]


def _read_lines(path: Path) -> list[JSON]:
    try:
        with path.open("rb") as file:
            return [msgspec.json.decode(line) for line in file if line.strip()]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: is not what bfcl-eval holds: {error}") from error
