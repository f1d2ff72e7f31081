"""Limits on the requests to a server: concurrency that backs off and grows again, requests and tokens a minute.

The concurrency limit moves like TCP's window: a 429 or 503 cuts it to 0.7 of what was really in flight (once for each
burst, not once for each victim), every full round of successes adds one, up to `max_concurrency`. A Retry-After stops
everybody until it is over. `rpm` and `tpm` hold in *every* window of sixty seconds, not on average: the window keeps
what was spent and when. Waiters are served in the order they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

CUT = 0.7
WINDOW_SECONDS = 60.0
BURST_SECONDS = 1.0


class Window:
    """At most `limit` units in any sixty seconds. Time is given, never asked."""

    def __init__(self, limit: float, seconds: float = WINDOW_SECONDS) -> None:
        self.limit = limit
        self.seconds = seconds
        self.used = 0.0
        self._spent: deque[tuple[float, float]] = deque()

    def delay(self, amount: float, now: float) -> float:
        """Seconds until `amount` fits; 0 when it fits now. More than the whole limit fits into an empty window."""
        self._forget(now)
        if self.used + amount <= self.limit or not self._spent:
            return 0.0
        excess = min(self.used + amount, self.used + self.limit) - self.limit
        for when, spent in self._spent:
            excess -= spent
            if excess <= 1e-9:
                return max(0.0, when + self.seconds - now)
        return max(0.0, self._spent[-1][0] + self.seconds - now)

    def spend(self, amount: float, now: float) -> None:
        """Book `amount` at `now`. A correction of an estimate may be negative."""
        self._spent.append((now, amount))
        self.used += amount

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0][0] + self.seconds <= now:
            self.used -= self._spent.popleft()[1]


class Gate(Protocol):
    """The gate in front of one model's server. `enter` before a request, exactly one `leave…` after it."""

    @property
    def counts_tokens(self) -> bool:
        """Whether an estimate of the request's tokens is of any use."""
        ...

    async def enter(self, tokens: float = 0.0) -> None:
        """Wait for a place. Cancelling the wait takes nothing."""
        ...

    def leave(self, *, correction: float = 0.0) -> None:
        """Give the place back after an answer. `correction`: real tokens minus the estimate."""
        ...

    def leave_failed(self, *, is_overload: bool, retry_after: float | None = None) -> None:
        """Give the place back after an error; an overload also lowers the limit."""
        ...


class Limiter:
    """The gate of a process that has the server for itself."""

    def __init__(self, max_concurrency: int | None = None, rpm: float | None = None, tpm: float | None = None) -> None:
        self.ceiling = float(max_concurrency) if max_concurrency is not None else float("inf")
        self.limit = self.ceiling
        self.in_flight = 0
        self.cuts = 0
        self._requests = Window(rpm) if rpm is not None else None
        self._tokens = Window(tpm) if tpm is not None else None
        self._not_before = 0.0
        self._last_cut = float("-inf")
        self._waiters: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def counts_tokens(self) -> bool:
        """Whether an estimate of the request's tokens is of any use."""
        return self._tokens is not None

    async def enter(self, tokens: float = 0.0) -> None:
        """Wait for a place. Cancelling the wait takes nothing."""
        now = asyncio.get_running_loop().time()
        if not self._waiters and self._delay(tokens, now) == 0.0:
            self._take(tokens, now)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((turn, tokens))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was given and the cancellation came before we could use it: pass it on.
                self.in_flight -= 1
            self._serve()
            raise

    def leave(self, *, correction: float = 0.0) -> None:
        """Give the place back after an answer. `correction`: real tokens minus the estimate."""
        self.in_flight -= 1
        if self._tokens is not None and correction:
            self._tokens.spend(correction, asyncio.get_running_loop().time())
        if self.limit < self.ceiling:
            self.limit = min(self.ceiling, self.limit + 1.0 / self.limit)
        if self._waiters:
            self._serve()

    def leave_failed(self, *, is_overload: bool, retry_after: float | None = None) -> None:
        """Give the place back after an error; an overload also lowers the limit."""
        now = asyncio.get_running_loop().time()
        if is_overload:
            if now - self._last_cut >= BURST_SECONDS:
                self._last_cut = now
                self.cuts += 1
                self.limit = max(1.0, min(self.limit, float(self.in_flight)) * CUT)
            if retry_after is not None:
                self._not_before = max(self._not_before, now + retry_after)
        self.in_flight -= 1
        self._serve()

    def _delay(self, tokens: float, now: float) -> float:
        """0: now. inf: when another request has ended. Otherwise seconds."""
        if self.in_flight >= 1 and self.in_flight + 1 > self.limit:
            return float("inf")
        delay = max(0.0, self._not_before - now)
        if self._requests is not None:
            delay = max(delay, self._requests.delay(1.0, now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.delay(tokens, now))
        return delay

    def _take(self, tokens: float, now: float) -> None:
        self.in_flight += 1
        if self._requests is not None:
            self._requests.spend(1.0, now)
        if self._tokens is not None:
            self._tokens.spend(tokens, now)

    def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            turn, tokens = self._waiters[0]
            if turn.done():
                self._waiters.popleft()
                continue
            delay = self._delay(tokens, now)
            if delay > 0.0:
                if delay != float("inf"):
                    self._timer = loop.call_later(delay, self._serve)
                return
            self._waiters.popleft()
            self._take(tokens, now)
            turn.set_result(None)
