"""`builtin/oracle`: an agent that plays a task's reference actions. No model, no key, no network.

It reads the conversation, finds the first reference action of this turn that was not called yet, and calls it with a
short sentence; when the turn's actions are done it says the task's reply. Everything follows from the conversation
and the request's seed, so the same run comes out twice. It understands nothing: it is the embedded default that makes
the whole engine run, and a source of *known* errors for everything that has to notice errors.

In a browser it finds elements by what the observation lists (`rollout.models.browsing`).

Errors come in chosen proportions (`params`), each the probability that one answer goes wrong that way:
`wrong_argument`, `unknown_tool`, `malformed_call`, `void_turn`, `stop_early`, `repeat`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from rollout.core import seeds
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.spelling import suggest
from rollout.core.task import Action, Task, resolve_arguments
from rollout.models.browsing import is_browsed, next_call
from rollout.models.model import Capability, Request
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


class OracleModel:
    """Plays reference actions, and errs as often as it is told to."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, errors: Mapping[str, float] | None = None, name: str = "builtin/oracle") -> None:
        self.name = name
        self._errors = dict(errors or {})
        unknown = sorted(set(self._errors) - set(ERRORS))
        if unknown:
            raise ConfigError(f"{name}: params: unknown {', '.join(unknown)}; {suggest(unknown[0], ERRORS, 'known')}")
        if any(not 0 <= rate <= 1 for rate in self._errors.values()) or sum(self._errors.values()) > 1:
            raise ConfigError(f"{name}: params: each is a probability between 0 and 1 and together they are at most 1")

    async def generate(self, request: Request) -> Generation:
        task = request.task
        if task is None or task.actions is None:
            known = "no reference actions (task_info.actions)" if task is not None else "no task"
            raise ConfigError(f"{self.name} plays a task's reference actions, but there are {known}")
        if request.path:
            request = msgspec.structs.replace(
                request, messages=request.path, tools=request.tools if request.offered is None else request.offered
            )
        chance = seeds.stream(request.seed or 0, "oracle", len(request.messages))
        played = _played(task, request)
        message = self._answer(task, played, request, chance)
        if request.sampling.extra.get("enable_thinking"):
            message = msgspec.structs.replace(message, reasoning=_think(message))
        finish = "tool_calls" if message.tool_calls else "stop"
        return Generation(message=message, finish_reason=finish, model=self.name, seed=request.seed)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Nothing is held."""

    def _answer(self, task: Task, played: _Played, request: Request, chance: random.Random) -> Message:
        error = self._draw(chance)
        if played.next is None or len(request.tools) == 0:
            return Message(role="assistant", content=_closing(task, played.turn, chance))
        if error == "void_turn":
            return Message(role="assistant", content="")
        if error == "stop_early":
            return Message(role="assistant", content=_closing(task, played.turn, chance))
        name, arguments = played.next
        text = _encode(arguments).decode()
        if error == "repeat" and played.last_call is not None:
            name, text = played.last_call.name, played.last_call.arguments
        elif error == "unknown_tool":
            name = f"{name}_v2"
        elif error == "malformed_call":
            text = text[: max(1, len(text) * 2 // 3)]
        elif error == "wrong_argument":
            text = _encode(_spoil(arguments, chance)).decode()
        call = ToolCall(id=f"call_{len(request.messages)}_{chance.randrange(16**6):06x}", name=name, arguments=text)
        return Message(role="assistant", content=chance.choice(_LEAD_INS), tool_calls=(call,))

    def _draw(self, chance: random.Random) -> str | None:
        point = chance.random()
        for kind in ERRORS:
            point -= self._errors.get(kind, 0.0)
            if point < 0:
                return kind
        return None


class _Played(msgspec.Struct):
    """How far the conversation has come along the reference."""

    turn: int
    next: tuple[str, JSON] | None
    last_call: ToolCall | None


def _played(task: Task, request: Request) -> _Played:
    messages = request.messages
    actions = task.actions or ()
    turn = request.turn
    if turn is None:
        turn = task.turn_after(sum(1 for message in messages if message.role == "user"))
    has_system = bool(messages) and messages[0].role == "system" and list(messages[:1]) != list(task.messages[:1])
    # What was called in the opening was done before, and is not done again by it.
    messages = messages[len(task.messages) + has_system :]
    if is_browsed(task):
        calls = [call for message in messages for call in message.tool_calls]
        return _Played(turn, next_call(task, turn, messages), calls[-1] if calls else None)
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
            # What it depends on never happened: nothing sensible is left to call.
            return _Played(turn, None if arguments is None else (action.name, arguments), last)
    return _Played(turn, None, last)


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
    """The arguments with one value wrong but plausible."""
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
