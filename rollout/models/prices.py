"""Prices of tokens: the registry's figures first, then LiteLLM's table where that package is installed.

The table is a JSON file inside the package; it is read without importing LiteLLM, which would take seconds.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import msgspec

from rollout.config.models import ModelEntry
from rollout.models.guard import Price

TABLE = "model_prices_and_context_window_backup.json"


def find_price(entry: ModelEntry, *names: str) -> Price | None:
    """The price of a model known under any of these names; None where it is unknown."""
    if entry.input_cost_per_token is not None or entry.output_cost_per_token is not None:
        return Price(
            entry.input_cost_per_token or 0.0, entry.output_cost_per_token or 0.0, entry.cached_input_cost_per_token
        )
    table = _table()
    for name in names:
        row = table.get(name)
        if row and row.get("input_cost_per_token") is not None:
            return Price(
                float(row["input_cost_per_token"]),
                float(row.get("output_cost_per_token") or 0.0),
                row.get("cache_read_input_token_cost"),
            )
    return None


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        return msgspec.json.decode((Path(spec.origin).parent / TABLE).read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, msgspec.MsgspecError):
        return {}
