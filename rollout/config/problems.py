"""Descriptions of what pydantic finds wrong in a configuration: the key, and what was expected of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rollout.core.spelling import suggest

_MACHINERY = re.compile(r"(function-\w+|nullable|list|dict|union|tagged-union)\[.*\]|\[key\]", re.DOTALL)
SOUNDS_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie|session|signature", re.IGNORECASE)
"""Names whose values are never shown."""
MOST_UNKNOWN = 5
"""Unknown keys that are named."""


_EXPECTED = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "expected a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "expected a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "expected true or false"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected keys and values"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    "string_type": "expected a text",
}
"""What was expected, where pydantic says it in words of its own."""


def describe_problems(error: ValidationError, model: type[BaseModel], under: str | None = None) -> list[str]:
    """All problems of a section, one description each. Of many unknown keys, only the first ones are named: the file is
    probably not a configuration, and may hold secrets."""
    # A default that depends on other keys cannot be made where one of these is wrong, which is said anyway.
    found = [each for each in error.errors(include_url=False) if each["type"] != "default_factory_not_called"]
    unknown = [each for each in found if each["type"] == "extra_forbidden"]
    left_out = unknown[MOST_UNKNOWN:]
    problems = [describe_problem(each, model, under) for each in found if each not in left_out]
    if left_out:
        problems.append(f"and {len(left_out)} more unknown keys; is this a configuration of rollout?")
    return problems


def list_problems(where: str, problems: Sequence[str]) -> str:
    """The text of an error that names the file and its problems; several problems have a line each."""
    separator = " " if len(problems) == 1 else "\n  "
    return f"{where}:{separator}" + "\n  ".join(problems)


def describe_problem(problem: ErrorDetails, model: type[BaseModel], under: str | None = None) -> str:
    """What pydantic found wrong, as the key, which lies `under` another, and what was expected of it."""
    is_unknown = problem["type"] == "extra_forbidden"
    location = [part for part in problem["loc"][:-1] if not _is_machinery(part)]
    location += [part for part in problem["loc"][-1:] if is_unknown or not _is_machinery(part)]
    key = ".".join(map(shown_key, location if under is None else [under, *location])) or "the file"
    if is_unknown:
        known = sorted(known_keys(model, location[:-1]))
        return f"{key}: there is no such key; {suggest(str(location[-1]), known, 'known keys')}"
    text = _EXPECTED.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    text = text[:1].lower() + text[1:]
    given = problem["input"]
    if isinstance(given, (str, int, float, bool)) and not _looks_secret(location):
        return f"{key}: {text}, got {given!r}"
    return f"{key}: {text}"


def shown_key(part: Any) -> str:
    """A key that is safe to show on a terminal."""
    return part if isinstance(part, str) and part.isprintable() else repr(part)


def _is_machinery(part: str | int) -> bool:
    """Names that pydantic puts into a location for validators and unions, which no file has."""
    return isinstance(part, str) and _MACHINERY.fullmatch(part) is not None


def _looks_secret(location: Iterable[str | int]) -> bool:
    return any(
        part in ("models", "env") or SOUNDS_SECRET.search(str(part)) or "header" in str(part) for part in location
    )


def known_keys(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The keys of the section that a location leads to."""
    annotation: Any = model
    for part in location:
        annotation = _unwrapped(annotation)
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        elif _is_section(annotation):
            annotation = next((field.annotation for key, field in _fields(annotation) if key == part), None)
    annotation = _unwrapped(annotation)
    return [key for key, _ in _fields(annotation)] if _is_section(annotation) else []


def _fields(section: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """The fields of a section by the names that a file calls them."""
    return [(field.alias or name, field) for name, field in section.model_fields.items()]


def _unwrapped(annotation: Any) -> Any:
    """The section or mapping inside `Section | None` and `Annotated[Section, …]`."""
    if _is_section(annotation) or get_origin(annotation) is dict:
        return annotation
    return next((found for inner in get_args(annotation) if (found := _unwrapped(inner)) is not None), None)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
