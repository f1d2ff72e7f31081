"""BFCL's reference calls, which are Python source (`mv(source='a', destination='b')`), as actions.

They are parsed, never run: a name, and arguments that are literals.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping

from rollout.core.messages import JSON
from rollout.core.task import Action


def read_call(source: str, turn: int, signatures: Mapping[str, inspect.Signature]) -> Action:
    """The call as an action, every argument by its name. Raises ValueError for what is not such a call."""
    try:
        call = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{source!r} is not Python: {error}") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{source!r} is not a call of a function by its name")
    name = call.func.id
    if name not in signatures:
        raise ValueError(f"{source!r} calls {name}, which none of the task's classes has")
    try:
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{source!r} has an argument that is no literal: {error}") from error
    if len(named) < len(call.keywords):
        raise ValueError(f"{source!r} unpacks its arguments")
    try:
        bound = signatures[name].bind(*positional, **named)
    except TypeError as error:
        raise ValueError(f"{source!r} does not fit {name}{signatures[name]}: {error}") from error
    arguments: JSON = dict(bound.arguments)
    return Action(name, arguments, turn)
