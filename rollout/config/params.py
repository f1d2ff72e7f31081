"""Parameters that a part brings itself: checked like every other section of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from rollout.config.problems import describe_problems
from rollout.config.section import Section
from rollout.core.errors import ConfigError

P = TypeVar("P", bound=Section)


def read_params(model: type[P], params: Mapping[str, Any], key: str | None = "params") -> P:
    """The parameters under `key`, if there is one, checked. Raises ConfigError that names the key and what was expected
    of it."""
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        raise ConfigError("; ".join(describe_problems(error, model, key))) from None
