"""From a request to its answer: which rule applies, what it says, and the JSON of it.

Rules are compiled once: each `When` becomes the list of the tests it asks for. An `Answer` is what the model would have
said, before it gets its wire form; faults that change what is said work on the `Answer`, those that break the form on
the dict that `build_payload` makes of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase, translate
from typing import Final

import msgspec

from rollout.core.messages import JSON, ToolCall
from rollout.testing.chat import OfferedTool, Situation
from rollout.testing.script import Fault, Reply, Rule, Span, UsageOverride, When
from rollout.testing.tokens import (
    completion_pieces,
    count_pieces,
    count_prompt,
    encode_pieces,
    logprob_entries,
    prompt_pieces,
)

CREATED: Final = 1_700_000_000
"""The `created` of every answer: the same body must give the same bytes."""

Test = Callable[[Situation], bool]
_encoder = msgspec.json.Encoder()


class Answer(msgspec.Struct, frozen=True):
    """What is said, without its wire form."""

    content: str | None
    reasoning: str | None = None
    reasoning_field: str = "reasoning_content"
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: UsageOverride = UsageOverride()
    with_details: bool = True
    """Whether token ids and logprobs are given to who asks for them."""


class CompiledRule(msgspec.Struct, frozen=True):
    tests: tuple[Test, ...]
    reply: Reply | None
    fault: Fault | None

    def holds(self, situation: Situation) -> bool:
        """Whether the rule applies to this request."""
        for test in self.tests:  # noqa: SIM110 (a third of the time of all(...), on the hot path)
            if not test(situation):
                return False
        return True


def compile_rules(rules: Iterable[Rule]) -> tuple[CompiledRule, ...]:
    """The rules in a form that is quick to try."""
    return tuple(CompiledRule(tuple(_compile(rule.when, rule.reply)), rule.reply, rule.fault) for rule in rules)


def choose_reply(rules: Iterable[CompiledRule], situation: Situation) -> tuple[Reply, tuple[Fault, ...]]:
    """The reply of the first rule that holds and has one, and the faults of the rules that held."""
    faults: tuple[Fault, ...] = ()
    for rule in rules:
        if rule.holds(situation):
            if rule.fault is not None:
                faults += (rule.fault,)
            if rule.reply is not None:
                return rule.reply, faults
    raise AssertionError("the default rules always hold")


def compose_answer(reply: Reply, situation: Situation) -> Answer:
    """What a reply says to this request."""
    calls = [
        (call.name, call.arguments if isinstance(call.arguments, str) else _encoder.encode(call.arguments).decode())
        for call in reply.tool_calls
    ]
    if reply.call is not None:
        tool = choose_tool(reply.call, situation)
        if tool is not None:
            calls.append((tool.name, tool.arguments))
    return Answer(
        content=_fill(reply.content, situation),
        reasoning=_fill(reply.reasoning, situation),
        reasoning_field=reply.reasoning_field,
        calls=tuple(
            ToolCall(make_call_id(situation, index), name, _fill(arguments, situation, in_json=True) or "")
            for index, (name, arguments) in enumerate(calls)
        ),
        finish_reason=reply.finish_reason or ("tool_calls" if calls else "stop"),
        usage=reply.usage,
    )


def choose_tool(wanted: str, situation: Situation) -> OfferedTool | None:
    """The offered tool that `call: any`, `call: first` or `call: <name>` means."""
    offered = situation.offered
    if not offered:
        return None
    if wanted == "any":
        return offered[situation.number % len(offered)]
    if wanted == "first":
        return offered[0]
    return next((tool for tool in offered if tool.name == wanted), None)


def make_call_id(situation: Situation, index: int) -> str:
    """The id of the n-th call of the answer to this request."""
    return f"call_{situation.digest.hex()[:20]}{index:04x}"


def build_payload(answer: Answer, situation: Situation) -> JSON:
    """The chat completion as OpenAI and vLLM shape it."""
    chat = situation.chat
    completion = completion_pieces(
        answer.reasoning,
        answer.content,
        [(call.name, call.arguments) for call in answer.calls],
        is_cut=answer.finish_reason == "length",
    )
    message: JSON = {"role": "assistant", "content": answer.content}
    if answer.reasoning is not None:
        message[answer.reasoning_field] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice: JSON = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    payload: JSON = {
        "id": f"chatcmpl-{situation.digest.hex()}",
        "object": "chat.completion",
        "created": CREATED,
        "model": chat.model,
        "choices": [choice],
        "usage": _count_usage(answer.usage, count_prompt(chat), count_pieces(completion)),
    }
    if answer.with_details and (chat.logprobs or chat.return_token_ids):
        tokens = encode_pieces(completion)
        if chat.logprobs:
            choice["logprobs"] = {"content": logprob_entries(tokens, chat.top_logprobs or 0)}
        if chat.return_token_ids:
            choice["token_ids"] = tokens
            payload["prompt_token_ids"] = encode_pieces(prompt_pieces(chat))
    return payload


def _count_usage(override: UsageOverride, prompt: int, completion: int) -> JSON:
    if override.prompt_tokens is not None:
        prompt = override.prompt_tokens
    if override.completion_tokens is not None:
        completion = override.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _fill(text: str | None, situation: Situation, *, in_json: bool = False) -> str | None:
    # Not str.format: texts are often JSON, whose braces must stay.
    if text is None or "{" not in text:
        return text
    text = text.replace("{turn}", str(situation.turn)).replace("{step}", str(situation.step))
    for place, read in _COPIED.items():
        if place in text:
            copied = read(situation)
            text = text.replace(place, _encoder.encode(copied).decode()[1:-1] if in_json else copied)
    return text


_COPIED: Final[dict[str, Callable[[Situation], str]]] = {
    "{opening}": Situation.opening,
    "{key}": lambda situation: situation.key,
    "{nonce}": Situation.nonce,
}
"""Places in texts that are filled with what the client sent."""


def _compile(when: When, reply: Reply | None) -> Iterable[Test]:
    if when.model is not None:
        fits = re.compile(translate(when.model)).match
        yield lambda situation: fits(situation.chat.model) is not None
    if when.turn is not None:
        yield _test_span(when.turn, lambda situation: situation.turn)
    if when.step is not None:
        yield _test_span(when.step, lambda situation: situation.step)
    if when.answers is not None:
        yield _test_span(when.answers, lambda situation: situation.answers)
    if when.messages is not None:
        yield _test_span(when.messages, lambda situation: len(situation.chat.messages))
    if (role := when.last_role) is not None:
        yield lambda situation: situation.chat.messages[-1].role == role
    if (text := when.contains) is not None:
        yield lambda situation: text in situation.chat.messages[-1].text()
    if (offers := when.offers) is not None:
        yield lambda situation: any(fnmatchcase(tool.name, offers) for tool in situation.offered)
    if (every := when.every) is not None:
        yield lambda situation: situation.number % every == 0
    if reply is not None and (call := reply.call) is not None:
        yield lambda situation: choose_tool(call, situation) is not None


def _test_span(span: Span, count: Callable[[Situation], int]) -> Test:
    low, high = span.min, sys.maxsize if span.max is None else span.max
    return lambda situation: low <= count(situation) <= high
