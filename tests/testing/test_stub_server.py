"""The stub model server, seen by real clients over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.testing import FAULT_KINDS, StubProcess, StubScript, StubServer, decode_tokens, load_script
from rollout.testing.faults import choose_delay
from rollout.testing.script import Latency

JSON = dict[str, Any]


def make_tool(name: str, properties: JSON | None = None, required: list[str] | None = None) -> JSON:
    parameters = {"type": "object", "properties": properties or {}, "required": required or []}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


SEARCH = make_tool("search", {"query": {"type": "string"}, "page": {"type": "integer"}}, ["query"])


def make_request(text: str = "hello", **more: Any) -> JSON:
    return {"model": "stub", "messages": [{"role": "user", "content": text}], **more}


class Client:
    """A chat client that fails a test only by what it returns."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def post(self, body: JSON | bytes, **options: Any) -> tuple[int, bytes, dict[str, str]]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(f"{self.url}/chat/completions", data=data, **options) as response:
            return response.status, await response.read(), {k.lower(): v for k, v in response.headers.items()}

    async def ask(self, body: JSON) -> JSON:
        status, answer, _ = await self.post(body)
        assert status == 200, answer
        return dict(json.loads(answer))

    async def say(self, body: JSON) -> JSON:
        return dict((await self.ask(body))["choices"][0]["message"])

    async def get(self, path: str) -> JSON:
        async with self.session.get(self.url.removesuffix("/v1") + path) as response:
            assert response.status == 200
            return dict(await response.json())


@contextlib.asynccontextmanager
async def open_client(url: str) -> AsyncIterator[Client]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Client(session, url)


@contextlib.asynccontextmanager
async def open_stub(script: Any = None, **options: Any) -> AsyncIterator[tuple[StubServer, Client]]:
    async with StubServer(script, **options) as server, open_client(server.url) as client:
        yield server, client


def port_of(url: str) -> int:
    return int(url.split(":")[2].removesuffix("/v1"))


async def exchange_raw(server: StubServer, data: bytes) -> bytes:
    """Send bytes, then read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server.url))
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop, which the server shares, run on until something has come true."""
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0)


def frame(body: JSON, *, close: bool = False) -> bytes:
    data = json.dumps(body).encode()
    ending = b"Connection: close\r\n" if close else b""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n"
    return head % (ending, len(data)) + data


# --- what is answered ------------------------------------------------------------------------------------------------


async def test_default_script_calls_an_offered_tool_for_three_steps_and_then_answers_in_text() -> None:
    body = make_request(tools=[SEARCH])
    async with open_stub() as (_, client):
        for _ in range(3):
            message = await client.say(body)
            (call,) = message["tool_calls"]
            assert call["function"] == {"name": "search", "arguments": '{"query":"x"}'}
            body["messages"] += [message, {"role": "tool", "tool_call_id": call["id"], "content": "found"}]
        message = await client.say(body)
    assert "tool_calls" not in message
    assert message["content"] == "Done with turn 1 after 3 steps."


async def test_default_script_answers_in_text_when_no_tools_are_offered() -> None:
    async with open_stub() as (_, client):
        answer = await client.ask(make_request())
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["message"]["content"]


async def test_default_script_answers_in_text_when_the_client_forbids_tools() -> None:
    async with open_stub() as (_, client):
        assert "tool_calls" not in await client.say(make_request(tools=[SEARCH], tool_choice="none"))


async def test_a_model_named_like_a_user_speaks_user_turns_times_and_then_stops() -> None:
    body = make_request("How can I help?", model="sim-user")
    async with open_stub({"user_turns": 2}) as (_, client):
        said = []
        for _ in range(3):
            message = await client.say(body)
            said.append(message["content"])
            body["messages"] += [message, {"role": "user", "content": "And then?"}]
    assert [text.endswith("###STOP###") for text in said] == [False, False, True]


