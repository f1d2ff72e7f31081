"""Every key of a configuration file, with its meaning. The text under a field is what `--help` and the docs show.

AgentSkiller's keys keep their names and meanings; what it does not have (timeouts, retries, seeds, samples, budgets)
is beside them. Unknown keys are refused. Reading a file, `${VAR}` and error texts are in `rollout.config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from rollout.config.browsing import Browsers, WebSettings
from rollout.config.cluster import Cluster, cluster_shorthand
from rollout.config.exploring import Comparison, Dynamic, StrategyChoice, strategy_shorthand
from rollout.config.filters import Filters
from rollout.config.models import AgentConfig, LocalModel, ModelEntry, UserConfig, model_shorthand
from rollout.config.names import FileName
from rollout.config.section import Section
from rollout.config.servers import McpServer, MockServers
from rollout.config.shipped import ShippedPath

Mode = Literal["positive", "no_tool", "wrong_tool"]
MAX_TURNS = 20
"""User messages in a conversation with a user, at most, by default."""


class Timeouts(Section):
    """Every wait has an end. Seconds."""

    connect: float = Field(10.0, gt=0)
    """Opening a connection to a model's server."""
    request: float = Field(120.0, gt=0)
    """One request to a model, from sending to the last byte."""
    tool: float = Field(60.0, gt=0)
    """One tool call. A call that takes longer becomes an error observation."""
    episode: float = Field(3600.0, gt=0)
    """One whole conversation. One that takes longer is truncated."""
    scoring: float = Field(600.0, gt=0)
    """Scoring one conversation, a judge's answers included. What takes longer is unscored."""
    grace: float = Field(10.0, ge=0)
    """How long live work may go on after Ctrl-C or SIGTERM."""


class Retries(Section):
    """Tries again after transient errors only (429, 5xx, broken connections, answers that are no answers)."""

    attempts: int = Field(5, ge=1)
    """Tries in all, the first included."""
    first_wait: float = Field(0.5, ge=0)
    """Seconds before the second try; doubled each time, with jitter. A Retry-After is honoured."""
    max_wait: float = Field(60.0, ge=0)
    """The longest wait between two tries, unless a Retry-After asks for more."""
    max_elapsed: float = Field(600.0, ge=0)
    """No new try begins later than this after the first."""


def _one_or_several(value: Any) -> Any:
    """`path: a.jsonl` is `path: [a.jsonl]`."""
    return value if isinstance(value, list) or value is None else [value]


class Scoring(Section):
    """How finished conversations are scored."""

    decide: list[str] | None = None
    """The scorers on which `success` depends: state, actions, communicate, milestones, minefields, nl_assertions; in
    browsers answer, checks, rubric; or a custom one's name. By default everything that the task declares, and actions
    only where there is no state to compare."""
    judge: str | None = None
    """The model that judges `task_info.nl_assertions` and `task_info.rubric`. Without it they stay unjudged."""
    judge_attempts: int = Field(3, ge=1)
    """Tries until the judge's answer is one that can be used."""
    judge_max_tokens: int | None = Field(None, ge=1)
    """The most tokens of the judge's answers; by default the registry's limit."""
    judge_images: int = Field(8, ge=1)
    """Screenshots of a web trajectory that the judge is shown, the last ones, where its registry entry has `images`."""
    custom: list[str] = []
    """Scorers of your own, as `module:Name` or the name of an entry point in the group `rollout.scorers`."""


def default_max_turns(given: dict[str, Any]) -> int:
    """The `max_turns` of a dataset that sets none: a user that is configured is used."""
    return 1 if given.get("user") is None else MAX_TURNS


