"""The direct path against a server that misbehaves in every way we know."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rollout.agents.view import ContextView
from rollout.core.errors import ContextLengthError, DeadlineError, ModelError, RolloutError
from rollout.core.messages import NO_TOOLS, Message, Toolset, ToolSpec
from rollout.core.retry import RetryPolicy
from rollout.models.completion import is_about_length
from rollout.models.guard import GuardedModel, Price
from rollout.models.limits import Limiter
from rollout.models.model import Request, Sampling
from rollout.models.openai import HttpPool, OpenAIModel
from rollout.testing import StubServer
from rollout.trajectories.generation import Usage
from tests.models.hostile import AnsweringServer

ECHO = ToolSpec(
    "echo", "Say it again.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
)
QUICK = RetryPolicy(attempts=4, first_wait=0.001, max_wait=0.002)


def request(text: str = "Hello", tools: Toolset = NO_TOOLS, **sampling: Any) -> Request:
    view = ContextView("Be brief.")
    view.add(Message(role="user", content=text))
    return Request(view.messages, view.wire, tools, Sampling(**sampling), seed=7)


@pytest.fixture
async def pool() -> AsyncIterator[HttpPool]:
    opened = HttpPool()
    yield opened
    await opened.close()


def model(pool: HttpPool, url: str, **options: Any) -> OpenAIModel:
    return OpenAIModel("stub", pool=pool, api_base=url, api_model="served-name", **options)


def guarded(
    pool: HttpPool, url: str, policy: RetryPolicy = QUICK, price: Price | None = None, **options: Any
) -> GuardedModel:
    return GuardedModel(model(pool, url, **options), Limiter(), policy, price)


async def test_request_carries_model_messages_tools_sampling_and_seed(pool: HttpPool) -> None:
    async with StubServer(keep_requests=True) as stub:
        tools = Toolset((ECHO,))
        await model(pool, stub.url, api_key="sk-abcdefgh").generate(
            request("Hi", tools, temperature=0.2, max_tokens=9, stop=("END",), extra={"enable_thinking": True})
        )
        (sent,) = stub.requests
    assert sent["model"] == "served-name"
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert sent["tools"] == [ECHO.to_json()]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"], sent["seed"]) == (0.2, 9, ["END"], 7)
    assert sent["enable_thinking"] is True


async def test_parallel_tool_calls_keep_their_order_and_raw_arguments(pool: HttpPool) -> None:
    reply = {
        "tool_calls": [{"name": "echo", "arguments": '{"text": "cut'}, {"name": "echo", "arguments": {"text": "b"}}]
    }
    async with StubServer({"rules": [{"reply": reply}]}) as stub:
        generation = await model(pool, stub.url).generate(request(tools=Toolset((ECHO,))))
    first, second = generation.message.tool_calls
    assert first.arguments == '{"text": "cut', "what the model wrote is kept, broken or not"
    assert second.name == "echo"
    assert first.id != second.id
    assert generation.finish_reason == "tool_calls"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_from_either_field(pool: HttpPool, field: str) -> None:
    reply = {"content": "42", "reasoning": "because", "reasoning_field": field}
    async with StubServer({"rules": [{"reply": reply}]}) as stub:
        generation = await model(pool, stub.url).generate(request())
    assert (generation.message.content, generation.message.reasoning) == ("42", "because")


async def test_token_ids_and_logprobs_are_kept_where_the_server_gives_them(pool: HttpPool) -> None:
    async with StubServer() as stub:
        exact = await model(pool, stub.url, token_ids="openai").generate(request())
        plain = await model(pool, stub.url).generate(request())
    assert exact.is_exact
    assert exact.tokens is not None
    assert len(exact.tokens.completion_ids) == len(exact.tokens.logprobs) == exact.usage.completion_tokens
    assert not plain.is_exact


async def test_entropies_are_read_off_the_alternatives(pool: HttpPool) -> None:
    async with StubServer(keep_requests=True) as stub:
        told = await model(pool, stub.url, token_ids="openai").generate(request(logprobs=True, top_logprobs=4))
        plain = await model(pool, stub.url, token_ids="openai").generate(request())
    assert told.tokens is not None
    assert plain.tokens is not None
    assert told.first_entropy != told.surprisal
    assert plain.first_entropy == pytest.approx(-sum(plain.tokens.logprobs[:20]) / len(plain.tokens.logprobs[:20]))
    assert plain.tokens.entropies == ()
    for entropy, logprob in zip(told.tokens.entropies, told.tokens.logprobs, strict=False):
        left = 1 - math.exp(logprob)
        chances = [math.exp(logprob), left / 2, left / 4, left / 8]
        assert entropy == pytest.approx(-sum(chance * math.log(chance) for chance in chances), abs=1e-5)


async def test_alternatives_of_vllm_begin_with_the_sampled_token(pool: HttpPool) -> None:
    """An answer as vLLM 0.32 gives it: the sampled token comes first, likely or not."""
    entry = {"token": " amount", "logprob": math.log(0.1), "bytes": [32]}
    others = [{"token": "ell", "logprob": math.log(0.5), "bytes": []}, {"token": "po", "logprob": math.log(0.25)}]
    content = [{**entry, "top_logprobs": [entry, *others]}, {**entry, "top_logprobs": [{**entry, "logprob": -9999.0}]}]
    answer = {
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": " amount amount", "refusal": None},
            "logprobs": {"content": content}, "finish_reason": "length", "stop_reason": None, "token_ids": [667, 667],
            "routed_experts": None,
        }],
        "prompt_token_ids": [1, 2, 3], "prompt_text": None, "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }  # fmt: skip

    async def say(_: web.Request) -> web.Response:
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", say)
    async with TestServer(app) as server:
        generation = await model(pool, str(server.make_url("/v1")), token_ids="openai").generate(request())
    assert generation.tokens is not None
    assert generation.tokens.entropies == pytest.approx(
        [0.1 * math.log(10) + 0.5 * math.log(2) + 0.25 * math.log(4), 0]
    )
    assert generation.tokens.prompt_length == 3


def test_a_prompt_that_leaves_no_room_is_about_length() -> None:
    """In vLLM's words, of a prompt that fills the context to the last token."""
    assert is_about_length("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)")
    assert not is_about_length("max_tokens=3000 cannot be greater than max_model_len=2048.")