async def test_arguments_are_made_from_the_schema_with_only_what_is_required() -> None:
    properties: JSON = {
        "color": {"enum": ["red", "blue"]},
        "count": {"type": "integer"},
        "high": {"type": "integer", "minimum": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        "place": {"$ref": "#/$defs/Place"},
        "optional": {"type": "string"},
    }
    tool = make_tool("paint", properties, ["color", "count", "high", "tags", "maybe", "place"])
    place = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool["function"]["parameters"]["$defs"] = {"Place": place}
    async with open_stub() as (_, client):
        message = await client.say(make_request(tools=[tool]))
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {
        "color": "red", "count": 1, "high": 5, "tags": ["x"], "maybe": True, "place": {"city": "x"},
    }  # fmt: skip


async def test_a_schema_that_refers_to_itself_still_gets_arguments() -> None:
    tool = make_tool("nest", {"child": {"$ref": "#"}}, ["child"])
    async with open_stub() as (_, client):
        message = await client.say(make_request(tools=[tool]))
    assert "child" in json.loads(message["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize(
    ("when", "fitting", "other"),
    [
        ({"model": "big-*"}, {"model": "big-1"}, {"model": "small"}),
        ({"turn": 1}, {}, {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}),
        ({"turn": {"min": 2}}, {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, {}),
        ({"step": 1}, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, {}),
        ({"step": {"max": 0}}, {}, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]}),
        ({"answers": 0}, {}, {"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}),
        ({"messages": 1}, {}, {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]}),
        ({"last_role": "user"}, {}, {"messages": [{"role": "tool", "tool_call_id": "c", "content": "b"}]}),
        ({"contains": "ell"}, {}, {"messages": [{"role": "user", "content": "bye"}]}),
        ({"contains": "p"}, {"messages": [{"role": "user", "content": [{"type": "text", "text": "part"}]}]}, {}),
        ({"offers": "sea*"}, {"tools": [SEARCH]}, {"tools": [make_tool("find")]}),
        ({"model": "stub", "turn": 1}, {}, {"model": "other"}),
    ],
)
async def test_a_rule_applies_where_its_conditions_hold_and_only_there(when: JSON, fitting: JSON, other: JSON) -> None:
    async with open_stub({"rules": [{"when": when, "reply": {"content": "by rule"}}]}) as (_, client):
        assert (await client.say(make_request(**fitting)))["content"] == "by rule"
        assert (await client.say({**make_request(), **other}))["content"] != "by rule"


async def test_every_n_picks_about_one_body_in_n_and_always_the_same() -> None:
    async with open_stub({"rules": [{"when": {"every": 4}, "reply": {"content": "picked"}}]}) as (_, client):
        bodies = [make_request(str(number)) for number in range(200)]
        first = [(await client.say(body))["content"] == "picked" for body in bodies]
        again = [(await client.say(body))["content"] == "picked" for body in bodies]
    assert 20 < sum(first) < 90
    assert first == again


async def test_the_first_matching_rule_wins() -> None:
    rules = [{"when": {"turn": 1}, "reply": {"content": "first"}}, {"reply": {"content": "second"}}]
    async with open_stub({"rules": rules}) as (_, client):
        assert (await client.say(make_request()))["content"] == "first"


async def test_a_rule_that_calls_a_tool_is_passed_over_where_it_is_not_offered() -> None:
    rules = [{"reply": {"call": "search"}}, {"reply": {"content": "no such tool"}}]
    async with open_stub({"rules": rules}) as (_, client):
        assert (await client.say(make_request(tools=[make_tool("find")])))["content"] == "no such tool"
        assert (await client.say(make_request(tools=[SEARCH])))["tool_calls"][0]["function"]["name"] == "search"


async def test_a_reply_says_everything_the_script_gives_it() -> None:
    reply = {
        "content": 'turn {turn}, step {step}, {"json": 1}',
        "reasoning": "thinking",
        "reasoning_field": "reasoning",
        "tool_calls": [{"name": "a", "arguments": {"n": 1}}, {"name": "b", "arguments": '{"broken": '}],
        "finish_reason": "odd",
        "usage": {"prompt_tokens": 7, "completion_tokens": 5},
    }
    async with open_stub({"rules": [{"reply": reply}]}) as (_, client):
        answer = await client.ask(make_request())
    choice = answer["choices"][0]
    assert choice["message"]["content"] == 'turn 1, step 0, {"json": 1}'
    assert choice["message"]["reasoning"] == "thinking"
    assert "reasoning_content" not in choice["message"]
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == ['{"n":1}', '{"broken": ']
    assert choice["finish_reason"] == "odd"
    assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


async def test_reasoning_comes_as_reasoning_content_unless_told_otherwise() -> None:
    async with open_stub({"rules": [{"reply": {"content": "x", "reasoning": "why"}}]}) as (_, client):
        assert (await client.say(make_request()))["reasoning_content"] == "why"


async def test_the_same_body_gets_the_same_bytes_from_any_server() -> None:
    bodies = [make_request(str(number), tools=[SEARCH, make_tool("find")]) for number in range(20)]
    async with open_stub() as (_, one), open_stub({"seed": 9}) as (_, other):
        first = [(await one.post(body))[1] for body in bodies]
        assert [(await one.post(body))[1] for body in bodies] == first
        assert [(await other.post(body))[1] for body in bodies] == first
    assert len(set(first)) == 20


async def test_call_ids_differ_within_an_answer_and_between_bodies() -> None:
    rules = [{"reply": {"tool_calls": [{"name": "a"}, {"name": "a"}]}}]
    async with open_stub({"rules": rules}) as (_, client):
        ids = [call["id"] for n in range(5) for call in (await client.say(make_request(str(n))))["tool_calls"]]
    assert len(set(ids)) == 10
    assert all(identity.startswith("call_") for identity in ids)


async def test_an_answer_waits_for_its_latency() -> None:
    async with open_stub({"latency": 3600}) as (server, client):
        with pytest.raises(TimeoutError):
            await client.post(make_request(), timeout=aiohttp.ClientTimeout(total=0.05))
        await until(lambda: server.stats.abandoned == 1)
        assert server.stats.completed == 0


def test_latency_lies_between_min_and_max_and_follows_from_the_body_and_the_seed() -> None:
    latency = Latency(min=1, max=2)
    digests = [bytes([number]) * 16 for number in range(100)]
    chosen = [choose_delay(latency, 0, digest, None) for digest in digests]
    assert [choose_delay(latency, 0, digest, None) for digest in digests] == chosen
    assert all(1 <= delay < 2 for delay in chosen)
    assert len(set(chosen)) == 100
    assert choose_delay(latency, 1, digests[0], None) != chosen[0]


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_each_fault_kind_lets_the_retry_through_and_is_counted() -> None:
    """The kinds that answer at all; those that hang are looked at below."""
    for kind in sorted(set(FAULT_KINDS) - {"hang", "trickle"}):
        async with open_stub({"faults": [{"kind": kind, "delay": 0}]}) as (server, client):
            with contextlib.suppress(aiohttp.ClientError):
                await client.post(make_request())
            answer = await client.ask(make_request())
            assert answer["choices"][0]["message"]["content"], kind
            assert server.stats.faults == {kind: 1}


async def ask_faulty(fault: JSON, body: JSON | None = None) -> tuple[int, bytes, dict[str, str]]:
    async with open_stub({"faults": [fault]}) as (_, client):
        return await client.post(body or make_request())


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ({"kind": "status", "status": 418}, 418, None),
        ({"kind": "status"}, 500, None),
        ({"kind": "overload"}, 429, "rate_limit_exceeded"),
        ({"kind": "error500"}, 500, None),
        ({"kind": "unavailable"}, 503, None),
        ({"kind": "context_length"}, 400, "context_length_exceeded"),
    ],
)
async def test_refusing_faults_answer_their_status_with_an_openai_error(
    fault: JSON, status: int, code: str | None
) -> None:
    got, body, _ = await ask_faulty(fault)
    error = json.loads(body)["error"]
    assert got == status
    assert error["code"] == code
    assert error["message"]
    assert error["type"]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "overload"}, "1"),
        ({"kind": "overload", "retry_after": 2.5}, "2.5"),
        ({"kind": "unavailable", "retry_after": 3}, "3"),
        ({"kind": "status", "status": 429, "retry_after": "soon"}, "soon"),
        ({"kind": "status", "status": 429}, None),
    ],
)
async def test_retry_after_says_what_the_script_says(fault: JSON, expected: str | None) -> None:
    assert (await ask_faulty(fault))[2].get("retry-after") == expected


