"""The web agent through the engine: text calls, windows and images, compared with what a server really received."""

from __future__ import annotations

import functools
import json
import urllib.parse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.agents.folding import FOLDED
from rollout.agents.view import NO_LONGER_SHOWN
from rollout.agents.viewing import requests_of
from rollout.cli.check import check_config
from rollout.config.schema import Config
from rollout.core.errors import ConfigError, JournalError
from rollout.core.messages import Message, ToolCall
from rollout.models.model import Capability, Request
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.store.blobs import file_url, image_url
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from rollout.trajectories.saved import SavedLine
from tests.conftest import read_lines, roll_out, write_tasks
from tests.engine.pages import use_pages

RUN, OUT, RECORD = Path("run"), Path("out.jsonl"), Path("requests.jsonl")
JSON = dict[str, Any]


@pytest.fixture(autouse=True)
def _pages_instead_of_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_pages(monkeypatch)


def text_call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def reply(is_text: bool, said: str, name: str, **arguments: Any) -> JSON:
    if is_text:
        return {"content": f"<think>\nat turn {{turn}}\n</think>\n\nAction: {said}\n{text_call(name, **arguments)}"}
    return {
        "content": f"Action: {said}",
        "reasoning": "at turn {turn}",
        "tool_calls": [{"name": name, "arguments": arguments}],
    }


def rules(is_text: bool) -> list[JSON]:
    """Clicks on to page 6, with an element that is not there on page 2 and a call that is none on page 3."""
    broken = {"content": f"Action: I click.\n{text_call('click', element=1)[:-20]}"}
    if not is_text:
        broken = {"tool_calls": [{"name": "click", "arguments": '{"element": '}]}
    click = reply(is_text, "I go on.", "click", element=1)
    return [
        {"when": {"contains": "Title: Page 6"}, "reply": reply(is_text, "I am there.", "answer", text="six")},
        {"when": {"contains": "Title: Page 2"}, "reply": reply(is_text, "I try.", "click", element=99)},
        {"when": {"contains": "Title: Page 3"}, "reply": broken},
        {"when": {"contains": "no such element"}, "reply": click},
        {"reply": click},
    ]


def config(url: str, agent: JSON, model: JSON | None = None, **more: Any) -> JSON:
    task = {"messages": [{"role": "user", "content": "Go to page 6."}], "task_info": {"website": "http://pages.test/"}}
    return {
        "models": {"agent": {"api_base": url, **(model or {})}},
        "datasets": {
            "web": {
                "path": write_tasks(Path("tasks.jsonl"), {"id": "task0", **task}),
                "output_path": OUT,
                "max_steps_per_turn": 20,
                "web": {},
                "agent": {"model": "agent", **agent},
            }
        },
        **more,
    }


def received() -> list[JSON]:
    return [json.loads(line) for line in RECORD.read_bytes().splitlines()]


def saved() -> tuple[SavedLine, Any]:
    (source,) = find_sources([RUN])
    ((_, line),) = source.read()
    assert isinstance(line, SavedLine)
    return line, Prompts().of(line, source)


