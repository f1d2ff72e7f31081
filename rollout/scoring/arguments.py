"""Comparing the arguments of a call with those of a reference action: all of them, by their types.

Numbers are equal by value (1 is 1.0, never true), a text that is a number equals the number only where the schema says
number, null is the same as not given, and not given is the same as the schema's default. Texts are compared as they are
written, dates too; only where it is declared are case and spacing free, or an argument not compared at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rollout.core.messages import JSON
from rollout.scoring.rules import NO_RULES, Rules

Lookup = Callable[[str], Sequence[Any]]
"""The values that a `$from` of a reference action may stand for."""
_NUMBERS = {"number", "integer"}


def _nothing(reference: str) -> Sequence[Any]:
    return ()


def differing_arguments(
    tool: str, wanted: JSON, got: JSON, schema: JSON, rules: Rules = NO_RULES, lookup: Lookup = _nothing
) -> dict[str, dict[str, Any]]:
    """The arguments in which a call differs from a reference action of the same tool, with both values."""
    ignored, loose = rules.ignored_arguments(tool), rules.loose(tool)
    properties = schema.get("properties") or {}
    found = {}
    for name in sorted(wanted.keys() | got.keys()):
        if name in ignored:
            continue
        about = _section(properties.get(name))
        one, other = (_given(arguments.get(name), about) for arguments in (wanted, got))
        if not same_value(one, other, about, is_loose=name in loose, lookup=lookup):
            found[name] = {"wanted": one, "got": other}
    return found


def same_value(
    wanted: Any, got: Any, schema: JSON | None = None, *, is_loose: bool = False, lookup: Lookup = _nothing
) -> bool:
    """Whether two values mean the same under a schema."""
    schema = schema or {}

    def inner(one: Any, other: Any, about: Any) -> bool:
        return same_value(one, other, _section(about), is_loose=is_loose, lookup=lookup)

    if isinstance(wanted, dict):
        if set(wanted) == {"$from"}:
            return any(inner(value, got, schema) for value in lookup(str(wanted["$from"])))
        if not isinstance(got, dict):
            return False
        properties = schema.get("properties") or {}
        names = {name for each in (wanted, got) for name, value in each.items() if value is not None}
        return all(inner(wanted.get(name), got.get(name), properties.get(name)) for name in names)
    if isinstance(wanted, list):
        return (
            isinstance(got, list)
            and len(wanted) == len(got)
            and all(inner(one, other, schema.get("items")) for one, other in zip(wanted, got, strict=True))
        )
    if _says_number(schema):
        wanted, got = _as_number(wanted), _as_number(got)
    if _is_number(wanted) and _is_number(got):
        return bool(wanted == got)
    if type(wanted) is not type(got):
        return False
    if isinstance(wanted, str) and is_loose:
        return _loosely(wanted) == _loosely(got)
    return bool(wanted == got)


def _given(value: Any, schema: JSON) -> Any:
    return schema.get("default") if value is None else value


def _section(schema: Any) -> JSON:
    return schema if isinstance(schema, dict) else {}


def _says_number(schema: JSON) -> bool:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or [each.get("type") for each in schema.get("anyOf") or ()]
    named = {kind for kind in kinds if kind != "null"}
    return bool(named) and named <= _NUMBERS


def _as_number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _loosely(text: str) -> str:
    return " ".join(text.casefold().split())