async def test_retry_after_can_be_a_date() -> None:
    _, _, headers = await ask_faulty({"kind": "overload", "retry_after": 60, "retry_after_as": "date"})
    assert headers["retry-after"].endswith("GMT")
    assert parsedate_to_datetime(headers["retry-after"]).tzinfo is not None


async def test_html_is_a_502_with_a_page() -> None:
    status, body, headers = await ask_faulty({"kind": "html"})
    assert (status, headers["content-type"]) == (502, "text/html")
    assert body.startswith(b"<html>")


async def test_reset_breaks_the_connection_in_the_middle_of_the_body() -> None:
    async with (
        open_stub({"faults": [{"kind": "reset"}]}) as (_, client),
        client.session.post(f"{client.url}/chat/completions", json=make_request()) as response,
    ):
        assert response.status == 200
        assert response.content_length is not None
        with pytest.raises(aiohttp.ClientError):
            await response.read()


def test_reset_sends_half_the_body_and_then_rst_from_a_server_process() -> None:
    received = bytearray()

    def read_on(connection: socket.socket) -> None:
        while piece := connection.recv(65536):
            received.extend(piece)

    with (
        StubProcess({"faults": [{"kind": "reset"}]}) as stub,
        socket.create_connection(("127.0.0.1", port_of(stub.url))) as connection,
    ):
        connection.sendall(frame(make_request()))
        with pytest.raises(ConnectionResetError):
            read_on(connection)
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert len(body) == length // 2


async def test_refuse_close_closes_before_any_byte() -> None:
    async with open_stub({"faults": [{"kind": "refuse_close"}]}) as (server, _):
        assert await exchange_raw(server, frame(make_request())) == b""
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await ask_faulty({"kind": "refuse_close"})