def images_of(messages: list[JSON]) -> list[str]:
    return [
        part["image_url"]["url"]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


def text_of(message: JSON) -> str:
    content = message["content"]
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def without_captions(metadata: JSON) -> JSON:
    """The metadata of a line that an earlier version wrote."""
    return {**metadata, "view": {key: value for key, value in metadata["view"].items() if key != "captions"}}


WINDOWS = [{}, {"max_images": 2}, {"max_rounds": 2}, {"max_rounds": 3, "max_images": 1}]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("images", [None, "data", "file"])
@pytest.mark.parametrize("tool_format", ["native", "text"])
async def test_every_request_can_be_made_again_from_the_saved_line(
    tool_format: str, images: str | None, window: JSON
) -> None:
    agent = {"tool_format": tool_format, "prompt": "complete", "reasoning": "keep_all", **window}
    model = {"images": images is not None, "image_urls": images or "data"}
    async with StubServer({"record": RECORD, "rules": rules(tool_format == "text")}) as server:
        await roll_out(config(server.url, agent, model))
    line, prompt = saved()
    assert line.stop_reason == "answered"
    url_of = functools.partial(file_url if images == "file" else image_url, RUN)
    requests = received()
    assert len(requests) == 9
    assert [request["messages"] for request in requests] == list(requests_of(line, prompt.system, url_of))
    earlier = msgspec.structs.replace(line, metadata=without_captions(line.metadata))
    assert [request["messages"] for request in requests] == list(requests_of(earlier, prompt.system, url_of))
    for request in requests:
        assert request["messages"][0] == {"role": "system", "content": prompt.system}
        assert request.get("tools", []) == prompt.tools


async def test_text_format_speaks_in_text_alone_and_keeps_what_was_written() -> None:
    async with StubServer({"record": RECORD, "rules": rules(True)}) as server:
        await roll_out(config(server.url, {"tool_format": "text", "tool_choice": "auto"}))
    requests = received()
    for request in requests:
        assert not {"tools", "tool_choice"} & set(request)
        for message in request["messages"]:
            assert message["role"] in ("system", "user", "assistant")
            assert not {"tool_calls", "tool_call_id", "raw", "images"} & set(message)
    assert '"name":"click"' in requests[0]["messages"][0]["content"]
    (line,) = read_lines(OUT)
    assert line["metadata"]["tool_errors"] == {"tool": 1, "malformed_call": 1}
    answers = [message for message in line["messages"] if message["role"] == "assistant"]
    sent_back = [message for message in requests[-1]["messages"] if message["role"] == "assistant"]
    assert [answer.get("raw") or answer["content"] for answer in answers][:-1] == [
        message["content"] for message in sent_back
    ], "all of one turn, so the reasoning stays, where the model wrote it"
    assert answers[0]["raw"] == f"<think>\nat turn 2\n</think>\n\nAction: I go on.\n{text_call('click', element=1)}"
    assert answers[0]["content"] == "Action: I go on."
    assert answers[0]["reasoning_content"] == "at turn 2"
    results = [message for message in line["messages"] if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == [
        call["id"] for answer in answers for call in answer["tool_calls"]
    ]
    assert any("</tool_call> is missing" in text_of(message) for message in requests[-1]["messages"])


async def test_answer_without_a_call_is_told_so_and_the_work_goes_on() -> None:
    talk = [
        {"when": {"contains": "calls no tool"}, "reply": reply(True, "Well.", "answer", text="x")},
        {"reply": {"content": "I would click the link."}},
    ]
    async with StubServer({"rules": talk}) as server:
        await roll_out(config(server.url, {"tool_format": "text"}))
    (line,) = read_lines(OUT)
    assert line["metadata"]["stop_reason"] == "answered"
    assert line["metadata"]["tool_errors"] == {"malformed_call": 1}


async def test_window_keeps_the_last_rounds_and_images() -> None:
    agent = {"tool_format": "text", "max_rounds": 2, "max_images": 2}
    async with StubServer({"record": RECORD, "rules": rules(True)}) as server:
        await roll_out(config(server.url, agent, {"images": True}))
    last = received()[-1]["messages"]
    assert [message["role"] for message in last] == ["system", *["user"] * 2, *["assistant", "user"] * 2]
    task = text_of(last[1])
    assert task.startswith(f"Go to page 6.{FOLDED}\nStep 1 on [Page 0]: I go on. (the page changed)\n")
    assert "Step 3 on [Page 2]: I try. (failed: click: there is no such element.)" in task
    assert task.count("\nStep ") == 6
    assert len(images_of(last)) == 2
    assert NO_LONGER_SHOWN in text_of(last[2])
    assert "Title: Page 4" in text_of(last[2]), "the page that the first answer of the window was given to"


async def test_images_go_by_reference_where_the_server_sees_the_files() -> None:
    async with StubServer({"record": RECORD, "rules": rules(False)}) as server:
        await roll_out(config(server.url, {}, {"images": True, "image_urls": "file"}))
    urls = images_of(received()[-1]["messages"])
    assert len(urls) == 7
    for number, url in enumerate(urls):
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
        assert url.startswith("file:///")
        assert path.read_bytes() == b"\x89PNG of page %d" % number


class Watcher:
    """Answers with the number of images that it is sent."""

    name = "watcher"
    capabilities = frozenset({Capability.IMAGES})

    async def generate(self, request: Request) -> Generation:
        text = str(len(images_of(request.chat()["messages"])))
        call = ToolCall("call0", "answer", json.dumps({"text": text}))
        return Generation(Message(role="assistant", tool_calls=(call,)), "tool_calls")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "entry", "images"),
    [
        ("tests.engine.test_web_agent:Watcher", None, "1"),
        ("watcher", None, "1"),
        ("tests.engine.test_web_agent:Watcher", {"images": False}, "0"),
    ],
)
async def test_a_model_of_ones_own_says_by_its_capabilities_that_it_sees_images(
    name: str, entry: JSON | None, images: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = Path("watching-1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: watching\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[rollout.models]\nwatcher = tests.engine.test_web_agent:Watcher\n")
    monkeypatch.syspath_prepend(Path.cwd())
    settings = config("http://unused", {"model": name})
    if entry is not None:
        settings["models"][name] = entry
    await roll_out(settings)
    (line,) = read_lines(OUT)
    (call,) = line["messages"][-2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"text": images}


@pytest.mark.parametrize("window", [{}, {"max_rounds": 1}], ids=str)
@pytest.mark.parametrize("tool_format", ["native", "text"])
async def test_built_in_agent_plays_in_every_form_and_window(tool_format: str, window: JSON) -> None:
    actions = [{"name": "click", "arguments": {"element": number}} for number in (1, 2, 3)]
    actions.append({"name": "answer", "arguments": {"text": "three"}})
    settings = config("http://unused", {"model": "builtin/oracle", "tool_format": tool_format, **window})
    task = {"id": "t", "messages": [{"role": "user", "content": "Go."}], "task_info": {"actions": actions}}
    settings["datasets"]["web"]["path"] = write_tasks(Path("tasks.jsonl"), task)
    await roll_out(settings)
    (line,) = read_lines(OUT)
    called = [call["function"] for message in line["messages"] for call in message.get("tool_calls", ())]
    assert [json.loads(call["arguments"]) for call in called] == [action["arguments"] for action in actions]
    assert line["metadata"]["stop_reason"] == "answered"


async def test_resumed_episode_is_sent_what_an_undisturbed_one_is() -> None:
    agent = {"tool_format": "text", "max_rounds": 2, "max_images": 1}
    async with StubServer({"record": RECORD, "rules": rules(True)}) as server:
        settings = config(server.url, agent, {"images": True})
        await roll_out(settings, pause_when=lambda progress: progress.generations == 5)
        assert len(received()) == 5
        await roll_out(settings)
        await roll_out(settings, resume=False)
    requests = [request["messages"] for request in received()]
    assert requests[:9] == requests[9:]


async def test_other_window_is_another_run() -> None:
    async with StubServer({"rules": rules(True)}) as server:
        await roll_out(config(server.url, {"tool_format": "text", "max_rounds": 2}))
        with pytest.raises(JournalError, match=r"agent\.max_rounds was 2, is 3"):
            await roll_out(config(server.url, {"tool_format": "text", "max_rounds": 3}))
        with pytest.raises(JournalError, match="system prompt and tools"):
            await roll_out(config(server.url, {"tool_format": "native", "max_rounds": 2}))


# ---- prompts and monitor ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "says", "does_not_say"),
    [
        ({}, "Action:", "Memory:"),
        ({"prompt": "plain"}, "Action:", "Memory:"),
        ({"prompt": "complete"}, "Memory:", "<tool_call>"),
        ({"prompt": "complete", "tool_format": "text"}, "<tool_call>", "shown a page as text"),
    ],
)
async def test_agent_is_told_how_to_answer(agent: JSON, says: str, does_not_say: str) -> None:
    async with StubServer({"record": RECORD, "rules": rules("tool_format" in agent)}) as server:
        await roll_out(config(server.url, agent))
    system = received()[0]["messages"][0]
    assert system["role"] == "system"
    assert says in system["content"]
    assert does_not_say not in system["content"]


