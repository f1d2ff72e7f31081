"""The LiteLLM path, with the real package against the stub server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from rollout.agents.view import ContextView
from rollout.core.errors import ModelError
from rollout.core.messages import Message, Toolset, ToolSpec
from rollout.models.litellm import LiteLLMModel
from rollout.models.model import Request, Sampling
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from tests.conftest import skip_without
from tests.models.hostile import DEEP, AnsweringServer, write

skip_without("litellm", "needs the extra rollout-engine[litellm]")
pytestmark = pytest.mark.litellm
ECHO = ToolSpec("echo", "", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})


def request(**sampling: Any) -> Request:
    view = ContextView("Be brief.")
    view.add(Message(role="user", content="Hello"))
    return Request(view.messages, view.wire, Toolset((ECHO,)), Sampling(**sampling), seed=3)


async def test_tools_calls_usage_and_seed_go_through_litellm() -> None:
    reply = {
        "tool_calls": [{"name": "echo", "arguments": {"text": "hi"}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    async with StubServer({"rules": [{"reply": reply}]}, keep_requests=True) as stub:
        model = LiteLLMModel("hosted_vllm/some-model", api_base=stub.url, api_key="sk-none")
        generation = await model.generate(request(temperature=0.3))
        (sent,) = stub.requests
    (call,) = generation.message.tool_calls
    assert (call.name, call.arguments) == ("echo", '{"text":"hi"}')
    assert (generation.usage.prompt_tokens, generation.usage.completion_tokens) == (7, 3)
    assert (sent["temperature"], sent["seed"], sent["model"]) == (0.3, 3, "some-model")
    assert sent["tools"] == [ECHO.to_json()]


@pytest.mark.parametrize(
    ("fault", "transient"),
    [
        ({"kind": "overload", "times": "always"}, True),
        ({"kind": "error500", "times": "always"}, True),
        ({"kind": "status", "status": 401, "times": "always"}, False),
    ],
)
async def test_errors_are_translated_and_not_retried_behind_our_back(fault: dict[str, Any], transient: bool) -> None:
    async with StubServer({"faults": [fault]}) as stub:
        model = LiteLLMModel("hosted_vllm/some-model", api_base=stub.url, api_key="sk-none")
        with pytest.raises(ModelError) as caught:
            await model.generate(request())
        assert stub.stats.requests == 1
    assert caught.value.transient is transient


async def test_any_answer_is_kept_or_transient() -> None:
    """Wrong types, bottomless nesting, numbers that are none: LiteLLM stumbles over some, we over others."""
    message: dict[str, Any] = {"role": "assistant", "content": "hi"}
    good = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}
    call = {"id": "c", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
    bodies = [
        b"",
        b"caf\xe9",
        DEEP.encode(),
        write({**good, "choices": []}),
        write({**good, "choices": [None]}),
        write({**good, "choices": [{"message": {**message, "content": {"a": 1}}}]}),
        write({**good, "choices": [{"message": {**message, "content": "a\ud83db"}}]}),
        write({**good, "choices": [{"message": {**message, "content": 1e308}}]}),
        write({**good, "choices": [{"message": {**message, "tool_calls": [call, call]}}]}),
        write({**good, "choices": [{"message": {**message, "tool_calls": [{**call, "function": {"name": 1}}]}}]}),
        write({**good, "usage": {"prompt_tokens": "many", "completion_tokens": 10**400}}),
    ]
    kept = 0
    async with AnsweringServer() as server:
        model = LiteLLMModel("hosted_vllm/some-model", api_base=server.url, api_key="sk-none")
        server.headers = {"Content-Type": "application/json"}
        for status in (200, 503):
            for server.body in bodies:
                server.status = status
                try:
                    generation = await model.generate(request())
                except ModelError as error:
                    assert error.transient, error
                else:
                    kept += 1
                    data = msgspec.msgpack.encode(generation)
                    assert msgspec.msgpack.decode(data, type=Generation) == generation
    assert kept >= 2, "what can be read is read"


def test_litellm_is_not_imported_by_a_run_that_does_not_need_it() -> None:
    code = "import sys, rollout.pipelines.run, rollout.cli.run; print('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