async def test_hang_never_answers_and_ends_when_the_client_leaves() -> None:
    async with open_stub({"faults": [{"kind": "hang"}]}) as (server, client):
        with pytest.raises(TimeoutError):
            await client.post(make_request(), timeout=aiohttp.ClientTimeout(total=0.05))
        await until(lambda: server.stats.in_flight == 0)
        assert (server.stats.abandoned, server.stats.faults) == (1, {"hang": 1})


async def test_trickle_sends_headers_and_bytes_without_end() -> None:
    async with (
        open_stub({"faults": [{"kind": "trickle", "delay": 0.001}]}) as (server, client),
        client.session.post(f"{client.url}/chat/completions", json=make_request()) as response,
    ):
        assert response.status == 200
        assert await response.content.readexactly(20) == b" " * 20
        assert server.stats.in_flight == 1
        response.close()


async def test_slow_adds_its_delay_and_answers() -> None:
    async with open_stub({"faults": [{"kind": "slow", "delay": 3600, "model": "late"}]}) as (_, client):
        with pytest.raises(TimeoutError):
            await client.post(make_request(model="late"), timeout=aiohttp.ClientTimeout(total=0.05))
        await client.ask(make_request(model="early"))
    status, body, _ = await ask_faulty({"kind": "slow", "delay": 0.001})
    assert (status, json.loads(body)["object"]) == (200, "chat.completion")


