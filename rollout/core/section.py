"""The base class of configuration sections.

It lives in `core` so that parts which bring their own parameters, such as filters, need nothing of `rollout.config`.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError


class Section(BaseModel):
    """A part of a configuration: unknown keys are errors, defaults are checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_yes_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads yes and no as booleans, which are numbers to Python."""
        if isinstance(value, bool) and info.field_name is not None:
            taken = _types_of(cls.model_fields[info.field_name].annotation)
            if bool not in taken and taken & {int, float}:
                raise PydanticKnownError("int_type" if int in taken else "float_type")
        return value


def _types_of(annotation: Any) -> set[Any]:
    """The types that a field takes: those of a union, or the one."""
    if get_origin(annotation) is Annotated:
        return _types_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_types_of, get_args(annotation)))
    return {annotation}
