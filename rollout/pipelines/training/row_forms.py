"""Making a form of training data out of its name and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollout.config.params import read_params
from rollout.core.errors import ConfigError
from rollout.trajectories.rows.form import RowForm, find_form


def make_form(name: str, params: Mapping[str, Any], options: Mapping[str, Any]) -> RowForm:
    """The form of a name. `params` must be keys of it; `options` are taken as far as it has such keys, and None is one
    that was not given. Raises ConfigError."""
    kind = find_form(name)
    known = {key: value for key, value in options.items() if value is not None and key in kind.model_fields}
    try:
        return read_params(kind, {**known, **params}, key=None)
    except ConfigError as error:
        raise ConfigError(f"--form {name}: {error}") from error