async def test_invalid_json_is_a_200_that_does_not_parse() -> None:
    status, body, headers = await ask_faulty({"kind": "invalid_json"})
    assert (status, headers["content-type"]) == (200, "application/json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


async def test_empty_choices_has_none() -> None:
    assert json.loads((await ask_faulty({"kind": "empty_choices"}))[1])["choices"] == []


async def test_no_message_has_a_choice_without_one() -> None:
    assert "message" not in json.loads((await ask_faulty({"kind": "no_message"}))[1])["choices"][0]


async def test_wrong_types_has_a_number_for_content_and_a_dict_for_calls() -> None:
    message = json.loads((await ask_faulty({"kind": "wrong_types"}))[1])["choices"][0]["message"]
    assert isinstance(message["content"], int)
    assert isinstance(message["tool_calls"], dict)


async def test_null_content_no_calls_says_nothing() -> None:
    message = json.loads((await ask_faulty({"kind": "null_content_no_calls"}, make_request(tools=[SEARCH])))[1])
    assert message["choices"][0]["message"] == {"role": "assistant", "content": None}


@pytest.mark.parametrize("body", [make_request(), make_request(tools=[SEARCH]), make_request(tools=[make_tool("go")])])
async def test_broken_arguments_are_cut_json(body: JSON) -> None:
    choice = json.loads((await ask_faulty({"kind": "broken_arguments"}, body))[1])["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])


async def test_unknown_tool_calls_what_was_not_offered() -> None:
    answer = json.loads((await ask_faulty({"kind": "unknown_tool"}, make_request(tools=[SEARCH])))[1])
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "no_such_tool"


async def test_duplicate_call_ids_gives_two_calls_one_id() -> None:
    answer = json.loads((await ask_faulty({"kind": "duplicate_call_ids"}, make_request(tools=[SEARCH])))[1])
    first, second = answer["choices"][0]["message"]["tool_calls"]
    assert first["id"] == second["id"]


async def test_length_cuts_the_content_and_says_so() -> None:
    async with open_stub({"rules": [{"reply": {"content": "abcdef"}}], "faults": ["length"]}) as (_, client):
        answer = await client.ask(make_request())
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == "abc"


async def test_huge_answers_as_much_as_it_was_told_to() -> None:
    _, body, _ = await ask_faulty({"kind": "huge", "size": 3_000_000})
    assert len(json.loads(body)["choices"][0]["message"]["content"]) == 3_000_000


async def test_a_fault_strikes_one_body_at_most_times_in_a_row() -> None:
    async with open_stub({"faults": [{"kind": "error500", "times": 3}]}) as (_, client):
        statuses = [(await client.post(make_request()))[0] for _ in range(5)]
    assert statuses == [500, 500, 500, 200, 500]


async def test_a_fault_that_strikes_always_never_lets_through() -> None:
    async with open_stub({"faults": [{"kind": "error500", "times": "always"}]}) as (_, client):
        assert {(await client.post(make_request()))[0] for _ in range(10)} == {500}


async def test_two_faults_together_still_let_the_first_retry_through() -> None:
    async with open_stub({"faults": ["error500", "unavailable"]}) as (_, client):
        assert [(await client.post(make_request()))[0] for _ in range(2)] == [500, 200]


async def test_a_rate_strikes_about_that_share_and_the_same_bodies_in_every_run() -> None:
    script = {"seed": 1, "faults": [{"kind": "error500", "rate": 0.3}]}

    async def run(used: JSON) -> list[int]:
        async with open_stub(used) as (_, client):
            return [(await client.post(make_request(str(number))))[0] for number in range(200)]

    first = await run(script)
    assert 30 < first.count(500) < 90
    assert await run(script) == first
    assert await run({**script, "seed": 2}) != first


async def test_a_fault_for_a_model_spares_the_others() -> None:
    async with open_stub({"faults": [{"kind": "error500", "model": "judge*"}]}) as (_, client):
        assert (await client.post(make_request(model="stub")))[0] == 200
        assert (await client.post(make_request(model="judge-1")))[0] == 500


async def test_a_rule_with_only_a_fault_leaves_the_reply_to_the_next_rule() -> None:
    rules = [{"when": {"contains": "trouble"}, "fault": "error500"}, {"reply": {"content": "fine"}}]
    async with open_stub({"rules": rules}) as (_, client):
        assert (await client.post(make_request("trouble")))[0] == 500
        assert (await client.say(make_request("trouble")))["content"] == "fine"
        assert (await client.say(make_request("peace")))["content"] == "fine"


# --- stats, capacity, keys, records ----------------------------------------------------------------------------------


async def test_stats_count_requests_models_distinct_bodies_and_repeats() -> None:
    async with open_stub() as (server, client):
        for text in ("a", "b", "a", "a"):
            await client.ask(make_request(text))
        await client.ask(make_request("a", model="other"))
        stats = await client.get("/stats")
    assert (stats["requests"], stats["completed"], stats["distinct"], stats["repeats"]) == (5, 5, 3, 2)
    assert (stats["in_flight"], stats["max_in_flight"], stats["faults"]) == (0, 1, {})
    assert stats["by_model"] == {"stub": 4, "other": 1}
    assert server.stats.repeats == 2


async def test_an_answer_that_a_fault_broke_is_not_counted_as_given() -> None:
    async with open_stub({"faults": ["invalid_json"]}) as (server, client):
        await client.post(make_request())
        await client.post(make_request())
        assert (server.stats.distinct, server.stats.repeats) == (1, 0)
        assert (server.stats.requests, server.stats.failed, server.stats.completed) == (2, 1, 1)


async def test_reset_zeroes_the_stats_and_forgets_the_bodies() -> None:
    async with open_stub({"faults": ["error500"]}) as (server, client):
        await client.post(make_request())
        await client.ask(make_request())
        async with client.session.post(client.url.removesuffix("/v1") + "/reset") as response:
            assert response.status == 200
        assert server.stats.requests == server.stats.distinct == 0
        assert (await client.post(make_request()))[0] == 500
        await client.ask(make_request())
        assert server.stats.repeats == 0


async def test_every_request_ends_in_exactly_one_way() -> None:
    faults = [{"kind": kind, "rate": 0.2, "delay": 0.001} for kind in FAULT_KINDS if kind not in ("hang", "trickle")]
    async with open_stub({"faults": faults, "latency": 0.001, "capacity": 20}) as (server, client):

        async def attempt(number: int) -> None:
            with contextlib.suppress(aiohttp.ClientError):
                await client.post(make_request(str(number)) if number % 10 else b"no json")

        await asyncio.gather(*(attempt(number) for number in range(300)))
        stats = server.stats
        assert stats.requests == 300
        assert stats.requests == stats.completed + stats.failed + stats.rejected + stats.abandoned + stats.in_flight
        assert stats.in_flight == 0
        assert stats.rejected == 30


async def test_more_than_capacity_at_once_get_429_until_there_is_room_again() -> None:
    script = {"capacity": 5, "capacity_retry_after": 0.5, "faults": [{"kind": "hang", "model": "held"}]}
    async with open_stub(script) as (server, client):
        held = [asyncio.create_task(client.post(make_request(str(number), model="held"))) for number in range(5)]
        await until(lambda: server.stats.in_flight == 5)
        status, body, headers = await client.post(make_request())
        assert (status, headers["retry-after"]) == (429, "0.5")
        assert json.loads(body)["error"]["code"] == "rate_limit_exceeded"
        assert server.stats.faults == {"hang": 5, "capacity": 1}
        held[0].cancel()
        await until(lambda: server.stats.in_flight == 4)
        assert (await client.post(make_request()))[0] == 200
        for task in held:
            task.cancel()
        await asyncio.wait(held)


async def test_a_key_is_asked_for_when_the_script_sets_one() -> None:
    async with open_stub({"api_key": "secret"}) as (_, client):
        assert (await client.post(make_request()))[0] == 401
        assert (await client.post(make_request(), headers={"Authorization": "Bearer wrong"}))[0] == 401
        assert (await client.post(make_request(), headers={"Authorization": "Bearer secret"}))[0] == 200


async def test_requests_are_kept_in_process_and_recorded_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    bodies = [make_request("one"), make_request("zwei\nü")]
    async with open_stub({"record": str(path)}, keep_requests=True) as (server, client):
        for body in bodies:
            await client.post(json.dumps(body, indent=2).encode())
        assert [json.loads(line) for line in path.read_text().splitlines()] == bodies
        assert server.requests == bodies


async def test_models_and_health_answer() -> None:
    async with open_stub({"models": ["a", "b"]}) as (_, client):
        assert [model["id"] for model in (await client.get("/v1/models"))["data"]] == ["a", "b"]
        assert await client.get("/health") == {"status": "ok"}


# --- token details ---------------------------------------------------------------------------------------------------


async def test_usage_counts_the_tokens_that_are_given() -> None:
    async with open_stub() as (_, client):
        body = make_request("größer 漢字", tools=[SEARCH], return_token_ids=True, logprobs=True)
        answer = await client.ask(body)
    choice, usage = answer["choices"][0], answer["usage"]
    assert usage["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert usage["completion_tokens"] == len(choice["token_ids"]) == len(choice["logprobs"]["content"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert "größer 漢字" in decode_tokens(answer["prompt_token_ids"])


async def test_logprobs_are_given_when_asked_for_and_spell_the_answer() -> None:
    async with open_stub({"rules": [{"reply": {"content": "fünf"}}]}) as (_, client):
        plain = await client.ask(make_request())
        answer = await client.ask(make_request(logprobs=True))
    entries = answer["choices"][0]["logprobs"]["content"]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == "fünf<|end|>"
    assert all(entry["logprob"] < 0 and entry["top_logprobs"] == [] for entry in entries)
    assert plain["choices"][0]["logprobs"] is None
    assert "prompt_token_ids" not in plain


async def test_alternatives_begin_with_the_sampled_token_and_need_logprobs() -> None:
    async with open_stub({"rules": [{"reply": {"content": "fünf"}}]}) as (_, client):
        answer = await client.ask(make_request(logprobs=True, top_logprobs=3))
        status, refused, _ = await client.post(make_request(top_logprobs=3))
    for entry in answer["choices"][0]["logprobs"]["content"]:
        assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]
        assert len({other["logprob"] for other in entry["top_logprobs"]}) == 3
        assert sum(math.exp(other["logprob"]) for other in entry["top_logprobs"]) < 1
    assert status == 400
    assert b"`logprobs` must be true" in refused


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
turns = st.lists(
    st.tuples(texts, texts, st.none() | texts, st.lists(st.tuples(st.sampled_from(["a", "b"]), texts), max_size=2)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=turns)
def test_prompt_and_completion_are_a_prefix_of_the_next_prompt(turns: list[tuple[Any, ...]]) -> None:
    rules = [
        {
            "when": {"answers": number},
            "reply": {
                "content": said or None,
                "reasoning": reasoning,
                "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
            },
        }
        for number, (_, said, reasoning, calls) in enumerate(turns)
    ]

    async def grow() -> None:
        body: JSON = {"model": "stub", "messages": [], "tools": [SEARCH], "return_token_ids": True}
        seen: list[int] = []
        async with open_stub({"rules": rules}) as (_, client):
            for heard, *_ in turns:
                body["messages"].append({"role": "user", "content": heard})
                answer = await client.ask(body)
                prompt, choice = answer["prompt_token_ids"], answer["choices"][0]
                assert prompt[: len(seen)] == seen
                seen = prompt + choice["token_ids"]
                body["messages"].append(choice["message"])
                for call in choice["message"].get("tool_calls", ()):
                    body["messages"].append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})

    asyncio.run(grow())


# --- the wire --------------------------------------------------------------------------------------------------------


async def test_one_connection_serves_many_requests_one_after_the_other() -> None:
    async with StubServer() as server:
        connector = aiohttp.TCPConnector(limit=1)
        opened = 0

        async def count(*_: Any) -> None:
            nonlocal opened
            opened += 1

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(count)
        async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
            client = Client(session, server.url)
            for number in range(500):
                await client.ask(make_request(str(number)))
        assert (opened, server.stats.distinct) == (1, 500)


async def test_two_hundred_requests_at_once_each_get_their_own_answer() -> None:
    rules = [{"when": {"contains": f"<{number}>"}, "reply": {"content": str(number)}} for number in range(200)]
    async with open_stub({"rules": rules, "latency": {"min": 0.0, "max": 0.05}}) as (server, client):
        answers = await asyncio.gather(*(client.say(make_request(f"<{number}>")) for number in range(200)))
        assert [answer["content"] for answer in answers] == [str(number) for number in range(200)]
        assert (server.stats.completed, server.stats.in_flight) == (200, 0)


@pytest.mark.parametrize("latency", [0, 0.002])
async def test_pipelined_requests_are_answered_in_order(latency: float) -> None:
    rules = [{"when": {"contains": f"<{number}>"}, "reply": {"content": f"<{number}>"}} for number in range(10)]
    async with open_stub({"rules": rules, "latency": latency}) as (server, _):
        wire = b"".join(frame(make_request(f"<{number}>"), close=number == 9) for number in range(10))
        answer = (await exchange_raw(server, wire)).decode()
    positions = [answer.index(f'"<{number}>"') for number in range(10)]
    assert positions == sorted(positions)


async def test_a_large_body_in_many_packets_is_read_whole() -> None:
    async with open_stub(keep_requests=True) as (server, client):
        body = make_request("x" * 5_000_000)
        data = io.BytesIO(json.dumps(body).encode())
        async with client.session.post(f"{client.url}/chat/completions", data=data) as response:
            assert response.status == 200
        assert server.requests == [body]


async def test_a_request_that_comes_byte_by_byte_is_answered() -> None:
    async with open_stub() as (server, _):
        port = port_of(server.url)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for byte in frame(make_request("slow"), close=True):
            writer.write(bytes((byte,)))
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()


async def test_a_chunked_body_is_read_whole() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        data = json.dumps(make_request("chunks")).encode()
        for at in range(0, len(data), 7):
            yield data[at : at + 7]

    async with open_stub(keep_requests=True) as (server, client):
        async with client.session.post(f"{client.url}/chat/completions", data=pieces()) as response:
            assert response.status == 200
        assert server.requests == [make_request("chunks")]


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with open_stub() as (_, client):
        status, _, _ = await client.post(make_request(), expect100=True)
    assert status == 200


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431),
    ],
)
async def test_what_is_not_http_is_refused_and_the_server_lives_on(wire: bytes, status: int) -> None:
    async with open_stub() as (server, client):
        answer = await exchange_raw(server, wire)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"Connection: close" in answer
        await client.ask(make_request())


