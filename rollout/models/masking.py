"""Models of other people, as the engine sees them: secrets in their answers are masked, and what they raise is an error
of the model.

A model may repeat a key that it was shown, or that its server leaked into the answer. The key is masked before the
answer enters the tree, so later prompts contain the masked text and the record remains what the model saw. The answer
is then no longer what the model sampled, so it loses its token ids and logprobs and is flagged
(`Generation.is_masked`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rollout.core.errors import ModelError, RolloutError, describe_error
from rollout.core.messages import Message, ToolCall
from rollout.core.secrets import mask
from rollout.models.model import Capability, Model, Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.trajectories.generation import Generation

log = logging.getLogger(__name__)


def mask_generation(generation: Generation) -> Generation:
    """The generation without registered secrets; the same object where there are none."""
    message = mask_message(generation.message)
    if message is generation.message:
        return generation
    return msgspec.structs.replace(generation, message=message, tokens=None, is_masked=True)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Generation).decode


def checked(generation: Any, name: str) -> Generation:
    """The answer of a plug-in with its types checked. Raises ModelError if it could not be recorded."""
    try:
        found = _decode(_encode(generation))
        if not math.isfinite(found.cost) or not math.isfinite(found.latency):
            raise ValueError(f"cost {found.cost}, latency {found.latency}: expected numbers")
        if found.message.role != "assistant":
            # Nothing would count as an answer, and the model would be asked without end.
            raise ValueError(f"its message has the role {found.message.role!r}; expected 'assistant'")
        ids = [call.id for call in found.message.tool_calls]
        if len(set(ids)) < len(ids):
            raise ValueError("two of its tool calls have the same id")
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelError(f"{name} returned an answer that cannot be used: {error}") from error
    return found


def mask_message(message: Message) -> Message:
    """The message without registered secrets; the same object where there are none."""
    content, reasoning, raw, calls = message.content, message.reasoning, message.raw, message.tool_calls
    if content:
        content = mask(content)
    if reasoning:
        reasoning = mask(reasoning)
    if raw:
        raw = mask(raw)
    if calls:
        clean = tuple(map(_mask_call, calls))
        if any(new is not old for new, old in zip(clean, calls, strict=True)):
            calls = clean
    is_same = content is message.content and reasoning is message.reasoning
    if is_same and raw is message.raw and calls is message.tool_calls:
        return message
    return msgspec.structs.replace(message, content=content, reasoning=reasoning, raw=raw, tool_calls=calls)


def _mask_call(call: ToolCall) -> ToolCall:
    clean = ToolCall(mask(call.id), mask(call.name), mask(call.arguments))
    return call if clean == call else clean


class _Masked:
    """What becomes of a plug-in's answers, and of what it raises."""

    name: str
    _has_failed = False

    async def _answer(self, ask: Callable[..., Awaitable[Generation]], *asked: Any) -> Generation:
        try:
            return mask_generation(checked(await ask(*asked), self.name))
        except RolloutError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and type(error) is not SystemExit:
                raise  # A signal ended the command.
            if not self._has_failed:
                self._has_failed = True
                log.warning(
                    "%s failed; further failures are reported without their traceback", self.name, exc_info=error
                )
            raise ModelError(f"{self.name} failed: {describe_error(error)}") from error


class MaskedModel(_Masked):
    """A plug-in model with masked answers. Of the plug-in only the `Model` contract is reachable."""

    def __init__(self, model: Model, *, is_owned: bool) -> None:
        """`is_owned`: whether it was made here, so that it is closed with this."""
        self._model = model
        self._is_owned = is_owned
        self.name: str = getattr(model, "name", type(model).__name__)
        self.capabilities: frozenset[Capability] = getattr(model, "capabilities", frozenset())

    async def generate(self, request: Request) -> Generation:
        return await self._answer(self._model.generate, request)

    async def close(self) -> None:
        if self._is_owned and (close := getattr(self._model, "close", None)) is not None:
            await close()


class MaskedReferenceModel(_Masked, ReferenceModel):
    """A plug-in reference model with masked answers."""

    def __init__(self, model: ReferenceModel, *, is_owned: bool) -> None:
        self._model = model
        self._is_owned = is_owned
        self.name: str = getattr(model, "name", type(model).__name__)
        self.capabilities = model.capabilities

    async def play(self, request: Request, reference: Reference) -> Generation:
        return await self._answer(self._model.play, request, reference)

    async def close(self) -> None:
        if self._is_owned:
            await self._model.close()
