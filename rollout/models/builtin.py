"""`builtin/oracle`: an agent that plays a task's reference actions. No model, no key, no network.

It finds the first reference action of the current turn that the conversation does not contain yet, and calls it with a
short sentence. When all actions of the turn are done, it says the task's reply. Every answer follows from the recorded
path and the request's seed, so the same seed gives the same run, also after a resume and in a branch. The oracle
understands nothing. It lets the whole engine run without a model, and it is a source of *known* errors for everything
that has to detect errors.

In a browser it looks elements up in the observation (`rollout.models.browsing`).

`params` sets how often it errs. Each is the probability that one answer goes wrong in that way: `wrong_argument`,
`unknown_tool`, `malformed_call`, `void_turn`, `stop_early`, `repeat`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rollout.config.models import NO_MODEL
from rollout.core import seeds
from rollout.core.errors import ConfigError, ModelError
from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.spelling import suggest
from rollout.core.task import Action, Task, resolve_arguments
from rollout.models.browsing import is_browsed, next_call
from rollout.models.model import Capability, Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.trajectories.generation import Generation

ERRORS = ("wrong_argument", "unknown_tool", "malformed_call", "void_turn", "stop_early", "repeat")
_LEAD_INS = (
    "Let me check that.",
    "One moment, please.",
    "I'll look into it.",
    "Just a second.",
    "I'll take care of it.",
)
_CLOSINGS = ("That is done.", "All right, that is settled.", "Done. What else can I do for you?")
_encode = msgspec.json.Encoder(order="deterministic").encode


ORACLE = "builtin/oracle"
"""The agent that plays reference actions: no language model."""


class NoModel:
    """The model of an agent whose program needs none: it answers nothing."""

    name = NO_MODEL
    capabilities: frozenset[Capability] = frozenset()

    async def generate(self, request: Request) -> Generation:
        raise ModelError("the agent's program asks a model, and none is named; set agent.model")

    async def close(self) -> None:
        pass


class OracleModel(ReferenceModel):
    """Plays reference actions, and errs at the given rates."""

    def __init__(self, errors: Mapping[str, float] | None = None, name: str = "builtin/oracle") -> None:
        self.name = name
        self._errors = dict(errors or {})
        unknown = sorted(set(self._errors) - set(ERRORS))
        if unknown:
            raise ConfigError(f"{name}: params: unknown {', '.join(unknown)}; {suggest(unknown[0], ERRORS, 'known')}")
        if any(not 0 <= rate <= 1 for rate in self._errors.values()) or sum(self._errors.values()) > 1:
            raise ConfigError(f"{name}: params: each is a probability between 0 and 1 and together they are at most 1")

    async def play(self, request: Request, reference: Reference) -> Generation:
        if reference.task.actions is None:
            raise ConfigError(
                f"{self.name} plays a task's reference actions, but there are no reference actions (task_info.actions)"
            )
        chance = seeds.stream(request.seed or 0, "oracle", len(reference.path))
        message = self._answer(reference, chance)
        if request.sampling.extra.get("enable_thinking"):
            message = msgspec.structs.replace(message, reasoning=_think(message))
        finish = "tool_calls" if message.tool_calls else "stop"
        return Generation(message=message, finish_reason=finish, model=self.name, seed=request.seed)  # type: ignore[arg-type]

    def _answer(self, reference: Reference, chance: random.Random) -> Message:
        task, turn = reference.task, reference.turn
        progress = _progress(task, turn, reference.path)
        error = self._draw(chance)
        if progress.next is None or len(reference.tools) == 0:
            return Message(role="assistant", content=_closing(task, turn, chance))
        if error == "void_turn":
            return Message(role="assistant", content="")
        if error == "stop_early":
            return Message(role="assistant", content=_closing(task, turn, chance))
        name, arguments = progress.next
        text = _encode(arguments).decode()
        if error == "repeat" and progress.last_call is not None:
            name, text = progress.last_call.name, progress.last_call.arguments
        elif error == "unknown_tool":
            name = f"{name}_v2"
        elif error == "malformed_call":
            text = text[: max(1, len(text) * 2 // 3)]
        elif error == "wrong_argument":
            text = _encode(_spoil(arguments, chance)).decode()
        call = ToolCall(id=f"call_{len(reference.path)}_{chance.randrange(16**6):06x}", name=name, arguments=text)
        return Message(role="assistant", content=chance.choice(_LEAD_INS), tool_calls=(call,))

    def _draw(self, chance: random.Random) -> str | None:
        point = chance.random()
        for kind in ERRORS:
            point -= self._errors.get(kind, 0.0)
            if point < 0:
                return kind
        return None


class _Progress(msgspec.Struct):
    """The position of a conversation in the reference."""

    next: tuple[str, JSON] | None
    """Name and arguments of the next call; None where the turn has none left."""
    last_call: ToolCall | None


def _progress(task: Task, turn: int, path: Sequence[Message]) -> _Progress:
    actions = task.actions or ()
    has_system = bool(path) and path[0].role == "system" and list(path[:1]) != list(task.messages[:1])
    # Calls of the opening happened before the episode and do not count as played.
    messages = path[len(task.messages) + has_system :]
    if is_browsed(task):
        calls = [call for message in messages for call in message.tool_calls]
        return _Progress(next_call(task, turn, messages), calls[-1] if calls else None)
    answers = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    results: dict[int, Any] = {}
    last: ToolCall | None = None
    for message in messages:
        for call in message.tool_calls:
            last = call
            for index, action in enumerate(actions):
                if index not in results and _is_same(call, action, results):
                    results[index] = _value(answers.get(call.id))
                    break
    for index, action in enumerate(actions):
        if action.turn == turn and index not in results:
            arguments = _resolved(action, results)
            # Without arguments, an action that this one depends on never succeeded, and nothing sensible is left.
            return _Progress(None if arguments is None else (action.name, arguments), last)
    return _Progress(None, last)


def _is_same(call: ToolCall, action: Action, results: dict[int, Any]) -> bool:
    if call.name != action.name:
        return False
    try:
        return bool(msgspec.json.decode(call.arguments) == _resolved(action, results))
    except msgspec.DecodeError:
        return False


def _resolved(action: Action, results: dict[int, Any]) -> JSON | None:
    try:
        return resolve_arguments(action.arguments, results)  # type: ignore[arg-type]
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _spoil(arguments: JSON, chance: random.Random) -> JSON:
    """The arguments with one value changed to a wrong but plausible one."""
    if not arguments:
        return {"unexpected": True}
    key = chance.choice(sorted(arguments))
    return {**arguments, key: _spoiled(arguments[key], chance)}


def _spoiled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + chance.choice((-2, -1, 1, 2))
    if isinstance(value, str) and value:
        digits = [index for index, char in enumerate(value) if char.isdigit()]
        if digits:
            at = chance.choice(digits)
            return value[:at] + str((int(value[at]) + chance.randint(1, 9)) % 10) + value[at + 1 :]
        return value[:-1] + ("x" if value[-1] != "x" else "y")
    if isinstance(value, list):
        return value[:-1] if value else [None]
    return None


def _closing(task: Task, turn: int, chance: random.Random) -> str:
    if 0 <= turn < len(task.replies):
        return task.replies[turn]
    return chance.choice(_CLOSINGS)


def _think(message: Message) -> str:
    if message.tool_calls:
        return f"The next thing to do is {message.tool_calls[0].name}."
    return "Nothing is left to do in this turn; I answer the user."


def _value(content: str | None) -> Any:
    try:
        return msgspec.json.decode(content or "null")
    except msgspec.DecodeError:
        return content