@settings(max_examples=60, deadline=None)
@given(wire=st.binary(max_size=200))
def test_no_bytes_whatever_break_the_server(wire: bytes) -> None:
    async def attempt() -> None:
        async with open_stub() as (server, client):
            port = port_of(server.url)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\n" + wire + b"\r\n\r\n")
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await client.ask(make_request())

    asyncio.run(attempt())


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "Invalid request"),
        (b"[]", "object"),
        (b"\xff", "Invalid request"),
        (b"[" * 100_000, "Invalid request"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": [{"role": "user", "content": 5}]}', "$.messages[0].content"),
        (b'{"model": "m", "messages": [{"role": "king", "content": "x"}]}', "$.messages[0].role"),
        (b'{"model": "m", "messages": [{"role": "user"}], "tools": [{"type": "function"}]}', "function"),
        (b'{"model": "m", "messages": [{"role": "user"}], "stream": true}', "$.stream"),
        (b'{"model": "m", "messages": [{"role": "user"}], "n": 2}', "$.n"),
    ],
)
async def test_what_is_no_chat_request_gets_400_that_names_the_key(body: bytes, named: str) -> None:
    async with open_stub() as (server, client):
        status, answer, _ = await client.post(body)
        assert status == 400
        assert named in json.loads(answer)["error"]["message"]
        assert (server.stats.rejected, server.stats.in_flight) == (1, 0)


