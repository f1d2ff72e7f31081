"""A chat completion, decoded, as the generation that goes on record. The same for every server that sends one."""

from __future__ import annotations

from rollout.core.errors import ModelError
from rollout.core.messages import Message, ToolCall
from rollout.models.completion import Response, checked_logprobs, read_calls, read_tokens, read_usage
from rollout.models.constrained import parse_constrained
from rollout.models.model import Request
from rollout.trajectories.generation import FIRST_TOKENS, FinishReason, Generation, entropy_of

_FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "abort": "abort",
}


def to_generation(
    response: Response, name: str, request: Request, latency: float, *, constrained: bool = False
) -> Generation:
    """The first choice of an answer. `constrained`: the text is a call or a reply as JSON (`constrain_tools`)."""
    if not response.choices:
        raise ModelError(f"{name}: the answer has no choices", transient=True)
    choice = response.choices[0]
    answer = choice.message
    content = answer.content
    if isinstance(content, list):
        content = "".join(part.text or "" for part in content) or None
    calls: tuple[ToolCall, ...] = ()
    if answer.tool_calls:
        asked_for = [(call.id, call.function.name, call.function.arguments) for call in answer.tool_calls]
        calls = read_calls(asked_for, seed=request.seed)
    elif constrained and content:
        content, asked = parse_constrained(content)
        calls = read_calls([(None, called, arguments) for called, arguments in asked], seed=request.seed)
    message = Message(
        role="assistant",
        content=content,
        tool_calls=calls,
        reasoning=answer.reasoning_content or answer.reasoning or None,
    )
    entries = choice.logprobs.content if choice.logprobs is not None else None
    logprobs = [entry.logprob for entry in entries or ()]
    entropies = [
        entropy_of(checked_logprobs([other.logprob for other in entry.top_logprobs]))
        for entry in (entries or ())[:FIRST_TOKENS]
        if entry.top_logprobs
    ]
    return Generation(
        message=message,
        finish_reason=_FINISH.get(choice.finish_reason, "unknown"),
        usage=read_usage(response.usage),
        model=name,
        latency=latency,
        seed=request.seed,
        tokens=read_tokens(name, response.prompt_ids, response.completion_ids, logprobs, entropies),
        weight_version=response.weight_version,
    )
