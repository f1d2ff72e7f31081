"""Reading tool calls: what the model wrote becomes an invocation, or an error observation that says what was wrong.

The checks are the same for every world: the tool must be one that was offered (a name is never guessed), the arguments
must be a JSON object, and they must fit the tool's schema. A schema that is itself broken checks nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from jsonschema_rs import ValidationError, validator_for

from rollout.core.errors import RolloutError, WorldError, describe_error
from rollout.core.messages import JSON, MALFORMED_CALL, WORLD_ENDS, ToolCall, ToolResult, Toolset
from rollout.core.results import failed_result
from rollout.core.secrets import excerpt, mask, mask_data
from rollout.core.world import Invocation, World

log = logging.getLogger(__name__)
MAX_PROBLEMS = 3
_WARNED: set[str] = set()
"""Broken schemas that were warned of: each is read again for every attempt."""
MAX_DEPTH = 200
"""Levels of lists and objects in the arguments of a call. Validators and readers of the record take no more than about
250."""


def malformed_call(call_id: str, problem: str) -> ToolCall:
    """Stands in the record where the model tried to call something. The observation will say what was wrong."""
    return ToolCall(call_id, MALFORMED_CALL, msgspec.json.encode({"problem": problem}).decode())


class BadCall(Exception):
    """Why a call cannot be made."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """The kind of the error observation that answers it."""


class CallReader:
    """Reads the calls of one toolset. A tool's schema is compiled when the tool is first called."""

    def __init__(self, toolset: Toolset) -> None:
        self._specs = toolset.by_name
        self._validators: dict[str, Any] = {}

    def read(self, call: ToolCall) -> Invocation | ToolResult:
        """The call, checked; or the error observation that answers it."""
        try:
            return self.check(call)
        except BadCall as error:
            return failed_result(call.id, error.kind, str(error))

    def check(self, call: ToolCall) -> Invocation:
        """The call, checked. Raises BadCall where it cannot be made."""
        if call.name not in self._specs:
            if call.name == MALFORMED_CALL:
                raise BadCall(MALFORMED_CALL, _problem(call))
            raise BadCall("unknown_tool", self._unknown(call.name))
        try:
            arguments = msgspec.json.decode(call.arguments or "{}")
        except msgspec.DecodeError as error:
            text = f"{call.name}: the arguments are not valid JSON ({error}): {_short(call.arguments)}"
            raise BadCall("bad_arguments", text) from error
        except UnicodeEncodeError as error:
            raise BadCall("bad_arguments", f"{call.name}: the arguments contain invalid characters") from error
        except RecursionError as error:
            raise BadCall("bad_arguments", f"{call.name}: the arguments are nested too deeply") from error
        if not isinstance(arguments, dict):
            text = f"{call.name}: the arguments must be a JSON object, got {_short(call.arguments)}"
            raise BadCall("bad_arguments", text)
        if is_too_deep(call.arguments, arguments):
            raise BadCall("bad_arguments", f"{call.name}: the arguments are nested too deeply")
        if call.name not in self._validators:
            self._validators[call.name] = _compile_or_warn(call.name, self._specs[call.name].parameters)
        validator = self._validators[call.name]
        if validator is not None and not validator.is_valid(arguments):
            spec = self._specs[call.name]
            if spec.takes_numerals and validator.is_valid(read := _with_numbers(arguments, spec.parameters)):
                return Invocation(call.id, call.name, read)
            problems = [
                _describe(error)
                for error, _ in zip(validator.iter_errors(arguments), range(MAX_PROBLEMS), strict=False)
            ]
            raise BadCall("bad_arguments", f"{call.name}: {'; '.join(problems)}")
        return Invocation(call.id, call.name, arguments)

    def _unknown(self, name: str) -> str:
        if not self._specs:
            return f"There is no tool {name!r}: no tools are offered."
        near = difflib.get_close_matches(name, self._specs, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name!r}.{hint} Tools: {', '.join(self._specs)}."