async def test_unknown_paths_get_404_and_wrong_methods_405() -> None:
    async with open_stub() as (_, client):
        async with client.session.get(f"{client.url}/nowhere") as response:
            assert response.status == 404
        async with client.session.get(f"{client.url}/chat/completions") as response:
            assert response.status == 405


async def test_completions_answer_without_v1_too() -> None:
    async with open_stub() as (_, client):
        client.url = client.url.removesuffix("/v1")
        assert (await client.post(make_request()))[0] == 200


async def test_closing_the_server_ends_requests_that_hang() -> None:
    async with open_client("") as client:
        async with StubServer({"faults": ["hang"]}) as server:
            client.url = server.url
            hanging = asyncio.create_task(client.post(make_request()))
            await until(lambda: server.stats.in_flight == 1)
        with pytest.raises(aiohttp.ClientError):
            await hanging
        assert server.stats.abandoned == 1


# --- scripts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "key"),
    [
        ({"latncy": 1}, "latncy"),
        ({"latency": -1}, "latency.min"),
        ({"latency": {"min": 2, "max": 1}}, "latency: "),
        ({"rules": [{"reply": {"content": "x"}}, {"when": {"turn": "two"}, "reply": {}}]}, "rules[1].when.turn"),
        ({"rules": [{"when": {}}]}, "rules[0]: "),
        ({"faults": [{"kind": "meteor"}]}, "faults[0].kind"),
        ({"faults": [{"kind": "reset", "rate": 2}]}, "faults[0].rate"),
        ({"faults": [{"kind": "reset", "times": 0}]}, "faults[0].times"),
        ({"capacity": 0}, "capacity"),
    ],
)
def test_a_wrong_script_is_refused_by_the_name_of_its_file_and_key(script: JSON, key: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(json.dumps(script))
    with pytest.raises(ConfigError) as caught:
        load_script(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)
    with pytest.raises(ConfigError, match="stub script: "):
        StubServer(script)


def test_a_script_that_is_no_yaml_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "absent.yaml")
    (tmp_path / "torn.yaml").write_text("rules: [")
    with pytest.raises(ConfigError, match=r"torn\.yaml"):
        load_script(tmp_path / "torn.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="top level"):
        load_script(tmp_path / "list.yaml")


def test_a_script_reads_the_same_from_yaml_json_text_and_dict(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("latency: 0.05\nfaults:\n  - overload\n  - {kind: hang, times: always}\n")
    script: JSON = {"latency": 0.05, "faults": ["overload", {"kind": "hang", "times": "always"}]}
    expected = StubScript.model_validate(script)
    assert load_script(path) == load_script(json.dumps(script)) == load_script(script) == expected
    assert load_script(expected) is expected
    assert load_script() == StubScript()


async def test_a_port_that_is_taken_is_a_config_error() -> None:
    async with StubServer() as server:
        port = port_of(server.url)
        with pytest.raises(ConfigError, match=str(port)):
            async with StubServer(port=port):
                pass


# --- a process of its own --------------------------------------------------------------------------------------------


async def test_a_stub_process_serves_counts_and_stops() -> None:
    async with StubProcess({"rules": [{"reply": {"content": "from afar"}}]}) as stub:
        async with open_client(stub.url) as client:
            assert (await client.say(make_request()))["content"] == "from afar"
        stats = await asyncio.to_thread(stub.stats)
        assert (stats.requests, stats.completed) == (1, 1)
        await asyncio.to_thread(stub.reset)
        assert (await asyncio.to_thread(stub.stats)).requests == 0
        pid = stub.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_answers_byte_for_byte_what_the_in_process_server_answers() -> None:
    body = make_request(tools=[SEARCH], return_token_ids=True)

    async def ask_both(url: str) -> list[bytes]:
        async with open_client(url) as far, open_stub() as (_, near):
            return [(await client.post(body))[1] for client in (far, near)]

    with StubProcess() as stub:
        far, near = asyncio.run(ask_both(stub.url))
    assert far == near


def test_a_stub_process_that_cannot_start_says_why() -> None:
    with StubProcess() as stub:
        port = port_of(stub.url)
        with pytest.raises(ConfigError, match="cannot listen"):
            StubProcess(port=port).start()


def test_a_stub_process_ends_when_its_parent_is_killed() -> None:
    parent_code = (
        "import sys, signal; from rollout.testing import StubProcess\n"
        "stub = StubProcess().start(); print(stub.pid, flush=True); signal.pause()"
    )
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE, cwd=root, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([child], [], [], 30)[0] == [child]
    os.close(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_program_ends_cleanly_on_a_signal_even_with_requests_under_way(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "rollout.testing", "--script", '{"faults": ["hang"]}']
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        url = json.loads(program.stdout.readline())["url"]
        with socket.create_connection(("127.0.0.1", port_of(url))) as connection:
            connection.sendall(frame(make_request()))
            while json.loads(urllib.request.urlopen(url.replace("/v1", "/stats")).read())["in_flight"] == 0:
                pass
            program.send_signal(number)
            assert program.wait(30) == 0
            assert program.stderr.read() == b""


async def test_a_reply_repeats_the_opening_and_escapes_it_in_arguments() -> None:
    said = 'say "hello"'
    rules = [{"reply": {"content": "{opening}!", "tool_calls": [{"name": "search", "arguments": {"q": "{opening}"}}]}}]
    async with open_stub({"rules": rules}) as (_, client):
        message = (await client.ask(make_request(said)))["choices"][0]["message"]
    assert message["content"] == f"{said}!"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"q": said}


@pytest.mark.parametrize("kind", ["status", "overload", "error500", "unavailable", "context_length", "html", None])
async def test_a_careless_server_repeats_the_key_in_errors_and_replies(kind: str | None) -> None:
    script: JSON = {"echo_key": True, "rules": [{"reply": {"content": "the key is {key}"}}]}
    if kind is not None:
        script["faults"] = [kind]
    async with open_stub(script) as (_, client):
        _, body, _ = await client.post(make_request(), headers={"Authorization": "Bearer open-sesame"})
    assert b"open-sesame" in body