async def test_duplicate_call_ids_are_told_apart(pool: HttpPool) -> None:
    reply = {"tool_calls": [{"name": "echo", "arguments": {"text": "a"}}] * 2}
    async with StubServer({"rules": [{"reply": reply}], "faults": ["duplicate_call_ids"]}) as stub:
        generation = await model(pool, stub.url).generate(request(tools=Toolset((ECHO,))))
    assert len({call.id for call in generation.message.tool_calls}) == 2


@pytest.mark.parametrize(
    "kind",
    [
        "overload", "error500", "unavailable", "html", "reset", "refuse_close", "invalid_json", "empty_choices",
        "no_message", "wrong_types",
    ],
)  # fmt: skip
async def test_transient_fault_is_tried_again_and_stays_on_record(pool: HttpPool, kind: str) -> None:
    fault = {"kind": kind, "times": 2, "retry_after": 0} if kind == "overload" else {"kind": kind, "times": 2}
    async with StubServer({"faults": [fault]}) as stub:
        generation = await guarded(pool, stub.url).generate(request())
        assert stub.stats.requests == 3
    assert generation.message.content
    assert len(generation.failures) == 2
    assert all(failure.kind == "model" and failure.waited is not None for failure in generation.failures)


async def test_a_page_in_place_of_an_answer_points_at_the_address(pool: HttpPool) -> None:
    async with AnsweringServer() as server:
        server.body = b"<!doctype html><title>Welcome to nginx!</title>"
        with pytest.raises(ModelError, match=rf"{server.url}/chat/completions answered with a web page.*api_base"):
            await model(pool, server.url).generate(request())


async def test_answer_that_never_comes_meets_the_deadline(pool: HttpPool) -> None:
    async with StubServer({"faults": [{"kind": "hang", "times": 1}]}) as stub:
        generation = await guarded(pool, stub.url, timeout=0.15).generate(request())
    assert [failure.kind for failure in generation.failures] == ["timeout"]


async def test_answer_that_never_ends_is_given_up(pool: HttpPool) -> None:
    async with StubServer({"faults": [{"kind": "trickle", "times": 1}]}) as stub:
        generation = await guarded(pool, stub.url, timeout=0.15).generate(request())
    assert len(generation.failures) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_refusal_is_not_tried_again(pool: HttpPool, status: int) -> None:
    async with StubServer({"faults": [{"kind": "status", "status": status, "times": "always"}]}) as stub:
        with pytest.raises(ModelError) as caught:
            await guarded(pool, stub.url).generate(request())
        assert stub.stats.requests == 1
    assert caught.value.status == status
    assert not caught.value.transient


