"""The monitor: notices that a conversation should end, and says why.

It looks at each finished turn of the agent and keeps only counters, which the episode feeds again when it resumes. Each
rule has a stop reason of its own. The judge is asked last and only if switched on; a verdict it does not give is none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import msgspec

from rollout.agents.users.user import is_spoken
from rollout.core.errors import DeadlineError, ModelError
from rollout.core.messages import NO_TOOLS, Message, ToolCall, encode_message, has_words
from rollout.models.model import Model, Request, Sampling
from rollout.trajectories.generation import Generation
from rollout.trajectories.stop import StopReason

log = logging.getLogger(__name__)

_COMPLETION = re.compile(
    r"(is there|was there|do you have) anything else|(have|enjoy) a (great|good|nice|wonderful|lovely) "
    r"(day|one|rest|evening|weekend)|\bgood ?bye\b|\btake care\b|all (set|done)\b.{0,40}$|"
    r"(your|the) request (has been|is now) (fully )?(completed|resolved)|"
    r"thank(s| you) for (contacting|reaching out|calling)|"
    r"glad (i|we) could help|happy to have helped",
    re.IGNORECASE,
)
_JUDGE_PROMPT = (
    "You watch a conversation between a customer and an assistant. Decide whether it has reached its end: every "
    "wish of the customer is settled or finally refused, and nothing is left to say but goodbye. Answer with one "
    "word: COMPLETE if it has, CONTINUE if it has not."
)
_JUDGE_WINDOW = 10
_VERDICT = re.compile(r"\b(COMPLETE|CONTINUE)\b")


class FruitlessCalls(msgspec.Struct, frozen=True):
    """A tool whose calls fail in one way again and again: after `most` in a row the conversation ends."""

    tool: str
    error_kind: str
    most: int
    stop_reason: StopReason


class MonitorRules(msgspec.Struct, frozen=True):
    """Which rules are on. 0 switches a counter off; the defaults of a run are those of `rollout.config.schema`."""

    max_no_tool_turns: int = 0
    max_repeats: int = 0
    max_empty_replies: int = 0
    completion_phrases: bool = False
    fruitless: FruitlessCalls | None = None
    has_judge: bool = False
    """Whether a judge model may be asked if the conversation is over, where the run has one."""


class CompletionVerdict(msgspec.Struct, frozen=True):
    """What the judge said: over, not over, or nothing that can be used (None)."""

    is_complete: bool | None
    generation: Generation | None


class Monitor:
    """Watches one episode."""

    def __init__(self, rules: MonitorRules, judge: Model | None = None) -> None:
        self._rules = rules
        self._judge = judge
        self._no_tool_turns = 0
        self._empty = 0
        self._repeats = 0
        self._last_said: str | None = None
        self._call_repeats = 0
        self._last_calls: tuple[tuple[str, str], ...] = ()
        self._turn_called = False
        self._watched: frozenset[str] = frozenset()
        self._fruitless = 0
        self._before: tuple[int, int, str | None, int, bool] = (0, 0, None, 0, False)
        """The counters before the last answer of words."""

    def saw_generation(self, message: Message) -> StopReason | None:
        """Take in an answer of the agent. A reason where it should be the last."""
        rules = self._rules
        if message.tool_calls:
            self._turn_called = True
            if rules.fruitless is not None:
                self._watched = frozenset(call.id for call in message.tool_calls if call.name == rules.fruitless.tool)
            calls = tuple(_call_key(call) for call in message.tool_calls)
            self._call_repeats = self._call_repeats + 1 if calls == self._last_calls else 1
            self._last_calls = calls
            if 0 < rules.max_repeats <= self._call_repeats:
                return StopReason.MONITOR_REPEATED_CALLS
            return None
        text = (message.content or "").strip() if has_words(message.content) else ""
        self._before = (self._empty, self._repeats, self._last_said, self._no_tool_turns, self._turn_called)
        self._empty = 0 if text else self._empty + 1
        self._repeats = self._repeats + 1 if text and text == self._last_said else 1
        self._last_said = text
        self._no_tool_turns = 0 if self._turn_called else self._no_tool_turns + 1
        self._turn_called = False
        self._last_calls, self._call_repeats = (), 0
        if rules.max_empty_replies and self._empty >= rules.max_empty_replies:
            return StopReason.MONITOR_EMPTY
        if rules.max_repeats and self._repeats >= rules.max_repeats:
            return StopReason.MONITOR_REPEATED
        if rules.max_no_tool_turns and self._no_tool_turns >= rules.max_no_tool_turns:
            return StopReason.MONITOR_NO_TOOL
        if rules.completion_phrases and _COMPLETION.search(text):
            return StopReason.MONITOR_PHRASE
        return None

    def take_back(self) -> None:
        """Forget the last answer of words: the agent kept them to itself, so they ended no turn."""
        self._empty, self._repeats, self._last_said, self._no_tool_turns, self._turn_called = self._before

    def saw_result(self, message: Message, error_kind: str | None) -> StopReason | None:
        """Take in the result of a call. A reason where it should be the last."""
        rule = self._rules.fruitless
        if rule is None or message.tool_call_id not in self._watched or error_kind != rule.error_kind:
            self._fruitless = 0
            return None
        self._fruitless += 1
        return rule.stop_reason if 0 < rule.most <= self._fruitless else None

    async def judge(self, dialogue: Sequence[Message], seed: int) -> CompletionVerdict:
        """Ask the judge model. It fails closed: no usable answer, or no answer at all, decides nothing."""
        assert self._judge is not None
        spoken = [f"{message.role}: {message.content}" for message in dialogue[-_JUDGE_WINDOW:] if is_spoken(message)]
        messages = [Message(role="system", content=_JUDGE_PROMPT), Message(role="user", content="\n".join(spoken))]
        request = Request(
            messages, [encode_message(message) for message in messages], NO_TOOLS, Sampling(temperature=0.0), seed
        )
        try:
            generation = await self._judge.generate(request)
        except (ModelError, DeadlineError) as error:
            log.warning("the judge could not be asked: %s", error)
            return CompletionVerdict(None, None)
        verdicts = set(_VERDICT.findall(generation.message.content or ""))
        return CompletionVerdict(verdicts == {"COMPLETE"} if len(verdicts) == 1 else None, generation)


def _call_key(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments
