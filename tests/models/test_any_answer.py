"""Reading answers is total: whatever a server sends is a generation that can be kept, or a transient error."""

from __future__ import annotations

import asyncio
import gzip
import resource
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rollout.agents.dialects import NATIVE, TemplateDialect, TextDialect
from rollout.agents.view import ContextView
from rollout.core.errors import ModelError
from rollout.core.messages import Message, Toolset, ToolSpec, encode_message
from rollout.core.retry import RetryPolicy
from rollout.models.completion import seconds_of
from rollout.models.guard import GuardedModel
from rollout.models.limits import Limiter
from rollout.models.model import Model, Request, Sampling
from rollout.models.openai import HttpPool, OpenAIModel
from rollout.models.token_in import TokenInModel
from rollout.trajectories.generation import Generation
from rollout.trajectories.tree import NodeBody
from tests.models.hostile import BYTES, AnsweringServer, damaged, packed_zeros, write

ECHO = ToolSpec("echo", "", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
CHAT: dict[str, Any] = {
    "choices": [
        {
            "message": {
                "content": 'well <tool_call>{"name": "echo", "arguments": {"text": "a"}}</tool_call>',
                "reasoning_content": "hm",
                "tool_calls": [{"id": "1", "function": {"name": "echo", "arguments": '{"text": "a"}'}}],
            },
            "finish_reason": "tool_calls",
            "logprobs": {"content": [{"logprob": -0.5, "top_logprobs": [{"logprob": -0.5}, {"logprob": -1.5}]}]},
            "token_ids": [7],
        }
    ],
    "prompt_token_ids": [1, 2, 3],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}},
    "metadata": {"weight_version": "3"},
    "__verbose": {"prompt": "x", "tokens": [7]},
}
FORMS: dict[str, dict[str, Any]] = {
    "vllm": {
        "choices": [
            {
                "token_ids": [72, 105],
                "logprobs": {"token_logprobs": [-0.5, -0.1], "top_logprobs": [{"a": -0.5}, {"b": -0.1}]},
                "finish_reason": "stop",
                "prompt_token_ids": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    },
    "sglang": {
        "output_ids": [72, 105],
        "meta_info": {
            "output_token_logprobs": [[-0.5, 72], [-0.1, 105]],
            "output_top_logprobs": [[[-0.5, 72]], [[-0.1, 105]]],
            "finish_reason": {"type": "stop"},
            "prompt_tokens": 3,
            "weight_version": "v",
        },
    },
    "llamacpp": {
        "tokens": [72, 105],
        "completion_probabilities": [{"logprob": -0.5, "top_logprobs": [{"logprob": -0.5}]}],
        "stop_type": "eos",
        "timings": {"cache_n": 1},
        "tokens_evaluated": 3,
    },
}
QUICK = RetryPolicy(attempts=3, first_wait=0.0001, max_wait=0.0002)
MANY = settings(max_examples=200, suppress_health_check=list(HealthCheck))


class Letters:
    """A chat template whose ids are characters."""

    end = 3

    def encode(self, messages: Sequence[Message], tools: Toolset, options: Any) -> list[int]:
        return [ord(char) for message in messages for char in message.content or ""]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


def request() -> Request:
    view = ContextView("Be brief.")
    view.add(Message(role="user", content="Hello"))
    return Request(view.messages, view.wire, Toolset((ECHO,)), Sampling(top_logprobs=2), seed=7)


class Bench:
    """A hostile server and a loop of its own, so that one test can ask hundreds of times."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.server = AnsweringServer()
        self.run(self.server.__aenter__())
        self.pool = HttpPool()

    def run(self, work: Any) -> Any:
        async def awaited() -> Any:
            return await work

        return self._runner.run(awaited())

    def direct(self, **options: Any) -> OpenAIModel:
        return OpenAIModel("stub", pool=self.pool, api_base=self.server.url, api_model="m", **options)

    def token_in(self, form: str) -> TokenInModel:
        options: Any = {"pool": self.pool, "api_base": self.server.url, "api_model": "m"}
        return TokenInModel("stub", load=Letters, form=form, **options)  # type: ignore[arg-type]

    def ask(self, model: Model, body: bytes, status: int = 200, **headers: str) -> Generation | ModelError:
        self.server.body, self.server.status, self.server.headers = body, status, headers
        try:
            generation: Generation = self.run(model.generate(request()))
        except ModelError as error:
            return error
        return generation

    def close(self) -> None:
        self.run(self.pool.close())
        self.run(self.server.__aexit__())
        self._runner.close()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def assert_kept_or_transient(answer: Generation | ModelError) -> None:
    if isinstance(answer, ModelError):
        assert answer.transient, answer
        str(answer).encode()
        return
    for dialect in (NATIVE, TextDialect(), TextDialect(must_call=True), TemplateDialect()):
        read = dialect.read(answer, 7)
        data = msgspec.msgpack.encode(NodeBody("generation", generation=read))
        assert msgspec.msgpack.decode(data, type=NodeBody).generation == read
        encode_message(dialect.show(read.message))
    if answer.tokens is not None:
        assert all(-3.5e38 < value <= 1.0 for value in answer.tokens.logprobs)
        assert answer.first_entropy is None or abs(answer.first_entropy) < 4e38


@MANY
@given(body=damaged(CHAT) | BYTES)
@pytest.mark.parametrize("options", [{}, {"token_ids": "openai"}, {"constrain_tools": True}], ids=str)
def test_any_chat_completion_is_kept_or_transient(bench: Bench, options: dict[str, Any], body: bytes) -> None:
    assert_kept_or_transient(bench.ask(bench.direct(**options), body))


@pytest.mark.parametrize("form", FORMS)
def test_any_answer_with_token_ids_is_kept_or_transient(bench: Bench, form: str) -> None:
    model = bench.token_in(form)
    assert isinstance(bench.ask(model, write(FORMS[form])), Generation), "the undamaged one is read"

    @MANY
    @given(body=damaged(FORMS[form]) | BYTES)
    def check(body: bytes) -> None:
        answer = bench.ask(model, body)
        if isinstance(answer, ModelError) and "ids" in str(answer) and not answer.transient:
            return  # a server that cannot do it at all says so, and asking again does not help
        assert_kept_or_transient(answer)

    check()


@MANY
@given(body=BYTES, status=st.sampled_from([500, 502, 503, 504, 520, 529, 429, 408]))
@example(body="Dienst nicht verfügbar".encode("latin-1"), status=503)
def test_any_body_of_a_server_in_trouble_is_transient(bench: Bench, body: bytes, status: int) -> None:
    answer = bench.ask(bench.direct(), body, status)
    assert isinstance(answer, ModelError)
    assert answer.transient
    assert answer.status == status
    str(answer).encode()


@MANY
@given(body=BYTES, status=st.sampled_from([400, 401, 404, 422, 302]))
def test_any_body_of_a_refusal_is_an_error_with_its_status(bench: Bench, body: bytes, status: int) -> None:
    answer = bench.ask(bench.direct(), body, status)
    assert isinstance(answer, ModelError)
    assert answer.status == status


@given(st.text(max_size=30) | st.sampled_from(["nan", "inf", "1e999", "Fri, 31 Dec 99999 23:59:59 GMT", "-1"]))
def test_any_retry_after_is_seconds_or_nothing(header: str) -> None:
    seconds = seconds_of(header)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda answer: answer["choices"][0]["logprobs"]["content"][0].update(logprob=1e308),
        lambda answer: answer["choices"][0]["logprobs"]["content"][0].update(logprob=-1e308),
        lambda answer: answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0].update(logprob=1e308),
        lambda answer: answer.update(choices="@deep@"),
        lambda answer: answer["choices"][0].update(token_ids=[2**40]),
    ],
    ids=["huge logprob", "tiny logprob", "huge alternative", "deep", "huge id"],
)
def test_a_surprise_is_tried_again_and_stays_on_record(bench: Bench, damage: Callable[[Any], None]) -> None:
    answer = msgspec.json.decode(msgspec.json.encode(CHAT))
    damage(answer)
    bodies = iter([write(answer), write(answer), write(CHAT)])

    class Mending(OpenAIModel):
        async def generate(self, request: Request) -> Generation:
            bench.server.body, bench.server.status = next(bodies), 200
            return await super().generate(request)

    backend = Mending("stub", pool=bench.pool, api_base=bench.server.url, api_model="m", token_ids="openai")
    generation = bench.run(GuardedModel(backend, Limiter(), QUICK, None).generate(request()))
    assert [failure.kind for failure in generation.failures] == ["model", "model"]


def test_a_lone_surrogate_in_any_spelling_is_read(bench: Bench) -> None:
    for escaped in ("\\ud83d", "\\uD83D"):
        answer = bench.ask(bench.direct(), f'{{"choices": [{{"message": {{"content": "a{escaped}b"}}}}]}}'.encode())
        assert isinstance(answer, Generation)
        assert answer.message.content == "a?b"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
def test_a_compressed_answer_is_unpacked(bench: Bench, encoding: str) -> None:
    body = write(CHAT)
    packed = gzip.compress(body[:50]) + gzip.compress(body[50:]) if encoding == "gzip" else zlib.compress(body)
    if encoding == "raw deflate":
        packed = zlib.compress(body, wbits=-15)
    answer = bench.ask(bench.direct(), packed, **{"Content-Encoding": encoding.split()[-1]})
    assert isinstance(answer, Generation)
    assert answer.message.reasoning == "hm"


@pytest.mark.parametrize("status", [200, 500])
def test_a_small_body_that_unpacks_to_gigabytes_is_refused_without_them(bench: Bench, status: int) -> None:
    bomb = packed_zeros(512)
    assert len(bomb) < 3_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = bench.ask(bench.direct(), bomb, status, **{"Content-Encoding": "gzip"})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert isinstance(answer, ModelError)
    assert answer.transient
    assert "more than 67,108,864 bytes" in str(answer)
    assert grown < 300_000, "kilobytes"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", b"not gzip"), ("gzip", gzip.compress(write(CHAT))[:-20]), ("br", b"x"), ("gzip, gzip", b"x")],
)
def test_a_body_that_is_not_what_its_encoding_says_is_transient(bench: Bench, encoding: str, body: bytes) -> None:
    answer = bench.ask(bench.direct(), body, **{"Content-Encoding": encoding})
    assert isinstance(answer, ModelError)
    assert answer.transient