class Dataset(Section):
    """One set of tasks and how they are rolled out."""

    path: Annotated[list[ShippedPath], BeforeValidator(_one_or_several)] = []
    """The tasks, one JSON object a line; a file or a list of files. By default `queries/<mcp_domain>.jsonl` below
    `base_path`."""
    environment: str | None = None
    """An environment of your own: `module:Name`, or the name of an entry point in the group `rollout.environments`.
    Instead of `suite`, `mcp_domain`, `tools`, `mcpServers`, `web`, `base_path` and `policy`; `path` replaces its
    tasks."""
    environment_params: dict[str, Any] = {}
    """Keyword arguments for the class or function that `environment` names."""
    suite: str | None = None
    """Tasks that others wrote, with their tools, users and scoring: `bfcl_multi_turn`, `miniwob`, `tau2`, or
    `module:Name`. Instead of `path`, `mcp_domain`, `tools`, `base_path`, `policy` and `mode`."""
    suite_params: dict[str, Any] = {}
    """Keyword arguments for the suite; each suite has its own."""
    output_path: Path | None = None
    """Where finished trajectories go. By default `./outputs/<name>.jsonl`."""
    mcp_domain: str | None = None
    """The domain, or several fused by `_`."""
    tools: list[str] = []
    """Servers of the domain, by name; without `mcp_domain`: Python functions, as `module:function`."""
    mcpServers: dict[str, McpServer] = {}
    """Real MCP servers whose tools the agent is offered, by name, instead of `mcp_domain` and `tools`."""
    web: WebSettings | None = None
    """Browsers are where the agent acts, from each task's `task_info.website` on; instead of `mcp_domain` and `tools`.
    `{}` takes every default."""
    base_path: ShippedPath | None = None
    """Holds mcp_servers, tool_lists, policies, queries and database. By default the shipped examples."""
    policy: ShippedPath | None = None
    """A policy file other than the domain's own."""
    agent: Annotated[AgentConfig, BeforeValidator(model_shorthand)] = AgentConfig()
    """Who acts. A bare model name is short for `{model: …}`."""
    user: Annotated[UserConfig, BeforeValidator(model_shorthand)] | None = None
    """Whom the agent talks to. Needed where `max_turns` is more than 1."""
    max_turns: int = Field(default_factory=default_max_turns, ge=1)
    """User messages at most. By default 20 where there is a `user`, else 1. 1: the agent answers the task's opening and
    no user replies."""
    max_steps_per_turn: int = Field(10, ge=1)
    """Answers of the agent in one turn, tool calls included."""
    mode: Mode = "positive"
    """positive: the domain's tools. no_tool: none. wrong_tool: only the task's own `tools`, which cannot help."""
    samples: int = Field(1, ge=1)
    """Attempts at each task, for the strategy `chain`."""
    strategy: Annotated[StrategyChoice, BeforeValidator(strategy_shorthand)] = StrategyChoice()
    """How a task is explored. A bare name is short for `{name: …}`."""
    record_states: bool = False
    """Record the key of the world's state that each step started from, as `metadata.states`: for advantages that
    compare steps from the same state (GiGPO)."""
    limit: int | None = Field(None, ge=1)
    """Only this many tasks, from the first on."""
    seed: int | None = None
    """Instead of the run's."""
    irreversible: list[str] = []
    """Tools whose calls must never be made again to bring a world back (paying, sending mail), by their offered names.
    Behind such a call nothing branches by replay, and a stopped conversation is not resumed but recorded as `cut`."""
    scoring: Scoring = Scoring()
    """What counts as solved, and who judges."""
    reward: str | None = None
    """What an attempt is worth: success, partial, scores, score:NAME, partial:NAME, or a function of your own as
    module:function, which is given the trajectory. By default success, and the scorer's own value where a single custom
    scorer decides. Streamed groups, dynamic sampling, early stops, filters and training data use it unless they name
    another rule; mcts too, whose default is partial."""
    filters: Filters | None = None
    """Filters of this dataset. Keys that are missing here are those of the top-level `filters`."""


class AutoDiscover(Section):
    """Datasets made of every cross-domain combination found below `base_path`."""

    base_path: ShippedPath | None = None
    """By default the shipped cross-domain examples."""
    output_dir: Path = Path("./outputs")
    """Each combination writes `<output_dir>/<name>.jsonl`."""
    min_domains: int = Field(2, ge=1)
    """Servers that a combination must have."""
    require_policy: bool = False
    """Only combinations with a policy file."""
    agent_model: str | None = None
    """By default the top-level `agent_model`, then openai/deepseek-v3.2."""
    user_model: str | None = None
    """By default the top-level `user_model`, then openai/gpt-5."""
    agent_temperature: float = Field(0.7, ge=0)
    """As in `agent`."""
    user_temperature: float = Field(1.0, ge=0)
    """As in `user`."""
    enable_thinking: bool = True
    """As in `agent`."""
    max_turns: int = Field(MAX_TURNS, ge=1)
    """As in a dataset."""
    max_steps_per_turn: int = Field(10, ge=1)
    """As in a dataset."""
    mode: Mode = "positive"
    """As in a dataset."""
    filter_domains: list[str] = []
    """Only combinations that hold one of these."""
    exclude_domains: list[str] = []
    """No combination that holds one of these."""


