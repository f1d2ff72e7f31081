"""Every other provider, through LiteLLM. An adapter beside the hot path: the package is imported when first used."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

from rollout.errors import ConfigError, ContextLengthError, DeadlineError, ModelError
from rollout.messages import Message, ToolCall
from rollout.models.model import Capability, Request
from rollout.secrets import redact
from rollout.trajectories.generation import Generation, Usage

_OVERLOAD = frozenset({429, 503, 529})


class LiteLLMModel:
    """A model that LiteLLM knows by `provider/name`."""

    capabilities: frozenset[Capability] = frozenset({Capability.IMAGES})

    def __init__(
        self, name: str, *, api_key: str | None = None, api_base: str | None = None, timeout: float = 120.0,
        send_seed: bool = True,
    ) -> None:  # fmt: skip
        self.name = name
        self._api_key = api_key
        self._api_base = api_base
        self._timeout = timeout
        self._send_seed = send_seed

    async def generate(self, request: Request) -> Generation:
        litellm = load_litellm()
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
        text = redact(f"{self.name}: {type(error).__name__}: {error}")[:600]
        if isinstance(error, litellm.ContextWindowExceededError):
            return ContextLengthError(text)
        if isinstance(error, litellm.Timeout):
            return DeadlineError(text, transient=True)
        status = getattr(error, "status_code", None)
        status = status if isinstance(status, int) else None
        transient = status in (408, 409, 429) or (status is not None and status >= 500)
        return ModelError(text, transient=transient, status=status, is_overload=status in _OVERLOAD)

    def _read(self, litellm: Any, response: Any, request: Request, latency: float) -> Generation:
        try:
            choice = response.choices[0]
            answer = choice.message
            calls = tuple(
                ToolCall(
                    id=call.id or f"call_{index}", name=call.function.name, arguments=call.function.arguments or "{}"
                )
                for index, call in enumerate(answer.tool_calls or ())
            )
            usage = response.usage
        except (AttributeError, IndexError, TypeError) as error:
            raise ModelError(f"{self.name}: the answer is not a chat completion: {error}", transient=True) from error
        try:
            cost = float(litellm.completion_cost(completion_response=response))
        except Exception:  # noqa: BLE001 - a model without a price raises many kinds of errors, none of them ours
            cost = 0.0
        finish = choice.finish_reason
        return Generation(
            message=Message(
                role="assistant",
                content=answer.content,
                tool_calls=calls,
                reasoning=getattr(answer, "reasoning_content", None),
            ),
            finish_reason=finish if finish in ("stop", "tool_calls", "length", "content_filter") else "unknown",
            usage=Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage is not None else Usage(),
            cost=cost,
            model=self.name,
            latency=latency,
            seed=request.seed,
        )


def load_litellm() -> Any:
    """The package, quiet and without its own look at the network."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ConfigError("this model needs LiteLLM: pip install 'rollout[litellm]'") from error
    litellm.suppress_debug_info = True
    return litellm
