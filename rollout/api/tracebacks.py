"""Short tracebacks for the mistakes of a program: the error at the line of its call, without what lies below."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rollout.core.errors import ConfigError, JournalError

P = ParamSpec("P")
T = TypeVar("T")


def at_the_call(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors about arguments and run directories have a traceback that ends at its caller's line."""

    @functools.wraps(function)
    def called(*args: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*args, **keywords)
        except (ConfigError, JournalError) as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, and its cause stays

    return called
