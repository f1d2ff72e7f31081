"""The one retry of the house: transient errors only, full jitter, the server's own wish first, a cap on everything.

Written by hand because it is in the hot path: a call that succeeds costs nothing here, where tenacity's
`AsyncRetrying` costs 24 µs, a tenth of what the engine spends on a generation.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from rollout.core.errors import RolloutError

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often, and how long between."""

    attempts: int = 5
    first_wait: float = 0.5
    max_wait: float = 60.0
    max_elapsed: float = 600.0
    """No wait is begun that would end later than this after the first try."""

    def wait_before(self, attempt: int, error: RolloutError, jitter: random.Random) -> float:
        """Seconds to wait before try number `attempt` (the second try is 2)."""
        ceiling = min(self.max_wait, self.first_wait * 2.0 ** min(attempt - 2, 30))
        wait = ceiling * (0.5 + 0.5 * jitter.random())
        if error.retry_after is not None:
            # Everyone who was turned away holds the same Retry-After; a little jitter keeps them from returning as one.
            wait = max(wait, error.retry_after * (1.0 + 0.1 * jitter.random()))
        return wait


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_error: Callable[[RolloutError, int, float | None], None] | None = None,
    jitter: random.Random | None = None,
) -> T:
    """Await `call()` until it answers, fails for good, or the policy is used up; then its last error is raised.

    `on_error(error, attempt, wait)` is called for every failed try; `wait` is None when there is no next one.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    attempt = 1
    while True:
        try:
            return await call()
        except RolloutError as error:
            wait: float | None = None
            if error.transient and attempt < policy.attempts:
                wait = policy.wait_before(attempt + 1, error, jitter or _jitter)
                if loop.time() - started + wait > policy.max_elapsed:
                    # Also where the server asks for more than that: better a failure now than a run that stands still.
                    wait = None
            if on_error is not None:
                on_error(error, attempt, wait)
            if wait is None:
                raise
        await asyncio.sleep(wait)
        attempt += 1


_jitter = random.Random()
