"""MiniWoB++: more than 100 kinds of small pages, each with a goal and a reward, from the package `miniwob` (MIT).

A task is a kind of page and a seed (`click-button/3`), which fixes the goal and everything on the page. The pages are
served at `http://miniwob.test/` and played in the run's browsers by the ordinary tools of the web, and `drag`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError

from rollout.config.browsing import WebMode, WebSettings
from rollout.config.models import User
from rollout.config.params import read_params
from rollout.config.problems import describe_problem
from rollout.config.section import Section
from rollout.core.errors import ConfigError, WorldError
from rollout.core.messages import JSON, Message, Toolset
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.suites.miniwob.package import EXCLUDED, MiniwobPackage
from rollout.environments.suites.miniwob.scorer import MiniwobScorer
from rollout.environments.suites.miniwob.world import MiniwobWorld
from rollout.environments.suites.suite import SeedOf
from rollout.environments.web.actions import drag_tool, toolset_of
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.sites import Sites, host_of
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList

SITE = "miniwob"
WINDOW = {"width": 332, "height": 214}
"""The task itself takes 160 by 210 pixels; some menus and calendars open beside it."""
NOT_OFFERED = frozenset({"navigate", "goback", "answer"})
"""A task is one page, and the page says when it is over."""
POLICY = """\
You act in a small web page that has one goal, which is told with every view of the page.
Do what the goal says and nothing else: a wrong click often ends the task, and it cannot be taken back.
Look at the page after each action. The task is over when you are told so; many pages want a last click on Submit.\
"""


class Params(Section):
    """What `suite_params` may say."""

    tasks: list[str] | Literal["all"] = "all"
    """Kinds of pages by name, or `all`."""
    seeds: int = Field(5, ge=1)
    """Tasks of each kind, which differ in what is asked for and shown."""
    first_seed: int = Field(0, ge=0)
    """The seed of the first task of each kind: other seeds are other tasks."""
    mode: WebMode = "set_of_marks"
    """How pages are shown, and acted on: `coordinates`, `set_of_marks` or `text`."""
    web: dict[str, Any] = Field(default_factory=dict)
    """Further keys of `datasets.<name>.web`, such as coordinate_range."""
    data_mode: Literal["train", "test"] = "train"
    """Five kinds have other contents for testing."""
    threshold: float = Field(0.75, gt=0, le=1)
    """The raw reward that is enough in the few kinds where it measures a distance; the very middle of a circle is worth
    about 0.92 to the page. In all others it must be 1."""


class Miniwob:
    """The suite `miniwob`."""

    policy: str | None = POLICY
    user: User | None = None
    user_guidelines: str | None = None
    max_turns = 1
    max_steps_per_turn = 10
    tools_of: Callable[[Task, int], Toolset] | None = None

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = given = read_params(Params, params, "suite_params")
        package = MiniwobPackage()
        chosen = _choose(given.tasks, package)
        self._settings = _settings(given)
        self._folder = package.folder
        self._browsers: BrowserPool | None = None
        self._sites = Sites()
        numbers = range(given.first_seed, given.first_seed + given.seeds)
        tasks = [_make_task(name, number) for name in chosen for number in numbers]
        self.tasks = TaskList(f"miniwob {package.version} ({len(chosen)} kinds, {given.seeds} of each)", tasks)
        self.identity: JSON = {
            "version": package.version,
            "tasks": list(chosen),
            "seeds": [numbers.start, numbers.stop],
            "data_mode": given.data_mode,
            "threshold": given.threshold,
            "web": self._settings.model_dump(mode="json"),
        }
        offered = [spec for spec in toolset_of(self._settings).specs if spec.name not in NOT_OFFERED]
        self.toolset = Toolset((*offered, drag_tool(self._settings)))

    def use_browsers(self, browsers: BrowserPool) -> Callable[[], Awaitable[None]]:
        """Take the run's browsers."""
        browsers.check()
        self._browsers = browsers
        self._sites = Sites({SITE: self._folder})
        return self._sites.close

    def make_world(self, timeout: float) -> MiniwobWorld:
        if self._browsers is None:
            raise WorldError("the suite miniwob has no browsers; use_browsers gives it those of the run")
        return MiniwobWorld(self._browsers, self._settings, self._sites, self.toolset, self._params.data_mode)

    def user_world(self, task: Task, world: World) -> World | None:
        return None

    def scorers(self, seed_of: SeedOf, timeout: float) -> Sequence[Scorer]:
        return [MiniwobScorer(self._params.threshold)]


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


def _settings(given: Params) -> WebSettings:
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
