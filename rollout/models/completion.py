"""Lenient reading of chat completions: answers, usage, error texts, wishes to be left alone.

An answer is parsed once, by msgspec, into typed slots. Servers differ in details and break them under load: what can
be read is read, and the rest is the caller's error.
"""

from __future__ import annotations

import email.utils
import json
import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.errors import ModelError
from rollout.core.messages import ToolCall
from rollout.core.secrets import excerpt
from rollout.trajectories.generation import Tokens, Usage

log = logging.getLogger(__name__)
MAX_TOKENS = 1 << 40
MAX_ERROR_TEXT = 500
"""Characters of a server's error that are kept."""
LOWEST_LOGPROB, HIGHEST_LOGPROB = -3.5e38, 1.0
"""What a logprob may be: llama.cpp writes the lowest single-precision number for a probability of 0, and rounding may
lift one of nearly 1 above 0."""


class _SentFunction(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class _SentCall(msgspec.Struct):
    function: _SentFunction
    id: str | None = None


class _Part(msgspec.Struct):
    text: str | None = None


class _Answer(msgspec.Struct):
    content: str | list[_Part] | None = None
    tool_calls: list[_SentCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Alternative(msgspec.Struct):
    logprob: float


class _TokenLogprob(msgspec.Struct):
    logprob: float
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] | None = None


class _Choice(msgspec.Struct):
    message: _Answer
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None
    response_token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class _Verbose(msgspec.Struct):
    """What llama.cpp adds for `verbose`: the prompt as the template wrote it, and with `return_tokens` the answer's
    ids."""

    prompt: Any = None
    tokens: Any = None


class Response(msgspec.Struct):
    """An answer. vLLM puts the prompt's ids at the top and the answer's into the choice (`token_ids`), SGLang puts
    both into the choice (`response_token_ids`)."""

    choices: list[_Choice]
    usage: Any = None
    prompt_token_ids: list[int] | None = None
    metadata: Any = None
    verbose: _Verbose | None = msgspec.field(name="__verbose", default=None)

    @property
    def prompt_ids(self) -> list[int]:
        return self.prompt_token_ids or self.choices[0].prompt_token_ids or []

    @property
    def completion_ids(self) -> list[int]:
        return self.choices[0].token_ids or self.choices[0].response_token_ids or []

    @property
    def weight_version(self) -> str | None:
        """Of the weights that answered, where the server says (SGLang)."""
        version = self.metadata.get("weight_version") if isinstance(self.metadata, dict) else None
        return None if version is None else str(version)


_decode = msgspec.json.Decoder(Response).decode


def read_calls(
    asked: list[tuple[str | None, str, str | dict[str, Any] | None]], seed: int | None = None
) -> tuple[ToolCall, ...]:
    """Tool calls with ids of their own: some servers send none, or the same one twice."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for index, (call_id, name, arguments) in enumerate(asked):
        if not call_id or call_id in seen:
            call_id = f"{call_id or f'call_{seed or 0}'}_{index}"
        seen.add(call_id)
        if not isinstance(arguments, str):
            arguments = "{}" if arguments is None else msgspec.json.encode(arguments).decode()
        calls.append(ToolCall(id=call_id, name=name, arguments=arguments))
    return tuple(calls)


def read_tokens(
    name: str,
    prompt_ids: Sequence[int],
    completion_ids: Sequence[int],
    logprobs: Sequence[float],
    entropies: Sequence[float] = (),
) -> Tokens | None:
    """What a server said of tokens, None where that is nothing. Logprobs that are not one for each id are left out:
    their owner is unknown."""
    if not prompt_ids and not completion_ids and not logprobs:
        return None
    if completion_ids and logprobs and len(logprobs) != len(completion_ids):
        log.warning("%s: %d logprobs for %d ids; they are left out", name, len(logprobs), len(completion_ids))
        logprobs = ()
    try:
        return Tokens.of(prompt_ids, completion_ids, checked_logprobs(logprobs), entropies)
    except (OverflowError, TypeError, ValueError) as error:
        raise ModelError(f"{name}: the answer's tokens cannot be read: {error}", transient=True) from error


def checked_logprobs(logprobs: Sequence[float]) -> Sequence[float]:
    """The same numbers. Raises ValueError where one of them is no logprob: no trainer could use the rest."""
    if logprobs:
        # The sum of all finds a NaN, which compares with nothing.
        low, high, total = min(logprobs), max(logprobs), sum(logprobs)
        if not (low >= LOWEST_LOGPROB and high <= HIGHEST_LOGPROB and total == total):
            raise ValueError(f"logprobs between {low:g} and {high:g}")
    return logprobs


def unreadable(name: str, error: Exception) -> ModelError:
    """The error for an answer that was not foreseen."""
    text = excerpt(str(error), MAX_ERROR_TEXT)
    return ModelError(f"{name}: the answer cannot be read: {type(error).__name__}: {text}", transient=True)


def read_usage(usage: Any) -> Usage:
    """Tokens as far as they can be read: a server that counts oddly has still answered."""
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")) if isinstance(prompt, dict) else 0,
        reasoning_tokens=_count(completion.get("reasoning_tokens")) if isinstance(completion, dict) else 0,
    )


def _count(value: Any) -> int:
    try:
        return max(0, min(int(value), MAX_TOKENS))
    except (TypeError, ValueError, OverflowError):
        return 0


def decode_answer(raw: bytes) -> Response:
    """The answer, also where its JSON holds lone surrogates, which models do write and msgspec refuses."""
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            raise
        plain = json.loads(raw)
        return _decode(json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))


def error_text(raw: bytes) -> str:
    """The server's own words, short and without secrets: `error.message`, `message`, `detail`, or the start of whatever
    came. Never raises: a server in trouble sends anything."""
    try:
        body = msgspec.json.decode(raw)
        if not isinstance(body, dict):
            return excerpt(str(body), MAX_ERROR_TEXT)
        error = body.get("error", body)
        if not isinstance(error, dict):
            return excerpt(str(error), MAX_ERROR_TEXT)
        code = error.get("code") or error.get("type") or ""
        text = str(error.get("message") or error.get("detail") or error)
        return excerpt(f"{text} ({code})" if code else text, MAX_ERROR_TEXT)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return excerpt(raw.decode("utf-8", "replace"), MAX_ERROR_TEXT)


def is_about_length(text: str) -> bool:
    # The one place where a text decides: providers have no common code for it.
    lowered = text.lower()
    return (
        "context_length_exceeded" in lowered
        or "context length" in lowered
        or "maximum context" in lowered
        or ("exceed" in lowered and "context" in lowered)
        # vLLM, of a prompt that leaves no room for a single token. What we ask for is never less than one.
        or "max_tokens must be at least 1" in lowered
    )


def seconds_of(retry_after: str | None) -> float | None:
    """Seconds from a Retry-After header: a number or an HTTP date. A header that is neither is no wish."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
