"""The script of a stub server: what it answers, how late, and what goes wrong.

A script is YAML, JSON or a dict. Its rules are tried from the top and the first one whose `when` holds gives the reply;
a rule with only a `fault` adds that fault and lets the search go on. Behind the script's own rules stand the default
ones (`default_rules`), so an empty script already plays an agent that calls tools and a user who says goodbye.

Everything is checked when the script is read; a mistake is a ConfigError that names the file and the key.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeFloat, ValidationError, model_validator

from rollout.core.errors import ConfigError

FaultKind = Literal[
    "status", "overload", "error500", "unavailable", "context_length", "html",
    "reset", "refuse_close", "hang", "trickle", "slow",
    "invalid_json", "empty_choices", "no_message", "wrong_types", "null_content_no_calls",
    "broken_arguments", "unknown_tool", "duplicate_call_ids", "length", "huge",
]  # fmt: skip
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

Times = Annotated[int, BeforeValidator(lambda value: sys.maxsize if value == "always" else value), Field(ge=1)]


class ScriptSection(BaseModel):
    """A part of a script: cannot be changed, and refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Latency(ScriptSection):
    """Seconds before an answer. A number stands for always the same."""

    min: NonNegativeFloat = 0.0
    max: NonNegativeFloat = 0.0

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"min": value, "max": value} if isinstance(value, int | float) else value

    @model_validator(mode="after")
    def _check_order(self) -> Latency:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Span(ScriptSection):
    """A count: a number for exactly that, or `{min, max}`, both included."""

    min: int = 0
    max: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"min": value, "max": value} if isinstance(value, int) else value


class Fault(ScriptSection):
    """Something that goes wrong. A bare kind stands for `{kind: …}`."""

    kind: FaultKind
    rate: float = Field(default=1.0, ge=0, le=1)
    """The chance for each attempt, decided by the seed, the request's body and how often that body came before."""
    times: Times = 1
    """A body that met faults this many times in a row is spared this one; with 1 a retry succeeds. Or `always`."""
    status: int | None = Field(default=None, ge=400, le=599)
    """For kind `status`; 500 when absent."""
    retry_after: float | str | None = None
    """The header Retry-After: seconds, or a text that is sent as it is. `overload` says 1 when absent."""
    retry_after_as: Literal["seconds", "date"] = "seconds"
    """Whether the seconds are sent as a number or as the date they lead to."""
    delay: NonNegativeFloat | None = None
    """Seconds more before the answer (`slow`: 1 when absent); for `trickle` the seconds between bytes (0.05)."""
    size: int = Field(default=4_000_000, ge=1)
    """Characters of a `huge` answer."""
    model: str | None = None
    """Only for models whose name fits this glob."""

    @model_validator(mode="before")
    @classmethod
    def _from_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class When(ScriptSection):
    """What a rule asks of a request. All that is given must hold."""

    model: str | None = None
    """A glob for the model's name."""
    turn: Span | None = None
    """User messages in the request."""
    step: Span | None = None
    """Assistant messages since the last user message."""
    messages: Span | None = None
    answers: Span | None = None
    """Assistant messages in the request."""
    last_role: Literal["system", "developer", "user", "assistant", "tool"] | None = None
    contains: str | None = None
    """Text within the last message."""
    offers: str | None = None
    """A glob for the name of a tool; some offered tool must fit."""
    every: int | None = Field(default=None, ge=1)
    """One body in this many, chosen by its hash."""


class Call(ScriptSection):
    """A tool call of a reply."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    """A dict, or the very text, which may be broken JSON."""


class UsageOverride(ScriptSection):
    """Token counts other than the true ones. The total is always their sum."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


class Reply(ScriptSection):
    """The answer. Texts may contain `{turn}`, `{step}`, `{opening}` (the first user message), `{nonce}` (the one that
    a judge's instructions ask for) and `{key}`."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    tool_calls: tuple[Call, ...] = ()
    call: str | None = None
    """Call an offered tool with arguments made from its schema: `any` (chosen by the hash), `first`, or a tool's name.
    The rule is passed over when the request offers no such tool."""
    finish_reason: str | None = None
    """`tool_calls` or `stop` when absent, whichever is true."""
    usage: UsageOverride = UsageOverride()


class Rule(ScriptSection):
    when: When = When()
    reply: Reply | None = None
    fault: Fault | None = None

    @model_validator(mode="after")
    def _check_effect(self) -> Rule:
        if self.reply is None and self.fault is None:
            raise ValueError("a rule needs `reply` or `fault`")
        return self


class StubScript(ScriptSection):
    """All settings of a stub server."""

    latency: Latency = Latency()
    """Seconds before an answer: a number, or `{min, max}` chosen by the body's hash."""
    seed: int = 0
    """Changes which requests meet faults and how long answers take, never what is answered."""
    rules: tuple[Rule, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Faults for any request, tried in order after those of its rules."""
    capacity: int | None = Field(default=None, ge=1)
    """More requests than this at once, and the further ones get 429 with Retry-After."""
    capacity_retry_after: NonNegativeFloat = 1.0
    """The Retry-After of those 429s, in seconds."""
    api_key: str | None = Field(default=None, repr=False)
    """When set, a request needs `Authorization: Bearer <key>`."""
    echo_key: bool = False
    """Repeat the client's key in every error, and in place of `{key}` in replies, as a careless server would."""
    record: Path | None = None
    """A file to which each request body is appended as a line of JSON."""
    models: tuple[str, ...] = ("stub", "stub-user")
    """What GET /v1/models lists. Requests may name any model."""
    tool_steps: int = Field(default=3, ge=0)
    """Default rules: how many steps of a turn call a tool before the answer in text."""
    user_turns: int = Field(default=2, ge=0)
    """Default rules: how often a model named like a user speaks before it stops."""


ScriptSource: TypeAlias = StubScript | Mapping[str, Any] | Path | str | None
"""A script, its dict, a file of YAML or JSON, or the JSON text itself."""


def default_rules(script: StubScript) -> tuple[Rule, ...]:
    """The rules that apply when none of the script's own does."""
    user = "*user*"
    return (
        Rule(
            when=When(model=user, answers=Span(max=script.user_turns - 1)),
            reply=Reply(content="This is what I need, part {turn}. Please go on."),
        ),
        Rule(when=When(model=user), reply=Reply(content="Thank you. ###STOP###")),
        Rule(when=When(step=Span(max=script.tool_steps - 1)), reply=Reply(call="any")),
        Rule(reply=Reply(content="Done with turn {turn} after {step} steps.")),
    )


def load_script(source: ScriptSource = None) -> StubScript:
    """Read and check a script. Raises ConfigError."""
    if source is None:
        return StubScript()
    if isinstance(source, StubScript):
        return source
    name, content = "stub script", source
    if isinstance(source, str | Path):
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        name = name if is_text else f"stub script {source}"
        try:
            content = _parse(str(source) if is_text else Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name}: neither YAML nor JSON: {error}") from error
    try:
        return StubScript.model_validate({} if content is None else content)
    except ValidationError as error:
        raise ConfigError(f"{name}: " + "; ".join(_describe(problem) for problem in error.errors())) from error


def _parse(text: str) -> Any:
    # JSON first: YAML 1.1 reads most JSON, but takes a number like 1e-7 for text.
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return yaml.safe_load(text)


def _describe(problem: Any) -> str:
    path = ""
    for part in problem["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return f"{path or 'top level'}: {problem['msg']}"
