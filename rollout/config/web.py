"""Every key of a web rollout, as `rollout web` takes them. Their defaults are in the YAML files of `web/` beside this.

The groups and their keys are WebGym's, and keep their meaning where they have one here; `NO_EFFECT` says of the
others why they have none. What WebGym does not have is beside the groups. Composing them with Hydra is in
`rollout.config.compose`, what becomes of them in `rollout.config.web_run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from rollout.config.browsing import Browsers, WebMode, WebSettings
from rollout.config.cluster import Cluster, RankWeights, cluster_shorthand
from rollout.config.section import Section
from rollout.config.shipped import ShippedPath

Split = Literal["train", "test"]


class ModelConfig(Section):
    """How the agent's model is spoken to."""

    model_type: Literal["qwen3-instruct", "qwen3-think", "computer_use", "native"]
    """qwen3-instruct, qwen3-think: tool calls are written as text between `<tool_call>` tags; of qwen3-think earlier
    thoughts are not sent back. computer_use: the same with one tool, `computer_use` or `web_interaction`, for models
    that were trained on it. native: the server's own tool calls, for any other model."""
    prompt_version: Literal["complete", "vanilla"]
    """complete: the model answers in the parts Memory, Progress, Intention, Action. vanilla: an action is enough."""


class PolicyConfig(Section):
    """The agent's model and how it is sampled."""

    huggingface_token_env_var: str | None
    base_model: str | None
    """The model as `env_config.vllm_server_url` serves it, or `builtin/oracle`, `provider/model`, `module:Class`, a
    name in `models_config_file`. `vllm/…` always means the server."""
    checkpoint_path: str | None
    """Below `save_path`: where it is there, the server is asked for it instead of `base_model`."""
    max_new_tokens: int = Field(ge=1)
    """An answer is cut there."""
    temperature: float = Field(ge=0)
    """0 is greedy."""
    top_p: float = Field(gt=0, le=1)
    """Nucleus sampling."""
    top_k: int | None = Field(ge=-1)
    """Sample among the k likeliest tokens; -1 or 0: among all. Sent to `vllm_server_url` only."""
    min_p: float | None = Field(ge=0, le=1)
    """Leave out tokens below this share of the likeliest. Sent to `vllm_server_url` only."""
    params: dict[str, float]
    """For `builtin/oracle`: how often it errs, as `agent.params` of a dataset."""


class ContextConfig(Section):
    """What the agent is shown."""

    interaction_mode: WebMode
    """coordinates: a screenshot, acted on by points from 0 to 1000. set_of_marks: a screenshot with numbered elements.
    text: the page as text. accessibility_tree: roles, names and text as a tree."""
    max_rounds: int | None = Field(ge=1)
    """So many rounds before the present one are sent whole; older ones as a line each. null: all."""
    max_images: int | None = Field(ge=1)
    """How many of the last screenshots are sent, the present one included. null: all."""


class JudgePart(Section):
    """One of the judge's jobs, where it has a model of its own."""

    model: str | None
    """Instead of `openai_config.model`."""
    openai_api_key_env_var: str | None
    """Replaces the value of `openai_config`."""
    base_url: str | None
    """Replaces the value of `openai_config`."""


class OpenAIConfig(Section):
    """The judge: any OpenAI-compatible server."""

    model: str
    """Where a job has no model of its own."""
    openai_api_key_env_var: str | None
    """The environment variable that holds the key; null: the server wants none. Where it is not set, rubrics stay
    unjudged, which is said once."""
    base_url: str
    """The server's address."""
    keypoint_detection: JudgePart
    blocking_detection: JudgePart
    evaluation: JudgePart
    """Who judges rubrics, and blocking where the rules are unsure: what is not null replaces the above."""


class StepLimits(Section):
    """Steps that a task may take, by its difficulty."""

    easy: int = Field(ge=1)
    """Difficulty 1 to 3."""
    medium: int = Field(ge=1)
    """Difficulty 4 to 6."""
    hard: int = Field(ge=1)
    """Difficulty 7 and more."""


class DifficultyRange(Section):
    """A part of a sample."""

    range: tuple[int, int]
    """The lowest and the highest difficulty, both included."""
    weight: float = Field(ge=0)
    """Its share, relative to the weights of the others."""

    @model_validator(mode="after")
    def _lowest_first(self) -> DifficultyRange:
        if self.range[0] > self.range[1]:
            raise ValueError(f"range: {self.range[0]} is more than {self.range[1]}; expected [lowest, highest]")
        return self


class HttpPools(Section):
    """WebGym's processes for calls to its browser service; there is none here."""

    navigate: int
    screenshot: int
    ac_tree: int
    metadata: int
    page_metadata: int
    execute: int
    allocate: int
    release: int