async def answer_calls(calls: Sequence[ToolCall], reader: CallReader, world: World) -> list[ToolResult]:
    """One result for each call, in the order asked. What cannot be called is answered without the world. Raises
    WorldError where the world breaks its contract, and for what else it raises."""
    read = [reader.read(call) for call in calls]
    wanted = [entry for entry in read if isinstance(entry, Invocation)]
    try:
        given = await world.call(wanted) if wanted else []
    except RolloutError:
        raise
    except Exception as error:
        raise WorldError(f"{type(world).__name__}.call failed: {describe_error(error)}") from error
    _check_results(given, wanted, world)
    answers = iter(given)
    return [_masked(next(answers)) if isinstance(entry, Invocation) else entry for entry in read]


def _check_results(given: object, wanted: Sequence[Invocation], world: World) -> None:
    """Worlds of other people answer here: what does not fit would damage the record, or answer another call."""
    if not isinstance(given, list | tuple) or [getattr(each, "call_id", None) for each in given] != [
        call.call_id for call in wanted
    ]:
        expected = f"one ToolResult for each call, in order, with its call_id: {[call.call_id for call in wanted]}"
        raise WorldError(f"{type(world).__name__}.call: expected {expected}; got {excerpt(repr(given), 200)}")
    for each in given:
        if not isinstance(each, ToolResult) or not isinstance(each.content, str):
            raise WorldError(f"{type(world).__name__}.call: expected a ToolResult; got {excerpt(repr(each), 200)}")
        if each.end is not None and each.end not in WORLD_ENDS:
            allowed = " or ".join(map(repr, WORLD_ENDS))
            raise WorldError(f"{type(world).__name__}.call: end is {each.end!r}; expected None, {allowed}")


def is_too_deep(text: str, value: Any) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels. `text` is the value as JSON, which mostly tells at once."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _masked(result: ToolResult) -> ToolResult:
    """A result without registered secrets. This is where results enter, live and in a replay alike: the model, the
    record and the comparison of the two all see the same text."""
    clean, data = mask(result.content), mask_data(result.data)
    if clean is result.content and data is result.data:
        return result
    return msgspec.structs.replace(result, content=clean, data=data)


def _problem(call: ToolCall) -> str:
    try:
        return msgspec.json.decode(call.arguments, type=dict[str, str])["problem"]
    except (msgspec.MsgspecError, KeyError):
        # A model may also call something by that name.
        return f"There is no tool {MALFORMED_CALL!r}."


def schema_problem(name: str, schema: dict[str, Any]) -> str | None:
    """Why the arguments of a tool cannot be checked; None if its parameters are a valid JSON schema."""
    found = _compile(name, schema)
    return found if isinstance(found, str) else None


def _compile(name: str, schema: dict[str, Any]) -> Any:
    """The validator of a tool's arguments; text that says why there is none where its schema is broken."""
    try:
        return validator_for(schema)
    except (ValidationError, ValueError, TypeError) as error:
        place = "/".join(map(str, getattr(error, "instance_path", ())))
        what = str(error).partition("\n")[0] + (f" (at {place})" if place else "")
        return f"tool {name}: its parameters are not a valid JSON schema, so arguments are not checked: {what}"


def _compile_or_warn(name: str, schema: dict[str, Any]) -> Any:
    """The validator; None, after a warning, where the schema is broken."""
    found = _compile(name, schema)
    if not isinstance(found, str):
        return found
    if found not in _WARNED:
        _WARNED.add(found)
        log.warning("%s", found)
    return None


def _with_numbers(arguments: JSON, schema: JSON) -> JSON:
    """The arguments with numbers in place of strings that spell one, where the schema wants a number."""
    read = dict(arguments)
    for name, value in arguments.items():
        kind = schema.get("properties", {}).get(name, {}).get("type")
        if kind in ("integer", "number") and isinstance(value, str):
            with contextlib.suppress(ValueError):
                read[name] = int(value) if kind == "integer" else float(value)
    return read


def _describe(error: ValidationError) -> str:
    where = "/".join(str(part) for part in error.instance_path)
    return f"{where}: {error.message}" if where else error.message


def _short(text: str) -> str:
    return excerpt(text, 120)