async def test_own_system_prompt_stands_instead() -> None:
    Path("own.md").write_text("Only mine.")
    async with StubServer({"record": RECORD, "rules": rules(False)}) as server:
        await roll_out(config(server.url, {"system_prompt_file": "own.md"}))
        assert received()[0]["messages"][0]["content"] == "Only mine."
        with pytest.raises(ConfigError, match=r"datasets\.web\.agent\.prompt"):
            await roll_out(config(server.url, {"system_prompt_file": "own.md", "prompt": "plain"}), resume=False)


async def test_scrolling_goes_on_but_going_back_from_nowhere_ends() -> None:
    scroll = [{"reply": reply(False, "On.", "scroll", direction="down")}]
    async with StubServer({"rules": scroll}) as server:
        await roll_out(config(server.url, {}))
    assert read_lines(OUT)[0]["metadata"]["stop_reason"] == "max_steps"
    back = [{"reply": reply(False, "Back.", "goback")}]
    for limit, reason, calls in ((3, "monitor_failed_gobacks", 3), (0, "max_steps", 20)):
        async with StubServer({"rules": back}) as server:
            await roll_out(config(server.url, {}, monitor_max_failed_gobacks=limit), resume=False)
        metadata = read_lines(OUT)[0]["metadata"]
        assert metadata["stop_reason"] == reason
        assert metadata["tool_call_count"] == calls
        assert metadata["status"] == "truncated"
    once_forward = [
        {"when": {"contains": "Title: Page 1"}, "reply": reply(False, "Back.", "goback")},
        {"when": {"answers": {"min": 2, "max": 2}}, "reply": reply(False, "On.", "click", element=1)},
        {"when": {"answers": {"min": 6}}, "reply": reply(False, "So.", "answer", text="x")},
        {"reply": reply(False, "Back.", "goback")},
    ]
    async with StubServer({"rules": once_forward}) as server:
        await roll_out(config(server.url, {}), resume=False)
    metadata = read_lines(OUT)[0]["metadata"]
    assert metadata["stop_reason"] == "answered", "two, one that went somewhere, two more: never three in a row"
    assert metadata["tool_errors"] == {"nothing_before": 4}


