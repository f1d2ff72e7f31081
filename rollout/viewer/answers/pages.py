"""Responses about one trajectory: its page, requests as sent, world states, tokens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rollout.core.messages import JSON
from rollout.pipelines.runs.states import StepChanges
from rollout.pipelines.runs.transcript import ShownMessage
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.line import BranchPoint, Failed, Timings
from rollout.trajectories.person_marks import PersonMark


class PageMessage(ShownMessage, frozen=True, kw_only=True):
    """A message with the details that the page shows. Images are names of blobs."""

    at: float | None = None
    """When it was added."""
    key: tuple[int, int] | None = None
    """The key of its node: the episode that grew it, and its place there. An opening has the episode -1."""
    weight_version: str | None = None


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as servers counted them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of an attempt's time."""

    message: int
    kind: Literal["opening", "model", "tool", "retry", "user", "wait", "ending"]
    """`opening`: before the first message of the attempt; `ending`: after its last, while it was scored and its world
    was closed."""
    start: float
    """Seconds since the first."""
    seconds: float
    label: str


class ContextSize(msgspec.Struct, frozen=True):
    """The size of a request."""

    message: int
    """The message that answered the request."""
    prompt_tokens: int


class ShownScore(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scorer."""

    name: str
    value: float | None
    reason: str
    partial: float | None
    decides: bool
    evidence: dict[str, Any]


class ShownTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task, if its file can be read."""

    info: JSON | None
    """`task_info`, which only scorers see."""
    actions: tuple[JSON, ...] | None
    """Its reference actions."""


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """Another attempt at the same task."""

    id: str
    author: str | None
    status: str
    success: bool
    scored: bool
    reward: float | None


class Has(msgspec.Struct, frozen=True):
    """Which further endpoints have data about a trajectory."""

    states: bool
    """Whether a replay may show them; never where the server is read-only."""
    tokens: bool
    nodes: bool


class CanGrow(msgspec.Struct, frozen=True):
    """Whether branches can be grown from an attempt."""

    ok: bool
    reason: str | None
    """Why not, if they cannot."""
    last: int | None = None
    """The last message behind which they can; null for the last of all."""
    why: str | None = None
    """Why not behind the next one."""


class Commands(msgspec.Struct, frozen=True):
    """Shell commands for copying."""

    show: str
    replay: str


class TrajectoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """One trajectory."""

    dataset: str
    id: str
    task_id: str
    author: str | None
    status: str
    stop_reason: str
    stop_words: str
    """The stop reason in words."""
    success: bool
    scored: bool
    unscored: str | None
    reward: float | None
    cost: float
    usage: dict[str, TokenCounts]
    """Of `agent`, `user` and `judge`."""
    turns: int
    steps: int | None
    tool_calls: int
    model: str | None
    user_model: str | None
    seed: int
    timings: Timings
    finished: float | None
    """When it ended, in seconds since 1970."""
    branch: BranchPoint | None
    error: Failed | None
    is_exact: bool
    drift_causes: tuple[str, ...]
    live_marks: tuple[str, ...]
    """Remarks made while the attempt was live."""
    scores: tuple[ShownScore, ...]
    brief: str | None
    """The user's instructions, which the agent does not see."""
    task: ShownTask | None
    system: str | None
    tools: tuple[JSON, ...]
    messages: tuple[PageMessage, ...]
    spans: tuple[TimeSpan, ...]
    context: tuple[ContextSize, ...]
    marks: tuple[PersonMark, ...]
    filtered: Filtered | None
    siblings: tuple[Sibling, ...]
    """The first other attempts at the task."""
    sibling_count: int
    """The number of all of them."""
    has: Has
    can_grow: CanGrow
    commands: Commands


class SentState(msgspec.Struct, frozen=True):
    """Whether and how a message was part of a request."""

    index: int
    """The message's index. Messages from the answer on are not listed."""
    state: Literal["sent", "folded", "left_out"]
    """`folded`: sent in another form, such as without reasoning or as one line; `left_out`: not at all."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was sent."""

    model: str | None
    messages: tuple[JSON, ...]
    tools: tuple[JSON, ...]
    shown: tuple[SentState, ...]
    note: str | None
    curl: str
    python: str


class States(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the world before, during and after an attempt, from a replay on a fresh world."""

    before: JSON | None
    after: JSON | None
    """Only rows that differ: tables, each a mapping from the rows' keys."""
    changes: tuple[StepChanges, ...]
    note: str | None
    """Why the states are missing or incomplete."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token of a step."""

    text: str | None
    """None where no tokenizer is known."""
    id: int
    kind: Literal["prompt", "sampled", "masked"]
    """`masked`: sampled, and excluded from training by a filter."""
    logprob: float | None


class TokenStep(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one generation: what its prompt added, and what was sampled."""

    message: int
    weight_version: str | None
    is_exact: bool
    shared: int
    """Tokens of the prompt that were there before."""
    drift: str | None
    tokens: tuple[Token, ...]


class StepTokens(msgspec.Struct, frozen=True):
    """The tokens of a trajectory."""

    steps: tuple[TokenStep, ...]
    note: str | None


class FirstDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference between two attempts."""

    step: int | None
    """Counted from 1; None where all steps are the same."""
    first_message: int | None
    """The message of the step in the first attempt; None if that attempt has ended."""
    second_message: int | None
    first: str
    second: str
