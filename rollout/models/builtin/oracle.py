"""`builtin/oracle`: an agent that plays a task's reference actions. No model, no key, no network.

It finds the first reference action of the current turn that the conversation does not contain yet, and calls it. When
all actions of the turn are done, it says the task's reply; where an action was forgotten and a later one refused, it
says so instead. `rollout.models.builtin.wording` has what it says and thinks beside that. Every answer follows from the
recorded path and the request's seed, so the same seed gives the same run, also after a resume and in a branch. The
oracle understands nothing. It lets the whole engine run without a model, and it is a source of *known* errors for
everything that has to detect errors.

In a browser it looks elements up in the observation (`rollout.models.builtin.browsing`).

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
from rollout.core.results import DECLINED_TEXT
from rollout.core.spelling import suggest
from rollout.core.task import Action, Task, resolve_arguments
from rollout.models.builtin import wording
from rollout.models.builtin.browsing import is_browsed, next_call
from rollout.models.builtin.mistakes import misnamed, spoiled_arguments
from rollout.models.builtin.web_wording import describe_step, reason_for_step
from rollout.models.model import Capability, Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.trajectories.generation import Generation

ERRORS = ("wrong_argument", "unknown_tool", "malformed_call", "void_turn", "stop_early", "repeat")
_CLOSINGS = ("That is done.", "All right, that is settled.", "Done. Tell me if you need anything else.")
_NOTHING_DONE = ("All right. What can I do for you next?", "Understood. Just tell me how you want to go on.")
_BROWSED = ("Everything that was asked for is done.", "The task is complete.")
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
        is_thinking = bool(request.sampling.extra.get("enable_thinking"))
        message = self._answer(reference, chance, is_thinking)
        finish = "tool_calls" if message.tool_calls else "stop"
        return Generation(message=message, finish_reason=finish, model=self.name, seed=request.seed)  # type: ignore[arg-type]

    def _answer(self, reference: Reference, chance: random.Random, is_thinking: bool) -> Message:
        task, turn, path, tools = reference.task, reference.turn, reference.path, reference.tools
        progress, last = _progress(task, turn, path), wording.recent(path)
        error = self._draw(chance)
        if progress.next is None or len(tools) == 0 or error == "stop_early":
            reply = _closing(progress, task, turn, last, chance)
            if not is_thinking:
                return Message("assistant", reply)
            ready = "Nothing is left to do on the page."
            thought = ready if progress.is_browsed else wording.reason_for_answer(reply, last, chance)
            return Message("assistant", reply, reasoning=thought)
        name, wanted = progress.next
        arguments: JSON | None = wanted
        meant = tools.by_name.get(name)

        def think(name: str, arguments: JSON | None) -> str:
            if progress.is_browsed:
                return reason_for_step(name, arguments, path)
            return wording.reason_for_call(name, arguments, last, path, meant, chance)

        if error == "void_turn":
            return Message("assistant", "", reasoning=think(name, arguments) if is_thinking else None)
        text = _encode(wanted).decode()
        if error == "repeat" and progress.last_call is not None:
            name, text = progress.last_call.name, progress.last_call.arguments
            arguments = _decoded(text)
        elif error == "unknown_tool":
            name = misnamed(name, tools.by_name)
        elif error == "malformed_call":
            text = text[: max(1, len(text) * 2 // 3)]
        elif error == "wrong_argument":
            arguments = spoiled_arguments(wanted, path, chance)
            text = _encode(arguments).decode()
        call = ToolCall(id=f"call_{len(path)}_{chance.randrange(16**6):06x}", name=name, arguments=text)
        if progress.is_browsed:
            said = describe_step(name, arguments, path)
        else:
            said = wording.lead_in(meant, name, last, chance)
        return Message("assistant", said, (call,), reasoning=think(name, arguments) if is_thinking else None)

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
    is_behind: bool = False
    """Whether actions that should have been played by now were not."""
    is_browsed: bool = False


def _progress(task: Task, turn: int, path: Sequence[Message]) -> _Progress:
    actions = task.actions or ()
    has_system = bool(path) and path[0].role == "system" and list(path[:1]) != list(task.messages[:1])
    # Calls of the opening happened before the episode and do not count as played.
    messages = path[len(task.messages) + has_system :]
    if is_browsed(task):
        calls = [call for message in messages for call in message.tool_calls]
        return _Progress(next_call(task, turn, messages), calls[-1] if calls else None, is_browsed=True)
    answers = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    results: dict[int, Any] = {}
    last: ToolCall | None = None
    for message in messages:
        for call in message.tool_calls:
            if (answers.get(call.id) or "").endswith(DECLINED_TEXT):
                continue  # an agent's program asked for a plan, say, and made no call of it
            last = call
            for index, action in enumerate(actions):
                if index not in results and _is_same(call, action, results):
                    results[index] = _value(answers.get(call.id))
                    break
    for index, action in enumerate(actions):
        if action.turn == turn and index not in results:
            arguments = _resolved(action, results)
            # Without arguments, an action that this one depends on never succeeded, and nothing sensible is left.
            return _Progress(None if arguments is None else (action.name, arguments), last, is_behind=True)
    is_behind = any(index not in results for index, action in enumerate(actions) if action.turn <= turn)
    return _Progress(None, last, is_behind)


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


def _closing(progress: _Progress, task: Task, turn: int, last: wording.Recent, chance: random.Random) -> str:
    if progress.next is None and progress.is_behind and last.error is not None:
        # An action was forgotten and what came after it was refused: the task's good reply would be a lie.
        return wording.failure(last.error)
    if 0 <= turn < len(task.replies):
        return task.replies[turn]
    if progress.is_browsed:
        return chance.choice(_BROWSED)
    return chance.choice(_CLOSINGS if last.has_called else _NOTHING_DONE)


def _decoded(text: str) -> JSON | None:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


def _value(content: str | None) -> Any:
    try:
        return msgspec.json.decode(content or "null")
    except msgspec.DecodeError:
        return content