class Tail(Section):
    """When a run stops waiting for its last attempts. Those are recorded as `cut`."""

    threshold: float = Field(0.95, gt=0, le=1)
    """The share of trajectories that must be done."""
    grace: float = Field(30.0, ge=0)
    """Seconds that the others have from then on."""


class Config(Section):
    """A whole configuration file."""

    max_workers: int = Field(32, ge=1)
    """Live conversations at once, over all datasets."""
    resume: bool = True
    """Go on where the last run stopped. false starts a new run and moves the old one aside."""
    use_checkpoints: bool = True
    """Keep every node in the journal, so that a conversation resumes in its middle. false keeps finished ones only."""
    checkpoint_dir: Path | None = None
    """Where the run directory is made, as `<checkpoint_dir>/<config name>`."""
    run_dir: Path | None = None
    """The run directory. By default `./runs/<config name>`."""
    journal_sync: Literal["normal", "full"] = "normal"
    """normal: a commit survives the death of the process. full: also of the machine, at a price."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """What goes into `log_file`; warnings also go to the terminal."""
    log_file: Path | None = None
    """Its folder is made."""
    verbose: bool = False
    """Print agent, user and tools as they speak."""
    verbose_colors: bool = True
    """Colours in what `verbose` prints."""
    verbose_max_length: int = Field(500, ge=0)
    """Characters of one printed message; 0 prints all."""
    enable_monitor: bool = True
    """End conversations that lead nowhere."""
    monitor_rule_detection: bool = False
    """Also end on words of farewell."""
    monitor_max_no_tool_turns: int = Field(5, ge=0)
    """End after this many turns in a row without a tool call. A turn or two of asking back or refusing is normal.
    0 switches the rule off."""
    monitor_max_repeats: int = Field(3, ge=0)
    """End when the agent sends the same message, or makes the same call, this many times in a row. 0 switches the rule
    off."""
    monitor_max_empty_replies: int = Field(2, ge=0)
    """Empty replies of the agent in a row; 0 switches the rule off."""
    monitor_max_failed_gobacks: int = Field(3, ge=0)
    """For datasets with `web`, the one rule there: calls of `goback` in a row with nothing to go back to; 0 switches
    it off."""
    monitor_use_llm_judge: bool = False
    """Ask a judge model after each turn whether the conversation is over. No clear verdict is no verdict."""
    monitor_judge_model: str = "gpt-4o-mini"
    """The judge."""
    agent_model: str | None = None
    """For `auto_discover`."""
    user_model: str | None = None
    """For `auto_discover`."""
    models: dict[str, ModelEntry] = {}
    """The registry of models, by name."""
    models_config_file: ShippedPath | None = None
    """A file with more of the registry, under `models:`."""
    local: LocalModel = LocalModel()
    """How the server of `local/…` models is started."""
    mock_servers: MockServers = MockServers()
    """Where the Python classes of mock domains run."""
    browsers: Browsers = Browsers()
    """The browsers of datasets with `web`."""
    cluster: Annotated[Cluster, BeforeValidator(cluster_shorthand)] | None = None
    """Spread the run over a Ray cluster: auto, local, or an address. By default this process does everything."""
    dynamic: Dynamic | None = None
    """By default every task is opened."""
    compare: Comparison = Comparison()
    """For `rollout compare`."""
    tail: Tail | None = None
    """By default a run waits for every trajectory."""
    datasets: dict[FileName, Dataset] = {}
    """What to roll out, by name. A name becomes a file's name: no slashes, no dot in front, no control characters."""
    auto_discover: AutoDiscover | None = None
    """Make datasets of all cross-domain combinations found on disk."""
    filters: Filters = Filters()
    """What is not to be learnt: marks that `rollout filter` makes."""
    seed: int = Field(0, ge=0)
    """Everything random derives from it: same seed, same run."""
    max_cost: float | None = Field(None, gt=0)
    """Pause the run when the models have cost this much; raise it and resume to go on."""
    timeouts: Timeouts = Timeouts()
    """Every wait has an end."""
    retries: Retries = Retries()
    """How often a transient error is tried again."""
