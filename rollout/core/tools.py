"""Python functions as tools: the decorator `tool`, their schemas, and running them.

The schema of a tool is its signature, read by pydantic, and its description the docstring. Arguments arrive as JSON and
are given to the function as the types that it asks for. `async` functions run on the event loop
(`rollout.core.async_tools`), others in threads (`rollout.core.threads`). Whatever a function raises or returns becomes
a result.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints, overload

import msgspec

from rollout.core.async_tools import run_async
from rollout.core.errors import ToolError, describe_error
from rollout.core.messages import ToolResult, ToolSpec
from rollout.core.results import MAX_RESULT_CHARS, failed_result, to_result
from rollout.core.threads import ToolFault, tool_threads

if TYPE_CHECKING:
    from rollout.core.world import Invocation

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__rollout_tool__"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What the servers of models take as the name of a tool."""
_JSON_TYPES = frozenset({str, int, float, bool, None, Any, type(None), inspect.Parameter.empty})


class ToolMark(msgspec.Struct, frozen=True):
    """What `@tool` notes on a function."""

    name: str
    is_write: bool | None = None


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, is_write: bool | None = None) -> Callable[[F], F]: ...


def tool(function: Any = None, /, *, name: str | None = None, is_write: bool | None = None) -> Any:
    """Offer a method of a `World` to the agent: `@tool`, or `@tool(name="open", is_write=True)`.

    The signature is the tool's schema and the docstring its description. `name` is what the agent calls it, where that
    is not the method's own name. `is_write` says whether it changes the world.
    """

    if name is not None and not _NAME.fullmatch(name):
        raise TypeError(f"tool: {name!r} is no name of a tool; expected letters, digits, _ and -, at most 64")

    def mark(marked: Any) -> Any:
        if not callable(marked):
            raise TypeError(f"tool: expected a method, got {marked!r}; put @rollout.tool directly above the def")
        setattr(marked, _MARK, ToolMark(name or marked.__name__, is_write))
        return marked

    return mark if function is None else mark(function)


def mark_of(function: Any) -> ToolMark | None:
    """The mark that `@tool` left on a function; None where there is none."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, ToolMark) else None


def spec_of(function: Callable[..., Any], name: str | None = None, is_write: bool | None = None) -> ToolSpec:
    """A function or bound method as a tool: signature = schema, docstring = description. Raises TypeError where the
    signature does not say what the arguments are."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    called = name or function.__name__
    try:
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise TypeError("*args and **kwargs have no schema; name each parameter")
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            raise TypeError("arguments are given by name; leave out the / in its signature")
        schema = TypeAdapter(cast(Any, _readable(function))).json_schema()
    except PydanticUserError as error:
        raise TypeError(
            f"tool {called}: its parameters have no JSON schema: {error.message.splitlines()[0]}"
        ) from error
    except (TypeError, ValueError, NameError) as error:
        raise TypeError(f"tool {called}: {error}") from error
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    description = inspect.getdoc(function) or ""
    return ToolSpec(name=called, description=description, parameters=schema, is_write=is_write)


def _readable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method with its annotations resolved: pydantic does not look for their names in the method's own module."""
    if not inspect.ismethod(function):
        return function
    hints = get_type_hints(inspect.unwrap(function.__func__), include_extras=True)
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=hints.get(parameter.name, Any)) for parameter in signature.parameters.values()
    ]

    def readable(*args: Any, **kwargs: Any) -> None:
        """Only its signature is read."""

    readable.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    readable.__annotations__ = {parameter.name: Any for parameter in parameters} | hints
    return readable


Arguments = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@functools.lru_cache(maxsize=1024)
def argument_reader(function: Callable[..., Any]) -> Arguments | None:
    """A function that turns JSON arguments into the types that a tool asks for; None where they are JSON already. It
    raises ValueError where they do not fit."""
    from pydantic import Field, ValidationError, create_model

    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    hints = get_type_hints(inspect.unwrap(getattr(function, "__func__", function)), include_extras=True)
    if all(hints.get(parameter.name, Any) in _JSON_TYPES for parameter in parameters):
        return None
    # Numbered, so that no name of a parameter clashes with a method of pydantic's.
    fields: dict[str, Any] = {
        f"p{place}": (
            hints.get(parameter.name, Any),
            Field(alias=parameter.name)
            if parameter.default is parameter.empty
            else Field(parameter.default, alias=parameter.name),
        )
        for place, parameter in enumerate(parameters)
    }
    model = create_model("Arguments", __config__={"arbitrary_types_allowed": True}, **fields)
    names = {f"p{place}": parameter.name for place, parameter in enumerate(parameters)}

    def read(given: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            read_in = model.model_validate(given)
        except ValidationError as error:
            faults = (f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
            raise ValueError("; ".join(faults)) from error
        return {names[field]: getattr(read_in, field) for field in read_in.model_fields_set}

    return read


async def run_tool(
    call: Invocation, function: Callable[..., Any], seconds: float, read: Arguments | None = None
) -> ToolResult:
    """The result of a call. Never raises for what the function does."""
    try:
        arguments = call.arguments if read is None else read(call.arguments)
    except ValueError as error:
        return failed_result(call.call_id, "bad_arguments", f"{call.name}: {error}")
    try:
        if inspect.iscoroutinefunction(function):
            value = await run_async(call.name, function(**arguments), seconds)
        else:
            value = await tool_threads().run(lambda: function(**arguments), seconds)
            if inspect.isawaitable(value):
                value = await run_async(call.name, value, seconds)
    except TimeoutError:
        return failed_result(call.call_id, "timeout", f"{call.name} gave no answer within {seconds:g} s")
    except ToolFault as fault:
        if isinstance(fault.original, ToolError):
            return failed_result(call.call_id, "tool", fault.text)
        return failed_result(call.call_id, "crash", f"{call.name} raised {fault}")
    except Exception as error:  # noqa: BLE001 - the call itself may not fit the function
        return failed_result(call.call_id, "crash", f"{call.name} raised {describe_error(error)}")
    return to_result(call.call_id, value, MAX_RESULT_CHARS)
