"""The base class of configuration sections.

It lives in `core` so that parts which bring their own parameters, such as filters, need nothing of `rollout.config`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a configuration: unknown keys are errors, defaults are checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