class EnvConfig(Section):
    """Tasks, browsers, limits."""

    split: Split
    """Which tasks, and where trajectories go."""
    train_tasks: str
    """The training tasks, below `data_path`."""
    train_tasks_rollout_size: int
    """Training tasks of one iteration."""
    train_tasks_sampler: Literal["uniform", "ratio"]
    """uniform, or by the weights of `difficulty_ratio`."""
    train_difficulty_max_steps: StepLimits | list[int]
    """Steps of training tasks; a list has a number for each difficulty from 1 on, the last for all beyond."""
    test_tasks: str
    """The test tasks, below `data_path`."""
    test_tasks_rollout_size: int
    """Only this many test tasks, from the first on; 0 or less: all."""
    test_tasks_repeat_times: int
    """Attempts at each test task; less than 1 is 1."""
    test_difficulty_max_steps: StepLimits | list[int]
    """Steps of test tasks."""
    difficulty_ratio: dict[str, DifficultyRange]
    """For the sampler `ratio`: `{name: {range: [lowest, highest], weight: …}}`. Without it, or where all weights are 0,
    sampling is uniform."""
    deduplicate_across_iterations: bool
    """Leave out training tasks that an earlier iteration had."""
    server_size: int = Field(ge=1)
    """Browser contexts, and so live episodes, at once."""
    vllm_server_url: str | None
    """The OpenAI-compatible server of the agent's model, without `/v1`. null: `base_model` names a provider."""
    max_vllm_sessions: int = Field(ge=1)
    """Requests to the agent's model at once."""
    vllm_timeout: float = Field(gt=0)
    """Seconds for one request to it."""
    max_retries: int = Field(ge=0)
    """Further tries after a transient error of a model's server."""
    task_timeout_minutes: float = Field(gt=0)
    """Minutes for one trajectory; one that takes longer is truncated."""
    completion_threshold: float = Field(gt=0)
    """When this share of the trajectories is done, the others have `completion_grace_period`; then they are recorded as
    `cut`. 1 or more: every one is waited for."""
    completion_grace_period: float = Field(ge=0)
    """Seconds."""
    evaluation_workers: int = Field(ge=1)
    """Requests to the judge at once."""
    verbose: bool
    """Print what agent and browser say."""
    resume_checkpoint_path: str | None
    """A file or folder with `iteration<N>` in its name: go on with that iteration, also with what failed in it."""
    cpu_cluster_token_env_var: str | None
    host_ip: str | None
    master_port: int
    use_rich_actree: bool
    wait_timeout: float
    operation_timeout: float
    screenshot_comparison_workers: int
    instance_lifetime_max: float
    http_pools: HttpPools
    save_traj_progress: bool
    save_every_percent: float
    max_steps: Any
    multinode_rank_suffix: str | None
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    multinode_rank: int
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    multinode_total_workers: int
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    total_workers: int
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    test_rank: int
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    test_total_workers: int
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    rank_load_weight: float
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    total_load_weight: float
    """Accepted where it says that there is one rank: one command runs all of them (`cluster`, `rank_weights`)."""
    all_rank_weights: RankWeights
    """The same as `rank_weights`."""

    @model_validator(mode="after")
    def _one_machine(self) -> EnvConfig:
        several = [
            key for key in ("multinode_total_workers", "total_workers", "test_total_workers") if getattr(self, key) > 1
        ]
        ranked = [key for key in ("multinode_rank", "test_rank", "multinode_rank_suffix") if getattr(self, key)]
        if self.rank_load_weight != self.total_load_weight:
            several.append("rank_load_weight")
        if several or ranked:
            raise ValueError(
                f"{(several or ranked)[0]}: ranks are not started one by one here; one command runs them all: leave "
                "the keys multinode_*, *_rank, *total_workers and *load_weight out, and give cluster=auto "
                'rank_weights="2,1,1"'
            )
        return self


BROWSERS_HERE = "browsers run in this process; there is no browser service to ask"
NO_EFFECT: dict[str, str] = {
    "policy_config.huggingface_token_env_var": "nothing is fetched from a hub",
    "openai_config.keypoint_detection": "the judge is shown the last screenshots; none are chosen beforehand",
    "openai_config.blocking_detection": "rules see whether a site blocks; where they are unsure, evaluation does",
    "env_config.cpu_cluster_token_env_var": BROWSERS_HERE,
    "env_config.host_ip": BROWSERS_HERE,
    "env_config.master_port": BROWSERS_HERE,
    "env_config.http_pools": BROWSERS_HERE,
    "env_config.wait_timeout": "every wait has a deadline of its own: see web.*_timeout",
    "env_config.operation_timeout": "an action has web.step_timeout, a start page web.open_timeout",
    "env_config.instance_lifetime_max": "a browser is replaced by use and growth: see browsers.max_served",
    "env_config.use_rich_actree": "elements always come with role and name",
    "env_config.screenshot_comparison_workers": "screenshots are compared by their hashes",
    "env_config.save_traj_progress": "every step is journalled as it happens",
    "env_config.save_every_percent": "every step is journalled as it happens",
    "env_config.max_steps": "steps follow from the difficulty, or from a task's own max_steps",
}
"""Keys that are accepted for the sake of configurations that have them, and why they do nothing."""