@pytest.mark.parametrize(
    ("agent", "more", "key"),
    [
        ({"max_rounds": 2}, {"max_turns": 3, "user": {"kind": "scripted", "messages": ["a"]}}, "max_rounds"),
        ({"prompt": "plain"}, {"web": None, "tools": ["tests.tools:echo"]}, "prompt"),
    ],
)
async def test_what_does_not_go_together_is_refused(agent: JSON, more: JSON, key: str) -> None:
    settings = config("http://unused", agent)
    settings["datasets"]["web"] |= more
    with pytest.raises(ConfigError, match=rf"datasets\.web\.agent\.{key}"):
        await roll_out(settings)


def test_dry_run_says_so_too() -> None:
    Path("own.md").write_text("Only mine.")
    clash = config("http://unused", {"prompt": "plain", "system_prompt_file": "own.md"})
    (report,) = check_config(Config.model_validate(clash), ["web"])
    assert any("datasets.web.agent.prompt" in problem for problem in report.problems)
    blind = config("http://unused", {})
    blind["datasets"]["web"]["web"] = {"mode": "coordinates"}
    (report,) = check_config(Config.model_validate(blind), ["web"])
    assert not report.problems
    assert any("images: true" in warning for warning in report.warnings)


async def test_a_run_says_that_its_agent_sees_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with StubServer({"rules": [{"reply": {"content": "I see nothing."}}]}) as server:
        blind = config(server.url, {})
        blind["datasets"]["web"]["web"] = {"mode": "coordinates"}
        await roll_out(blind)
    assert any("images: true" in record.getMessage() for record in caplog.records)