async def test_context_length_has_an_error_of_its_own(pool: HttpPool) -> None:
    async with StubServer({"faults": [{"kind": "context_length", "times": "always"}]}) as stub:
        with pytest.raises(ContextLengthError):
            await guarded(pool, stub.url).generate(request())


async def test_tries_are_capped_and_the_last_error_is_raised(pool: HttpPool) -> None:
    async with StubServer({"faults": [{"kind": "error500", "times": "always"}]}) as stub:
        with pytest.raises(ModelError, match="HTTP 500"):
            await guarded(pool, stub.url).generate(request())
        assert stub.stats.requests == QUICK.attempts


async def test_server_that_is_not_there_is_transient_and_named(pool: HttpPool) -> None:
    async with StubServer() as stub:
        url = stub.url
    with pytest.raises(ModelError, match="connection to") as caught:
        await model(pool, url).generate(request())
    assert caught.value.transient


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_read_as_number_and_as_date(pool: HttpPool, form: str) -> None:
    fault = {"kind": "overload", "retry_after": 3, "retry_after_as": form}
    async with StubServer({"faults": [fault]}) as stub:
        with pytest.raises(ModelError) as caught:
            await model(pool, stub.url).generate(request())
    assert caught.value.is_overload
    assert caught.value.retry_after is not None
    assert 1.0 <= caught.value.retry_after <= 3.0


async def test_key_that_a_server_echoes_does_not_come_out_in_the_error(pool: HttpPool) -> None:
    key = "sk-live-0123456789abcdef"
    async with StubServer({"api_key": "another"}) as stub:
        with pytest.raises(RolloutError) as caught:
            await model(pool, stub.url, api_key=key).generate(request())
    assert key not in str(caught.value)


async def test_answer_is_priced_by_its_tokens(pool: HttpPool) -> None:
    reply = {"content": "ok", "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    async with StubServer({"rules": [{"reply": reply}]}) as stub:
        generation = await guarded(pool, stub.url, price=Price(0.01, 0.1)).generate(request())
    assert generation.cost == pytest.approx(2.0)
    assert Price(0.01, 0.1, cached_input=0.001).of(Usage(100, 10, cached_tokens=50)) == pytest.approx(0.5 + 0.05 + 1.0)


async def test_cancelled_request_gives_its_place_back(pool: HttpPool) -> None:
    async with StubServer({"faults": [{"kind": "hang", "times": 1}]}) as stub:
        limited = GuardedModel(model(pool, stub.url), Limiter(max_concurrency=1), QUICK, None)
        first = asyncio.get_running_loop().create_task(limited.generate(request()))
        while stub.stats.in_flight == 0:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert limited.limiter.in_flight == 0
        async with asyncio.timeout(300):
            await limited.generate(request())


async def test_overload_lowers_concurrency_until_the_server_can_keep_up(pool: HttpPool) -> None:
    script = {"latency": 0.005, "capacity": 4}
    async with StubServer(script) as stub:
        limiter = Limiter(max_concurrency=32)
        policy = RetryPolicy(attempts=50, first_wait=0.001, max_wait=0.02)
        limited = GuardedModel(model(pool, stub.url), limiter, policy, None)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(limited.generate(request(f"question {n}"))) for n in range(64)]
        assert all(task.result().message.content for task in tasks)
        assert limiter.cuts >= 1
        assert limiter.in_flight == 0


def test_deadline_error_is_an_error_of_its_own_kind() -> None:
    assert DeadlineError("late", transient=True).kind == "timeout"


# ---- OpenAI itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sent"),
    [("gpt-5", None), ("gpt-5-mini", None), ("o3", None), ("gpt-5-chat-latest", 0.7), ("gpt-4.1", 0.7)],
)
async def test_reasoning_models_of_openai_are_sent_no_temperature(
    pool: HttpPool, name: str, sent: float | None
) -> None:
    async with StubServer(keep_requests=True) as stub:
        # As a login the name of the host is part of the address, which leads to the stub all the same.
        address = stub.url.replace("://", "://api.openai.com@")
        openai = OpenAIModel(name, pool=pool, api_base=address, api_model=name)
        await openai.generate(request(temperature=0.7, max_tokens=9))
        await openai.generate(request(temperature=0.7, extra={"temperature": 0.3}))
        first, second = stub.requests
    assert first.get("temperature") == sent
    assert first["max_completion_tokens"] == 9
    assert second["temperature"] == 0.3, "what is put into the body by hand is sent"
