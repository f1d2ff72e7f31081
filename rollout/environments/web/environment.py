"""Web pages in real browsers as an environment (`web`)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rollout.agents.monitor import FruitlessCalls, MonitorRules
from rollout.config.browsing import WebSettings
from rollout.config.models import AgentConfig
from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.core.world import SeedOf, World
from rollout.environments.environment import FileEnvironment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.environments.web.actions import GOBACK, toolset_of
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.interaction import NOTHING_BEFORE
from rollout.environments.web.prompts import web_prompt
from rollout.environments.web.rates import WebRates
from rollout.environments.web.refusals import RefusedHosts
from rollout.environments.web.scoring.answer import AnswerScorer
from rollout.environments.web.scoring.pages import CheckScorer
from rollout.environments.web.scoring.rubric import BlockedScorer, RubricScorer, WebJudge
from rollout.environments.web.sites import Sites, load_sites
from rollout.environments.web.world import BrowserWorld
from rollout.models.builtin.oracle import ORACLE
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.trajectories.measure import MakeMeasure
from rollout.trajectories.stop import StopReason


class WebEnvironment(FileEnvironment):
    """Each attempt has a browser context of its own. A site is not what it was when the attempt is over, so what was
    scored in the live page is kept when the attempt is scored again."""

    rescoring = "recorded"

    def __init__(
        self, name: str, settings: WebSettings, path: Sequence[Path], irreversible: Sequence[str] = ()
    ) -> None:
        super().__init__(name, path)
        self.settings = settings
        self._irreversible = irreversible
        # Not what only says how long something may take, nor `assets`, which runs of earlier versions had not.
        shaping = settings.model_dump(mode="json", exclude_defaults=True, exclude={"assets"})
        # Which actions are offered is part of the tools, which every dataset records.
        shaping.pop("actions", None)
        self.identity = {"web": {key: value for key, value in shaping.items() if not key.endswith("_timeout")}}
        self.traits = Traits(
            must_call=True,
            do_actions_name_tools=False,
            has_prompts=True,
            images_only="web.mode coordinates" if settings.mode == "coordinates" else None,
        )

    @classmethod
    def from_dataset(cls, name: str, dataset: Dataset) -> WebEnvironment:
        """The environment that a dataset's `web` describes."""
        assert dataset.web is not None
        if dataset.mcp_domain is not None or dataset.tools or dataset.mcpServers:
            raise ConfigError(f"datasets.{name}.web: replaces mcp_domain, tools and mcpServers; leave these out")
        return cls(name, dataset.web, dataset.path, dataset.irreversible)

    def system_for(self, agent: AgentConfig) -> str | None:
        return web_prompt(agent.prompt or "plain", self.settings, agent.tool_format)

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        # In a browser the same call again is often right: scrolling.
        return goback_rule(config)

    def warnings(self, agent: AgentConfig) -> list[str]:
        if agent.model != ORACLE or self.settings.mode != "coordinates":
            return []
        return [
            f"{ORACLE} looks for elements in the list of an observation, and the mode coordinates has none; use "
            "set_of_marks, text or accessibility_tree"
        ]

    def measures(self) -> Sequence[MakeMeasure]:
        return (WebRates, RefusedHosts)

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        try:
            if makes_worlds:
                run_browsers(resources).check()
            sites = load_sites(self.settings.sites)
        except ConfigError as error:
            raise ConfigError(f"datasets.{self.name}.web: {error}") from error
        try:
            opened = OpenWeb(self.settings, sites, resources, self._irreversible)
        except ConfigError as error:
            raise ConfigError(f"datasets.{self.name}.web.{error}") from error
        try:
            yield opened
        finally:
            await sites.close()


class OpenWeb(OpenEnvironment):
    """Pages in use: the sites that are served for them, in the run's browsers."""

    def __init__(
        self, settings: WebSettings, sites: Sites, resources: Resources, irreversible: Sequence[str] = ()
    ) -> None:
        super().__init__(toolset_of(settings))
        self._irreversible = irreversible
        self.settings = settings
        self._sites = sites
        self._resources = resources

    def make_world(self, task: Task) -> World:
        return BrowserWorld(run_browsers(self._resources), self.settings, self._sites, irreversible=self._irreversible)

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        web_judge = None if judge is None else WebJudge(judge)
        return [
            CheckScorer(),
            AnswerScorer(has_judge=judge is not None),
            RubricScorer(web_judge),
            BlockedScorer(web_judge),
            AssertionScorer(judge),
        ]


def run_browsers(resources: Resources) -> BrowserPool:
    """The browsers of a run. They are started when the first world needs one."""
    return resources.share(BrowserPool, lambda: BrowserPool(**resources.config.browsers.model_dump()))


def goback_rule(config: Config) -> MonitorRules:
    """The one rule for browsers: going back again and again with nothing to go back to."""
    most = config.monitor_max_failed_gobacks
    return MonitorRules(fruitless=FruitlessCalls(GOBACK, NOTHING_BEFORE, most, StopReason.MONITOR_GOBACKS))
