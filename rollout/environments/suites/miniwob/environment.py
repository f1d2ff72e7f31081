"""MiniWoB++: more than 100 kinds of small pages, each with a goal and a reward, from the package `miniwob` (MIT).

A task is a kind of page and a seed (`click-button/3`), which fixes the goal and everything on the page. The pages are
served at `http://miniwob.test/` and played in the run's browsers by the ordinary tools of the web.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError

from rollout.agents.monitor import MonitorRules
from rollout.config.browsing import WebMode, WebSettings
from rollout.config.models import AgentConfig
from rollout.config.params import read_params
from rollout.config.problems import describe_problem
from rollout.config.schema import Config
from rollout.config.section import Section
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, Toolset
from rollout.core.task import Task
from rollout.core.world import SeedOf
from rollout.environments.environment import Defaults, Environment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.environments.suites.miniwob.package import EXCLUDED, MiniwobPackage
from rollout.environments.suites.miniwob.scorer import MiniwobScorer
from rollout.environments.suites.miniwob.world import MiniwobWorld
from rollout.environments.web.actions import toolset_of
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.environment import run_browsers
from rollout.environments.web.rates import WebRates
from rollout.environments.web.sites import Sites, host_of
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList
from rollout.trajectories.measure import MakeMeasure

SITE = "miniwob"
WINDOW = {"width": 332, "height": 214}
"""The task itself takes 160 by 210 pixels; some menus and calendars open beside it."""
NOT_OFFERED = frozenset({"navigate", "goback", "answer", "switch_tab", "close_tab", "upload", "full_text"})
"""A task is one page, and the page says when it is over."""
POLICY = """\
You act in a small web page that has one goal, which is told with every view of the page.
Do what the goal says and nothing else: a wrong click often ends the task, and it cannot be taken back.
Look at the page after each action. The task is over when you are told so; many pages want a last click on Submit.\
"""


class MiniwobParams(Section):
    """What `suite_params` may say."""

    tasks: list[str] | Literal["all"] = "all"
    """Kinds of pages by name, or `all`."""
    seeds: int = Field(5, ge=1)
    """Tasks of each kind, which differ in what is asked for and shown."""
    first_seed: int = Field(0, ge=0)
    """The seed of the first task of each kind: other seeds are other tasks."""
    mode: WebMode = "set_of_marks"
    """How the agent sees pages and acts on them: `coordinates`, `set_of_marks`, `text` or `accessibility_tree`."""
    web: dict[str, Any] = Field(default_factory=dict)
    """Further keys of `datasets.<name>.web`, such as coordinate_range."""
    data_mode: Literal["train", "test"] = "train"
    """Five kinds have other contents for testing."""
    threshold: float = Field(0.75, gt=0, le=1)
    """The raw reward that is enough in the few kinds where it measures a distance; the very middle of a circle is worth
    about 0.92 to the page. In all others it must be 1."""


class Miniwob(Environment):
    """The suite `miniwob`."""

    name = "miniwob"
    defaults = Defaults(max_turns=1, max_steps_per_turn=10)
    traits = Traits(must_call=True, do_actions_name_tools=False, do_scripts_go_on=True)
    rescoring = "recorded"

    def __init__(self, **params: Any) -> None:
        self._params = given = read_params(MiniwobParams, params, "suite_params")
        package = MiniwobPackage()
        chosen = _choose(given.tasks, package)
        self._settings = _settings(given)
        self._folder = package.folder
        numbers = range(given.first_seed, given.first_seed + given.seeds)
        tasks = [_make_task(name, number) for name in chosen for number in numbers]
        self.tasks = TaskList(f"miniwob {package.version} ({len(chosen)} kinds, {given.seeds} of each)", tasks)
        self.identity = {
            "suite": {
                "name": self.name,
                "version": package.version,
                "tasks": list(chosen),
                "seeds": [numbers.start, numbers.stop],
                "data_mode": given.data_mode,
                "threshold": given.threshold,
                "web": self._settings.model_dump(mode="json"),
            }
        }
        offered = [spec for spec in toolset_of(self._settings).specs if spec.name not in NOT_OFFERED]
        self.toolset = Toolset(tuple(offered))

    def system_for(self, agent: AgentConfig) -> str | None:
        return POLICY

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        return None

    def measures(self) -> Sequence[MakeMeasure]:
        return (functools.partial(WebRates, ends_with_answer=False),)

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        browsers = run_browsers(resources)
        if makes_worlds:
            browsers.check()
        sites = Sites({SITE: self._folder})
        try:
            yield OpenMiniwob(self, browsers, sites)
        finally:
            await sites.close()

    def make_world(self, browsers: BrowserPool, sites: Sites) -> MiniwobWorld:
        """A world for one attempt, in these browsers."""
        return MiniwobWorld(browsers, self._settings, sites, self.toolset, self._params.data_mode)

    @property
    def threshold(self) -> float:
        """The raw reward that is enough in the kinds where it measures a distance."""
        return self._params.threshold


class OpenMiniwob(OpenEnvironment):
    """The pages in use."""

    def __init__(self, environment: Miniwob, browsers: BrowserPool, sites: Sites) -> None:
        super().__init__(environment.toolset)
        self._environment = environment
        self._browsers = browsers
        self._sites = sites

    def make_world(self, task: Task) -> MiniwobWorld:
        return self._environment.make_world(self._browsers, self._sites)

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        return [MiniwobScorer(self._environment.threshold), AssertionScorer(judge)]


def _choose(wanted: list[str] | Literal["all"], package: MiniwobPackage) -> Sequence[str]:
    """The kinds of pages that were asked for, in the order of the package."""
    if wanted == "all":
        return package.task_types
    for name in wanted:
        if name in EXCLUDED:
            raise ConfigError(f"suite_params.tasks: {name} cannot be played: {EXCLUDED[name]}")
        if name not in package.task_types:
            raise ConfigError(f"suite_params.tasks: there is no {name!r}; there are: {', '.join(package.task_types)}")
    if not wanted:
        raise ConfigError("suite_params.tasks: is empty; expected kinds of pages, or all")
    return [name for name in package.task_types if name in wanted]


def _settings(given: MiniwobParams) -> WebSettings:
    fixed = sorted({"mode", "sites", "hosts", "private_hosts"} & given.web.keys())
    if fixed:
        raise ConfigError(
            f"suite_params.web: {', '.join(fixed)}: leave out; mode stands beside web, the others are the suite's own"
        )
    try:
        return WebSettings.model_validate(WINDOW | given.web | {"mode": given.mode})
    except ValidationError as error:
        problems = [describe_problem(problem, WebSettings) for problem in error.errors(include_url=False)]
        raise ConfigError(f"suite_params.web.{'; suite_params.web.'.join(problems)}") from None


def _make_task(name: str, number: int) -> Task:
    return Task(
        id=f"{name}/{number}",
        messages=(Message(role="user", content=f"Reach the goal of the page {name}."),),
        info={
            "website": f"http://{host_of(SITE)}{MiniwobPackage.page_of(name)}",
            "miniwob": {"task_type": name, "seed": number},
        },
    )
