"""A request and its answer: what rows are made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import msgspec

from rollout.core.messages import JSON, Message
from rollout.trajectories.generation import ID_BYTES, Generation
from rollout.trajectories.line import Head
from rollout.trajectories.token_path import TokenPath

StepKey = tuple[int, int]
"""Which attempt made a step, and the step's place on the path: the same in every attempt that shares it."""


class Ids(msgspec.Struct, frozen=True):
    """The token ids of one exchange."""

    prompt: array[int]
    completion: array[int]
    logprobs: array[float] | None = None
    """One for each id of the completion; None where they are not on record."""
    is_exact: bool = True
    """Whether these are the ids that the model was given and sampled, not a later encoding of its text."""
    drift: str | None = None
    """Why the prompt does not begin with what came before it, where that was told when it happened."""


def pack(ids: Iterable[int]) -> array[int]:
    """Ids as they are held here: four bytes each."""
    return array("I", ids)


class Exchange(msgspec.Struct, frozen=True):
    """One request that the agent's model was sent, and its answer."""

    request: list[JSON]
    """The messages, as they were sent."""
    answer: Message
    """As it is to be learnt: in the form in which answers were sent, with its reasoning."""
    shown: JSON
    """As the next request would show it if nothing of it were left out."""
    tools: list[JSON] = []
    ids: Ids | None = None
    finish_reason: str | None = None
    """None where it is not on record."""
    weight_version: str | None = None
    key: StepKey = (0, 0)
    given: tuple[StepKey, int] | None = None
    """Where it went on from inside another step's answer: that step, and how many of its tokens it was given."""
    is_learnt: bool = True
    """False where the answer is context only: no token of it has a loss."""
    is_masked: bool = False
    """Whether a filter said that the answer is context only."""
    unsampled: str | None = None
    """Why the answer is not what the model sampled, where it is not: it has no ids, and is never learnt."""


class Attempted(msgspec.Struct, frozen=True):
    """One attempt at a task, with all that its rows need."""

    id: str
    group: str
    """The attempts that it is compared with."""
    number: int
    """Its number within the group."""
    head: Head
    messages: tuple[Message, ...]
    """All of the path, on record; the system prompt first, where there is one."""
    opening: int
    """How many of them the agent was given to begin with: the system prompt and the task's own."""
    exchanges: list[Exchange]
    reward: float | None = None
    advantages: list[float] | None = None
    """One for each exchange."""
    values: list[float] | None = None
    """V(s) of each exchange: the mean reward of the attempts that share it."""
    is_learnt: bool = True
    """False where nothing of it is written, and it only counts among the attempts at its task."""


def ids_of_path(generations: Iterable[Generation]) -> list[Ids | None]:
    """The ids of each generation on a path from its first one on; None where the server gave none."""
    found: list[Ids | None] = []
    path = TokenPath()
    for generation in generations:
        tokens = generation.tokens
        if tokens is None or not generation.is_exact:
            found.append(None)
        else:
            prompt = array("I", bytes(path.known[: tokens.shared * ID_BYTES]) + tokens.new)
            completion, scores = tokens.completion_ids, tokens.logprobs
            has_scores = len(scores) == len(completion)
            found.append(Ids(prompt, completion, array("d", scores) if has_scores else None, drift=tokens.drift))
        if not generation.is_scripted:
            path.take(generation, 0)
    return found