class WebConfig(Section):
    """A whole web rollout."""

    save_path: Path
    """Where everything of an experiment goes; made if it is not there."""
    data_path: ShippedPath
    """The folder with the task files."""
    env_config: EnvConfig
    policy_config: PolicyConfig
    context_config: ContextConfig
    model_settings: ModelConfig = Field(alias="model_config")
    openai_config: OpenAIConfig
    seed: int = Field(ge=0)
    """Which tasks are drawn, and all else that is random, derives from it and the iteration's number."""
    resume: bool
    """Resume an unfinished iteration. false: begin the next one."""
    samples: int = Field(ge=1)
    """Attempts at each training task."""
    blocklist_hours: float = Field(ge=0, le=1_000_000)
    """How long a site that was found blocked is left out of training."""
    models_config_file: ShippedPath | None
    """A registry of models, as `rollout run` takes it."""
    max_cost: float | None = Field(gt=0)
    """Pause when the models have cost this many dollars."""
    sites: list[str]
    """Sites that are served while it runs, each at `http://<name>.test/`: shipped ones, folders, `module:function`."""
    web: WebSettings
    """Whatever else is said of pages, as `datasets.<name>.web` of `rollout run` has it: hosts, private_hosts,
    image_format, timeouts…"""
    browsers: Browsers
    """The browsers, as `browsers` of `rollout run` has them."""
    cluster: Annotated[Cluster, BeforeValidator(cluster_shorthand)] | None
    """Spread the rollout over a Ray cluster: auto, local, an address, or the keys of `cluster` of `rollout run`."""
    rank_weights: RankWeights
    """One weight for each rank, as `"2,1,1"`: its share of `server_size` and of the tasks. Without `cluster`, on the
    cluster that this machine belongs to."""
    keep_rank_files: bool
    """Whether the files of single ranks stay when the file of all is there and was checked."""

    @field_validator("save_path", "data_path", mode="before")
    @classmethod
    def _is_given(cls, value: Any) -> Any:
        if value in (None, "", "???"):
            raise ValueError("it has to be given, as in save_path=/data/exp1 data_path=/data/tasks")
        return value

    @property
    def on_cluster(self) -> Cluster | None:
        """The cluster to run on, with the weights of its ranks; None: this process does everything."""
        weights = self.rank_weights or self.env_config.all_rank_weights
        if weights is None:
            return self.cluster
        return (self.cluster or Cluster()).model_copy(update={"rank_weights": weights})

    @property
    def split(self) -> Split:
        """train or test."""
        return self.env_config.split

    @property
    def tasks_path(self) -> Path:
        """The task file of the split."""
        env = self.env_config
        return self.data_path / (env.train_tasks if env.split == "train" else env.test_tasks)

    @property
    def attempts(self) -> int:
        """Attempts at each task."""
        return self.samples if self.split == "train" else max(1, self.env_config.test_tasks_repeat_times)

    def max_steps_of(self, difficulty: int) -> int | None:
        """The steps that a task of this difficulty may take; None where nothing says it."""
        env = self.env_config
        limits = env.train_difficulty_max_steps if env.split == "train" else env.test_difficulty_max_steps
        if isinstance(limits, list):
            return limits[min(difficulty, len(limits)) - 1] if limits else None
        return limits.easy if difficulty <= 3 else limits.medium if difficulty <= 6 else limits.hard


def describe_keys() -> str:
    """Every key by its group, as `--help` shows them."""
    sections = groups()
    own = [key for key in WebConfig.model_fields if key not in sections and key != "model_settings"]
    listed = {"By themselves": own, **{name: list(section.model_fields) for name, section in sections.items()}}
    lines = [f"{name}: {', '.join(keys)}" for name, keys in listed.items()]
    return "\n\n".join(["Keys; docs/reference/web.md says what each means.", *lines])


def groups() -> dict[str, type[Section]]:
    """The groups of keys, by name."""
    return {
        field.alias or name: field.annotation
        for name, field in WebConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }
