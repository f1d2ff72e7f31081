"""The keys under `filters`: what is not to be learnt, and what is done about it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from rollout.config.section import Section

Policy = Literal["drop_trajectory", "mask_turn", "truncate_before", "keep"]
WholePolicy = Literal["drop_trajectory", "keep"]


class _Given(Section):
    """A section that is saved with no more than what was given: a default must not become a choice by being saved."""

    @model_serializer(mode="wrap")
    def _only_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = handler(self)
        return {name: given[name] for name in type(self).model_fields if name in self.model_fields_set}


class TurnFilter(_Given):
    """A filter that finds turns."""

    enabled: bool = True
    """Whether it looks at all. `name: false` is short for it."""
    policy: Policy = "drop_trajectory"
    """What becomes of what it finds. `name: mask_turn` is short for it."""


class WholeFilter(_Given):
    """A filter that finds whole trajectories."""

    enabled: bool = True
    """Whether it looks at all. `name: false` is short for it."""
    policy: WholePolicy = "drop_trajectory"
    """What becomes of what it finds. `name: keep` is short for it."""


class VoidTurns(TurnFilter):
    """Turns without a call and without an answer: empty, garbage, or a block of code that never ends."""

    answer_pattern: str | None = None
    """A regular expression that the last answer must hold, where tasks ask for a form, such as `\\\\boxed\\{`."""

    @field_validator("answer_pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from None
        return value


class PrematureEnd(TurnFilter):
    """Turns that ended by themselves after next to nothing, and trajectories without an answer."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""
    min_tokens: int = Field(2, ge=0)
    """An answer without a call has at least this many tokens, reasoning and the end of turn not counted, unless it was
    scored as solved."""


class Repetition(TurnFilter):
    """Turns whose words repeat, and turns that make the same calls again."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""
    n: int = Field(4, ge=1)
    """Words of an n-gram."""
    ratio: float = Field(0.5, gt=0, le=1)
    """From this share of n-grams that were there before."""
    min_words: int = Field(20, ge=1)
    """Shorter texts are not looked at."""
    calls: Literal["same_answer", "any", "off"] = "same_answer"
    """Calls that repeat since the user last spoke, at once or in a cycle: same_answer, unless the world's answers show
    progress; any; off."""


class MalformedCalls(TurnFilter):
    """Turns with a call that could not be read: broken JSON, or a call written into the text."""

    bad_arguments: bool = False
    """Also calls whose arguments can be read and do not fit the tool's schema."""


class UnknownTools(TurnFilter):
    """Turns that call a tool that was not offered."""

    policy: Policy = "mask_turn"
    """What becomes of what it finds."""


class LengthTruncated(TurnFilter):
    """Turns that were cut at the limit of tokens."""


class LeakedMarkers(TurnFilter):
    """Markers, template tokens, or long pieces of the system prompt in what is said."""

    markers: list[str] = ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"]
    """Texts that steer the simulated user."""
    template_tokens: bool = True
    """Also tokens of chat templates, such as `<|im_end|>`, and a stray `</think>`."""
    prompt_words: int = Field(30, ge=0)
    """Also so many words of the system prompt in a row, said aloud; 0: none of it."""


class InfrastructureErrors(WholeFilter):
    """Trajectories that broke, and those of whose answers the server broke one off. They count in no group."""

    tool_errors: list[str] = []
    """Kinds of error observations that are infrastructure here, too, such as `timeout` or `crash`."""


class Overlong(WholeFilter):
    """Trajectories that a budget ended."""

    stop_reasons: list[str] = ["max_turns", "max_steps", "context_length", "deadline"]
    """The stop reasons that mean it."""
    max_turns: int | None = Field(None, ge=1)
    """Also those with more answers of the agent."""
    max_tokens: int | None = Field(None, ge=1)
    """Also those with more tokens of the agent."""


class NearDuplicates(WholeFilter):
    """Trajectories that are nearly another one, of the same task or of the same run."""

    policy: WholePolicy = "keep"
    """What becomes of what it finds."""
    similarity: float = Field(0.9, ge=0.5, le=1)
    """From this Jaccard index of their shingles."""
    words: int = Field(5, ge=1)
    """Words of a shingle."""
    across_tasks: bool = True
    """Also compare trajectories of different tasks."""


class ConstantGroups(WholeFilter):
    """Groups whose attempts are all worth the same."""

    policy: WholePolicy = "keep"
    """What becomes of what it finds."""
    reward: str = "success"
    """What an attempt is worth: success, scores, partial, score:NAME, partial:NAME."""
    min_attempts: int = Field(2, ge=2)
    """Groups with fewer attempts that have a reward are left alone."""


class AccuracyBand(WholeFilter):
    """Groups that are too hard or too easy."""

    policy: WholePolicy = "keep"
    """What becomes of what it finds."""
    low: float = 0.1
    """The least mean reward."""
    high: float = 0.9
    """The highest mean reward."""
    reward: str = "success"
    """What an attempt is worth: success, scores, partial, score:NAME, partial:NAME."""
    min_attempts: int = Field(4, ge=1)
    """Groups with fewer attempts that have a reward are left alone."""


def _shorthand(value: Any) -> Any:
    """`name: false` is `name: {enabled: false}`; `name: keep` is `name: {policy: keep}`."""
    if isinstance(value, bool):
        return {"enabled": value}
    return {"policy": value} if isinstance(value, str) else value


class Filters(_Given):
    """What is not to be learnt: marks over finished trajectories, made by `rollout filter`."""

    counts_in_group: bool = True
    """Whether a trajectory that is dropped still counts in the statistics of its group (SimpleTIR)."""
    void_turns: Annotated[VoidTurns, BeforeValidator(_shorthand)] = VoidTurns()
    """Turns that do nothing."""
    premature_end: Annotated[PrematureEnd, BeforeValidator(_shorthand)] = PrematureEnd()
    """Turns that end at once."""
    repetition: Annotated[Repetition, BeforeValidator(_shorthand)] = Repetition()
    """Turns that repeat themselves."""
    malformed_calls: Annotated[MalformedCalls, BeforeValidator(_shorthand)] = MalformedCalls()
    """Calls that cannot be read."""
    unknown_tools: Annotated[UnknownTools, BeforeValidator(_shorthand)] = UnknownTools()
    """Calls of tools that there are not."""
    length_truncated: Annotated[LengthTruncated, BeforeValidator(_shorthand)] = LengthTruncated()
    """Turns that were cut."""
    leaked_markers: Annotated[LeakedMarkers, BeforeValidator(_shorthand)] = LeakedMarkers()
    """Machinery in what is said."""
    infrastructure_errors: Annotated[InfrastructureErrors, BeforeValidator(_shorthand)] = InfrastructureErrors()
    """What broke."""
    overlong: Annotated[Overlong, BeforeValidator(_shorthand)] = Overlong()
    """What a budget ended."""
    near_duplicates: Annotated[NearDuplicates, BeforeValidator(_shorthand)] = NearDuplicates()
    """What is there already."""
    constant_groups: Annotated[ConstantGroups, BeforeValidator(_shorthand)] = ConstantGroups()
    """Groups without a difference."""
    accuracy_band: Annotated[AccuracyBand, BeforeValidator(_shorthand)] = AccuracyBand()
    """Groups that are too hard or too easy."""

    def over(self, base: Filters) -> Filters:
        """These keys, as far as they were given; the rest is the other's."""
        return _laid_over(self, base)


S = TypeVar("S", bound=Section)


def _laid_over(given: S, base: S) -> S:
    update: dict[str, Any] = {}
    for name in given.model_fields_set:
        value, below = getattr(given, name), getattr(base, name)
        update[name] = _laid_over(value, below) if isinstance(value, Section) else value
    return base.model_copy(update=update)
