"""Token ids in requests and answers: the request's body and the answer, for each kind of server.

Three forms: `/v1/completions` with the ids as prompt (vLLM, and what follows it), `/generate` (SGLang), `/completion`
(llama.cpp). What they answer is read into one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from rollout.core.messages import JSON
from rollout.models.completion import read_usage
from rollout.models.model import Sampling
from rollout.trajectories.generation import FinishReason, Usage

DEFAULT_MAX_TOKENS = 1024
"""Where neither agent nor registry say: these ways in have defaults as small as 16."""
FormName = Literal["vllm", "sglang", "llamacpp"]
_OPTIONS = "chat_template_kwargs"
_OF_TEMPLATES = (_OPTIONS, "enable_thinking")
_NOT_OURS = ("extra", "logprobs", "top_logprobs", "tool_choice", "parallel_tool_calls", "max_tokens")
_FINISH: dict[Any, FinishReason] = {
    "stop": "stop", "eos": "stop", "word": "stop", "length": "length", "limit": "length", "abort": "abort",
}  # fmt: skip


class Sampled(msgspec.Struct, frozen=True):
    """What a server answered."""

    ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    usage: Usage
    alternatives: list[list[float]] = []
    """For each id the logprobs of the likeliest at its place, where they were asked for."""
    prompt_ids: list[int] | None = None
    """As the server read them, where it says."""
    weight_version: str | None = None


class Form(Protocol):
    """One way in. `read` raises any exception on what is no answer."""

    path: str
    """Behind the server's address without `/v1`."""

    def body(self, model: str, ids: Sequence[int], sampling: Sampling, seed: int | None, end: int | None) -> JSON: ...

    def read(self, answer: JSON) -> Sampled: ...


class VllmForm:
    """`POST /v1/completions`."""

    path = "/v1/completions"

    def body(self, model: str, ids: Sequence[int], sampling: Sampling, seed: int | None, end: int | None) -> JSON:
        body = {"model": model, "prompt": list(ids), **_params(sampling, "max_tokens", seed, "seed", end)}
        body |= {"logprobs": sampling.top_logprobs or 1, "return_token_ids": True, "skip_special_tokens": False}
        if sampling.top_logprobs:
            # By their texts, alternatives that are no whole character would all be one.
            body["return_tokens_as_token_ids"] = True
        return body | _extra(sampling)

    def read(self, answer: JSON) -> Sampled:
        choice = answer["choices"][0]
        told = choice.get("logprobs") or {}
        logprobs = [float(value) for value in told.get("token_logprobs") or ()]
        alternatives = [[float(value) for value in (entry or {}).values()] for entry in told.get("top_logprobs") or ()]
        prompt = choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
        finish = _FINISH.get(choice.get("finish_reason"), "unknown")
        return Sampled(choice["token_ids"], logprobs, finish, read_usage(answer.get("usage")), alternatives, prompt)


class SglangForm:
    """`POST /generate`."""

    path = "/generate"

    def body(self, model: str, ids: Sequence[int], sampling: Sampling, seed: int | None, end: int | None) -> JSON:
        params = _params(sampling, "max_new_tokens", seed, "sampling_seed", end)
        params["skip_special_tokens"] = False
        body = {"input_ids": list(ids), "sampling_params": params, "return_logprob": True}
        if sampling.top_logprobs:
            body["top_logprobs_num"] = sampling.top_logprobs
        return body | _extra(sampling)

    def read(self, answer: JSON) -> Sampled:
        told = answer["meta_info"]
        logprobs = [float(entry[0]) for entry in told.get("output_token_logprobs") or ()]
        likeliest = told.get("output_top_logprobs") or ()
        alternatives = [[float(entry[0]) for entry in place or ()] for place in likeliest]
        finish = (told.get("finish_reason") or {}).get("type")
        usage = read_usage({**told, "prompt_tokens_details": {"cached_tokens": told.get("cached_tokens")}})
        version = told.get("weight_version")
        return Sampled(
            answer["output_ids"],
            logprobs,
            _FINISH.get(finish, "unknown"),
            usage,
            alternatives,
            weight_version=None if version is None else str(version),
        )


class LlamaCppForm:
    """`POST /completion`."""

    path = "/completion"

    def body(self, model: str, ids: Sequence[int], sampling: Sampling, seed: int | None, end: int | None) -> JSON:
        params = _params(sampling, "n_predict", seed, "seed", None)
        if "repetition_penalty" in params:
            params["repeat_penalty"] = params.pop("repetition_penalty")
        return {
            "prompt": list(ids),
            **params,
            "return_tokens": True,
            "n_probs": sampling.top_logprobs or 1,
            **_extra(sampling),
        }

    def read(self, answer: JSON) -> Sampled:
        told = answer.get("completion_probabilities") or ()
        logprobs = [float(entry["logprob"]) for entry in told]
        alternatives = [[float(other["logprob"]) for other in entry.get("top_logprobs") or ()] for entry in told]
        cached = (answer.get("timings") or {}).get("cache_n")
        usage = {
            "prompt_tokens": answer.get("tokens_evaluated"),
            "completion_tokens": answer.get("tokens_predicted"),
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        finish = _FINISH.get(answer.get("stop_type"), "unknown")
        return Sampled(answer["tokens"], logprobs, finish, read_usage(usage), alternatives)


FORMS: dict[FormName, Form] = {"vllm": VllmForm(), "sglang": SglangForm(), "llamacpp": LlamaCppForm()}


def _params(sampling: Sampling, length: str, seed: int | None, seed_key: str, end: int | None) -> JSON:
    params: JSON = msgspec.to_builtins(sampling)
    for key in _NOT_OURS:
        params.pop(key, None)
    params[length] = sampling.max_tokens or DEFAULT_MAX_TOKENS
    if seed is not None:
        params[seed_key] = seed
    if end is not None:
        params["stop_token_ids"] = [end]
    return params


def template_options(sampling: Sampling) -> JSON:
    """The options of a request for the chat template. A server that receives ids uses no template."""
    asked = {key: sampling.extra[key] for key in _OF_TEMPLATES if key in sampling.extra}
    options = asked.pop(_OPTIONS, None) or {}
    return {**asked, **options}


def _extra(sampling: Sampling) -> JSON:
    return {key: value for key, value in sampling.extra.items() if key not in _OF_TEMPLATES}
