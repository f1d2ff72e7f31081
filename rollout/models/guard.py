"""Limits, retries, prices and masking of secrets, in front of any model that runs outside this process."""

from __future__ import annotations

import logging

import msgspec

from rollout.core.errors import ModelError, RolloutError
from rollout.core.retry import RetryPolicy, retry
from rollout.models.limits import Gate
from rollout.models.masking import mask_generation
from rollout.models.model import Capability, Model, Request
from rollout.trajectories.generation import Failure, Generation, Usage

log = logging.getLogger(__name__)
_BYTES_PER_TOKEN = 4
_GUESSED_ANSWER = 512


class Price(msgspec.Struct, frozen=True):
    """The price of one token, in the currency of its table (US dollars in LiteLLM's)."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None

    def of(self, usage: Usage) -> float:
        """The cost of one answer."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, usage.prompt_tokens - usage.cached_tokens)
        return fresh * self.input + usage.cached_tokens * cached + usage.completion_tokens * self.output


class GuardedModel:
    """A model behind a gate. Itself a `Model`."""

    def __init__(self, backend: Model, limiter: Gate, policy: RetryPolicy, price: Price | None) -> None:
        self.name = backend.name
        self.capabilities: frozenset[Capability] = backend.capabilities
        self.limiter = limiter
        self._backend = backend
        self._policy = policy
        self._price = price

    async def generate(self, request: Request) -> Generation:
        failures: list[Failure] = []

        def note(error: RolloutError, attempt: int, wait: float | None) -> None:
            status = error.status if isinstance(error, ModelError) else None
            failures.append(Failure(kind=error.kind, text=str(error)[:300], waited=wait, status=status))
            if wait is not None:
                log.info("%s: try %d failed (%s); next in %.1f s", self.name, attempt, error, wait)

        try:
            generation = await retry(lambda: self._try(request), self._policy, on_error=note)
        except RolloutError as error:
            for failure in failures[:-1]:
                error.add_note(f"tried before: {failure.text}; waited {failure.waited:.1f} s")
            raise
        generation = mask_generation(generation)
        if self._price is None and not failures:
            return generation
        cost = generation.cost if self._price is None else self._price.of(generation.usage)
        return msgspec.structs.replace(generation, cost=cost, failures=tuple(failures))

    async def close(self) -> None:
        await self._backend.close()

    async def _try(self, request: Request) -> Generation:
        limiter = self.limiter
        estimate = _estimate(request) if limiter.counts_tokens else 0.0
        await limiter.enter(estimate)
        try:
            generation = await self._backend.generate(request)
        except BaseException as error:
            is_overload = isinstance(error, ModelError) and error.is_overload
            hold = error.retry_after if isinstance(error, RolloutError) else None
            # A Retry-After holds up every request of the model, so it is capped here. The failed request waits in full.
            limiter.leave_failed(
                is_overload=is_overload, retry_after=None if hold is None else min(hold, self._policy.max_wait)
            )
            raise
        used = generation.usage.prompt_tokens + generation.usage.completion_tokens
        limiter.leave(correction=used - estimate if used else 0.0)
        return generation


def _estimate(request: Request) -> float:
    """An estimate of the tokens that a request will use. The real number corrects it later."""
    sent = sum(map(len, request.wire)) + len(request.tools.wire)
    return sent / _BYTES_PER_TOKEN + (request.sampling.max_tokens or _GUESSED_ANSWER)
