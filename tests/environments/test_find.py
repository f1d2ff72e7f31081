"""From the keys of a dataset to its environment: keys that exclude one another."""

from __future__ import annotations

from typing import Any

import pytest

from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.environments.environment import Environment
from rollout.environments.find import find_environment

talk = Environment(tasks=["Hello."], name="talk")
NAMED: dict[str, dict[str, Any]] = {
    "environment": {"environment": f"{__name__}:talk"},
    "suite": {"suite": "tau2"},
    "web": {"web": {"sites": ["shop"]}},
    "mcpServers": {"mcpServers": {"files": {"command": "serve"}}},
    "mcp_domain": {"mcp_domain": "HotelReservations"},
}


@pytest.mark.parametrize("first", NAMED)
@pytest.mark.parametrize("second", NAMED)
def test_a_dataset_names_its_environment_by_one_key(first: str, second: str) -> None:
    dataset = Dataset.model_validate({"agent": {"model": "builtin/oracle"}, **NAMED[first], **NAMED[second]})
    if first != second:
        with pytest.raises(ConfigError, match="leave"):
            find_environment("data", dataset)
