"""Environments opened in tests that need no event loop for it."""

from __future__ import annotations

from typing import Any, TypeVar

from rollout.config.schema import Config, Timeouts
from rollout.environments.environment import Environment, OpenEnvironment
from rollout.environments.resources import Resources

Opened = TypeVar("Opened", bound=OpenEnvironment)
_left_open: list[Any] = []


def opened(environment: Environment, kind: type[Opened] = OpenEnvironment, timeout: float = 10.0) -> Opened:  # type: ignore[assignment]
    """An environment whose worlds share nothing that has to be awaited or closed, open until the process ends."""
    resources = Resources(Config(timeouts=Timeouts(tool=timeout), mock_servers={"isolation": "none"}))  # type: ignore[arg-type]
    context = environment.open(resources)
    _left_open.append(context)
    try:
        context.__aenter__().__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as entered:
        assert isinstance(entered.value, kind)
        return entered.value
    raise AssertionError(f"{environment.name} waits for something while it is opened")
