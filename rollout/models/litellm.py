"""Every other provider, through LiteLLM. An adapter beside the hot path: the package is imported when first used."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.errors import ConfigError, ContextLengthError, DeadlineError, ModelError, describe_error
from rollout.core.extras import missing_extra
from rollout.core.secrets import register, register_environment
from rollout.core.spelling import suggest
from rollout.models.chat_answer import to_generation
from rollout.models.completion import MAX_ERROR_TEXT, decode_answer, unreadable
from rollout.models.model import Capability, Request
from rollout.trajectories.generation import Generation

_OVERLOAD = frozenset({429, 503, 529})


class LiteLLMModel:
    """A model that LiteLLM knows by `provider/name`."""

    capabilities: frozenset[Capability] = frozenset({Capability.IMAGES})

    def __init__(
        self, name: str, *, api_key: str | None = None, api_base: str | None = None, timeout: float = 120.0,
        send_seed: bool = True,
    ) -> None:  # fmt: skip
        self.name = name
        # Without a key of its own LiteLLM takes one from the environment.
        register(api_key or "")
        register_environment(os.environ)
        self._api_key = api_key
        self._api_base = api_base
        self._timeout = timeout
        self._send_seed = send_seed

    async def generate(self, request: Request) -> Generation:
        litellm = load_litellm(f"model {self.name!r}")
        fields: dict[str, Any] = msgspec.to_builtins(request.sampling)
        extra = fields.pop("extra", {})
        if len(request.tools):
            fields["tools"] = msgspec.json.decode(request.tools.wire)
        else:
            fields.pop("tool_choice", None)
            fields.pop("parallel_tool_calls", None)
        if self._send_seed and request.seed is not None:
            fields["seed"] = request.seed
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                response = await litellm.acompletion(
                    model=self.name,
                    messages=msgspec.json.decode(b"[" + b",".join(request.wire) + b"]"),
                    api_key=self._api_key,
                    api_base=self._api_base,
                    timeout=self._timeout,
                    num_retries=0,
                    max_retries=0,
                    drop_params=True,
                    **({"extra_body": extra} if extra else {}),
                    **fields,
                )
        except TimeoutError as error:
            raise DeadlineError(f"{self.name}: no whole answer within {self._timeout:g} s", transient=True) from error
        except Exception as error:
            raise self._translate(litellm, error) from error
        return self._read(litellm, response, request, time.perf_counter() - started)

    async def close(self) -> None:
        """LiteLLM keeps its own clients."""

    def _translate(self, litellm: Any, error: Exception) -> ModelError | DeadlineError:
        text = f"{self.name}: {describe_error(error, MAX_ERROR_TEXT)}"
        if isinstance(error, litellm.ContextWindowExceededError):
            return ContextLengthError(text)
        if isinstance(error, litellm.Timeout):
            return DeadlineError(text, transient=True)
        status = getattr(error, "status_code", None)
        status = status if isinstance(status, int) else None
        # Anything but a 4xx is no refusal: LiteLLM could not read the answer (status 200), or the connection broke.
        transient = status is None or not 400 <= status < 500 or status in (408, 409, 429)
        return ModelError(text, transient=transient, status=status, is_overload=status in _OVERLOAD)

    def _read(self, litellm: Any, response: Any, request: Request, latency: float) -> Generation:
        """The answer by way of its JSON, so that it is checked as strictly as any other server's."""
        try:
            raw = json.dumps(response.model_dump(), default=str).encode()
            generation = to_generation(decode_answer(raw), self.name, request, latency)
        except ModelError:
            raise
        except Exception as error:
            raise unreadable(self.name, error) from error
        try:
            cost = float(litellm.completion_cost(completion_response=response))
        except Exception:  # noqa: BLE001 - a model without a price raises many kinds of errors, none of them ours
            cost = 0.0
        # What it says of tokens is not what every provider means by it.
        return msgspec.structs.replace(generation, cost=cost if math.isfinite(cost) else 0.0, tokens=None)


def load_litellm(needed_by: str) -> Any:
    """The package, quiet and without its own look at the network. Raises ConfigError that names who needs it."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise missing_extra(needed_by, "litellm") from error
    litellm.suppress_debug_info = True
    return litellm


def refuse_unknown_provider(name: str, provider: str, direct: Sequence[str]) -> None:
    """Raise ConfigError where LiteLLM does not know the provider of a model. `direct`: those that need no LiteLLM."""
    near = suggest(provider, direct)
    litellm = load_litellm(f"model {name!r}{f' ({near})' if near.startswith('did you mean') else ''}")
    known = {str(getattr(one, "value", one)) for one in litellm.provider_list}
    known |= {str(one["provider"]) for one in litellm.custom_provider_map}
    if provider not in known:
        hint = suggest(provider, sorted({*known, *direct}))
        raise ConfigError(f"model {name!r}: there is no provider {provider!r}; {hint}")
