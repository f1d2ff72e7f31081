"""Real MCP servers as worlds: what they answer, and what it costs when they misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rollout.core.errors import ConfigError, WorldError
from rollout.core.secrets import MASK, register
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.mcp.slot import STATE_IS_LOST
from rollout.environments.mcp.world import McpWorld
from tests.servers.mcp_config import ask, error_of, load, opened, opened_raw, raw_entry

ROOT = Path(__file__).parents[2]


# ---- what they answer -------------------------------------------------------------------------------------------


async def test_tools_are_discovered_and_called() -> None:
    servers = load(raw=raw_entry())
    assert servers.toolset.by_name["echo"].description == "echo."
    assert servers.toolset.by_name["echo"].parameters["properties"]["text"] == {"type": "string"}
    async with opened(servers) as world:
        assert (await ask(world, "echo", text="hello")).content == "hello"
        assert [(await ask(world, "add")).content for _ in range(3)] == [f'{{"count": {n}}}' for n in (1, 2, 3)]


async def test_only_wanted_tools_are_offered() -> None:
    servers = load(raw=raw_entry(include_tools=["echo", "add"], exclude_tools=["add"]))
    assert [*servers.toolset.by_name] == ["echo"]
    with pytest.raises(ConfigError, match=r"mcpServers\.raw\.include_tools: no tool 'ekko'; there are: add, "):
        load(raw=raw_entry(include_tools=["ekko"]))


async def test_several_servers_have_prefixes_and_each_call_goes_to_its_own() -> None:
    servers = load(vault=raw_entry(), desk=raw_entry(), gone=raw_entry(disabled=True))
    assert {"v_add", "d_add"} <= servers.toolset.by_name.keys()
    assert servers.offered("vault.add") == "v_add"
    assert servers.offered("d_add") == "d_add"
    assert servers.offered("gone.add") is None
    async with opened(servers) as world:
        await ask(world, "v_add", by=5)
        assert (await ask(world, "d_add")).content == '{"count": 1}'
        assert (await ask(world, "v_add")).content == '{"count": 6}'


async def test_errors_of_tools_and_of_the_protocol_are_observations_and_the_session_goes_on() -> None:
    async with opened_raw() as world:
        failed = await ask(world, "fail")
        assert (failed.content, failed.is_error, failed.error_kind) == ("the vault is shut", True, "tool")
        refused = await ask(world, "refuse")
        assert (error_of(refused), refused.error_kind) == ("refuse: no refuse", "tool")
        nonsense = await ask(world, "nonsense")
        assert nonsense.error_kind == "crash"
        assert "its answer is not a valid result" in error_of(nonsense)
        assert (await ask(world, "add")).content == '{"count": 1}'


async def test_server_that_knows_no_handshake_is_asked_in_the_newer_way() -> None:
    async with opened_raw("--modern", include_tools=["echo"]) as world:
        assert (await ask(world, "echo", text="hello")).content == "hello"


async def test_lines_that_are_no_messages_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with opened_raw("--chatty") as world:
        assert (await ask(world, "echo", text="hello")).content == "hello"
    assert "writes lines that are no messages, such as 'Welcome!'" in caplog.text


async def test_state_key_tells_histories_apart_and_a_replay_has_the_same() -> None:
    keys = []
    for texts in (["a", "b"], ["a", "b"], ["a", "c"]):
        async with opened_raw() as world:
            for text in texts:
                await ask(world, "echo", text=text)
            assert await world.snapshot() is None
            keys.append(await world.state_key())
    assert keys[0] == keys[1] != keys[2]


# ---- order and isolation ----------------------------------------------------------------------------------------


async def test_calls_to_one_server_run_in_order_and_each_gets_its_own_answer() -> None:
    async with opened_raw() as world:
        calls = [Invocation(f"c{n}", "add", {"by": 1}) for n in range(6)]
        results = await world.call(calls)
    assert [result.call_id for result in results] == [call.call_id for call in calls]
    assert [json.loads(result.content)["count"] for result in results] == [1, 2, 3, 4, 5, 6]


async def test_calls_to_different_servers_run_together(tmp_path: Path) -> None:
    servers = load(one=raw_entry(), two=raw_entry())
    async with opened(servers) as world:
        calls = [Invocation(name, f"{prefix}_meet", {"text": str(tmp_path / name)}) for name, prefix in ("ao", "bt")]
        assert [result.content for result in await world.call(calls)] == ["met b", "met a"]


async def test_calls_to_a_stateless_server_run_together(tmp_path: Path) -> None:
    async with opened_raw(stateless=True) as world:
        calls = [Invocation(name, "meet", {"text": str(tmp_path / name)}) for name in "ab"]
        assert [result.content for result in await world.call(calls)] == ["met b", "met a"]


async def test_episodes_have_instances_of_their_own_and_share_the_stateless() -> None:
    servers = load(own=raw_entry(), shared=raw_entry(stateless=True))
    try:
        async with opened(servers) as first, opened(servers) as second:
            pids = {await _pid(world, name) for world in (first, second) for name in ("o_pid", "s_pid")}
            assert len(pids) == 3
            assert await _pid(first, "s_pid") == await _pid(second, "s_pid")
        assert psutil.pid_exists(await _pid_of_new_world(servers)), "the shared one outlives a world"
    finally:
        await servers.close()


async def _pid(world: McpWorld, name: str) -> int:
    return int((await ask(world, name)).content)


async def _pid_of_new_world(servers: object) -> int:
    async with opened(servers) as world:  # type: ignore[arg-type]
        return await _pid(world, "s_pid")


async def test_each_episode_has_a_copy_of_the_workdir_that_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "given.txt").write_text("as given")
    servers = load(raw=raw_entry(workdir=tmp_path / "files"))
    async with opened(servers) as first, opened(servers) as second:
        folders = [(await ask(world, "write", text=text)).content for world, text in ((first, "1"), (second, "2"))]
        assert folders[0] != folders[1]
        assert (await ask(first, "read", text="note.txt")).content == "1"
        assert (await ask(second, "read", text="given.txt")).content == "as given"
    assert not any(Path(folder).exists() for folder in folders)
    assert os.listdir(tmp_path / "files") == ["given.txt"]


async def test_seed_task_and_workdir_are_filled_in() -> None:
    servers = load(raw=raw_entry(env={"PLACE": "{seed}/{task}", "FOLDER": "{workdir}"}))
    async with opened(servers, task="t7", seed=42) as world:
        environment = json.loads((await ask(world, "env")).content)
        assert environment["PLACE"] == "42/t7"
        assert Path(environment["FOLDER"]).is_dir()


async def test_servers_see_their_own_environment_and_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours-and-nobody-elses")
    monkeypatch.setenv("SOMETHING_OF_OURS", "1")
    async with opened_raw(env={"VAULT_KEY": "open-sesame"}) as world:
        environment = json.loads((await ask(world, "env")).content)
    assert environment["VAULT_KEY"] == "open-sesame"
    assert "PATH" in environment
    safe = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "VAULT_KEY"}
    assert environment.keys() <= safe


def test_a_server_that_describes_its_tools_by_its_own_credential_tells_nobody() -> None:
    credential = "tok9-AbCdEf-123456"
    register(credential)
    servers = load(raw=raw_entry(env={"TELLS_ALL": credential}))
    assert credential.encode() not in servers.toolset.wire
    assert MASK.encode() in servers.toolset.wire


# ---- what misbehaving costs -------------------------------------------------------------------------------------


async def test_hanging_call_times_out_and_the_next_one_finds_a_new_server() -> None:
    async with opened_raw(timeout=0.3) as world:
        await ask(world, "add", by=5)
        hung = await ask(world, "hang")
        assert hung.error_kind == "timeout"
        assert error_of(hung) == f"hang: raw gave no answer within 0.3 s; {STATE_IS_LOST}"
        assert (await ask(world, "add")).content == '{"count": 1}'


async def test_time_limit_of_a_server_stands_before_the_general_one() -> None:
    async with opened(load(raw=raw_entry(timeout=0.2)), timeout=30.0) as world:
        assert "within 0.2 s" in error_of(await ask(world, "hang"))


async def test_server_that_reads_nothing_more_costs_its_own_call() -> None:
    async with opened_raw(timeout=1.0) as world:
        deaf = await ask(world, "deaf")
        assert deaf.error_kind in ("timeout", "crash")
        assert (await ask(world, "echo", text="x" * 100_000)).content == "x" * 100_000


async def test_dying_server_costs_the_call_and_says_that_its_state_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async with opened_raw() as world:
        await ask(world, "add", by=5)
        died = await ask(world, "die")
        assert died.error_kind == "crash"
        assert error_of(died) == f"die: raw ended with exit code 3; {STATE_IS_LOST}"
        assert (await ask(world, "add")).content == '{"count": 1}'
    assert "the floor gave way" in caplog.text, "its last words are in the log"


async def test_calls_behind_a_deadly_one_in_the_same_message_are_answered() -> None:
    async with opened_raw() as world:
        calls = [Invocation("a", "add", {}), Invocation("b", "die", {}), Invocation("c", "add", {})]
        first, deadly, after = await world.call(calls)
    assert (first.content, deadly.error_kind, after.content) == ('{"count": 1}', "crash", '{"count": 1}')
    assert [first.call_id, deadly.call_id, after.call_id] == ["a", "b", "c"]


async def test_server_that_died_between_two_calls_is_told_of_not_papered_over() -> None:
    async with opened_raw() as world:
        pid = await _pid(world, "pid")
        assert (await ask(world, "die_after")).content == "goodbye"
        await asyncio.to_thread(_wait_until_gone, pid)
        late = await ask(world, "add")
        assert error_of(late) == f"add: raw ended with exit code 4; {STATE_IS_LOST}"
        assert (await ask(world, "add")).content == '{"count": 1}'


async def test_stateless_server_that_died_is_simply_started_again() -> None:
    async with opened_raw(stateless=True) as world:
        pid = await _pid(world, "pid")
        await ask(world, "die_after")
        await asyncio.to_thread(_wait_until_gone, pid)
        while (result := await ask(world, "echo", text="again")).is_error:
            assert STATE_IS_LOST not in result.content
        assert result.content == "again"


async def test_stateless_server_that_ended_by_itself_leaves_nothing_behind() -> None:
    async with opened_raw(stateless=True) as world:
        pid = await _pid(world, "pid")
        before = len(asyncio.all_tasks())
        child = psutil.Process(int((await ask(world, "leave_behind")).content))
        await asyncio.to_thread(_wait_until_gone, pid)
        while (await ask(world, "echo", text="again")).is_error:
            pass
        async with asyncio.timeout(30):
            while _is_alive(child) or len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)


async def test_hanging_call_of_one_episode_leaves_those_of_others_on_a_shared_server_alone(tmp_path: Path) -> None:
    servers = load(raw=raw_entry(stateless=True))
    try:
        async with opened(servers, timeout=0.5) as hasty, opened(servers) as patient:
            waiting = asyncio.create_task(ask(patient, "meet", text=str(tmp_path / "a")))
            assert (await ask(hasty, "hang")).error_kind == "timeout"
            assert (await ask(hasty, "echo", text="on")).content == "on"
            (tmp_path / "b").touch()
            assert (await waiting).content == "met b"
    finally:
        await servers.close()


@pytest.mark.parametrize("tool", ["endless_line", "endless_lines", "endless_stderr", "endless_notices"])
async def test_flood_is_stopped_and_costs_its_own_call(tool: str) -> None:
    async with opened_raw(timeout=60.0) as world:
        before = psutil.Process().memory_info().rss
        flooded = await ask(world, tool)
        assert flooded.error_kind == "crash"
        assert " more than " in error_of(flooded)
        assert psutil.Process().memory_info().rss - before < 200 * 1024 * 1024
        assert (await ask(world, "add")).content == '{"count": 1}'


async def test_long_result_is_cut_with_a_mark_and_one_beyond_all_bounds_is_an_error() -> None:
    async with opened_raw(max_result_chars=1000) as world:
        assert (await ask(world, "huge", by=1000)).content == "x" * 1000
        cut = await ask(world, "huge", by=2_000_000)
        assert cut.content == "x" * 1000 + "\n[cut here: these are the first 1,000 of 2,000,000 characters]"
        assert "more than 8,388,608 bytes" in error_of(await ask(world, "huge", by=9_000_000))
        assert (await ask(world, "echo", text="on")).content == "on"


async def test_tools_stay_what_they_were_when_the_run_began(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mood = tmp_path / "mood"
    servers = load(raw=raw_entry("--moody", str(mood)))
    told = servers.toolset.wire
    mood.touch()
    async with opened(servers) as world:
        assert (await ask(world, "echo", text="hello")).content == "hello"
    assert servers.toolset.wire == told
    assert "MCP server 'raw' offers other tools than when the run began (gone: add, " in caplog.text


# ---- the beginning and the end ----------------------------------------------------------------------------------


def test_server_that_does_not_start_is_reported_with_its_last_words_and_no_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            broken=raw_entry("--refuse", env={"VAULT_KEY": "sk-123456789"}),
            late=raw_entry("--late", start_timeout=4),
            nowhere={"command": "no-such-program"},
            closed={"url": "http://127.0.0.1:9/mcp"},
            good=raw_entry(),
        )
    text = str(caught.value)
    assert "datasets.d.mcpServers.broken: the server ended with exit code 3 before it was ready; it said:" in text
    assert "cannot open the vault with «secret»" in text
    assert "datasets.d.mcpServers.late: the server was not ready after 4 s; it said:\n    warming up" in text
    assert "datasets.d.mcpServers.nowhere: the server cannot be started: there is no program 'no-such-program'" in text
    assert "datasets.d.mcpServers.closed: the server cannot be reached: " in text
    assert "mcpServers.good" not in text


async def test_server_that_stops_starting_fails_the_episode_not_the_call(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(Path(raw_entry()["args"][0]).read_text())
    servers = load(raw={"command": sys.executable, "args": [str(script)]})
    script.write_text("raise SystemExit(9)")
    async with opened(servers) as world:
        with pytest.raises(WorldError, match="MCP server 'raw' ended with exit code 9 before it was ready"):
            await ask(world, "echo", text="x")


async def test_closing_ends_the_processes_whatever_they_do() -> None:
    world = McpWorld(load(raw=raw_entry()), 30.0)
    await world.open(Task(id="t"), 1)
    pid = await _pid(world, "pid")
    hanging = asyncio.create_task(ask(world, "hang"))
    await asyncio.sleep(0)
    hanging.cancel()
    await asyncio.wait([hanging])
    await world.close()
    assert not psutil.pid_exists(pid)
    await world.close()


async def test_closing_a_world_that_is_still_starting_leaves_nothing_behind() -> None:
    world = McpWorld(load(raw=raw_entry()), 30.0)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    await world.open(Task(id="t"), 1)
    await world.close()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    never = McpWorld(load(raw=raw_entry()), 30.0)
    await never.close()


KILLED = """
import asyncio, logging, sys
from tests.servers.mcp_config import ask, load, raw_entry
from rollout.core.task import Task
from rollout.environments.mcp.world import McpWorld

async def main():
    world = McpWorld(load(raw=raw_entry()), 60.0)
    await world.open(Task(id="t"), 1)
    print((await ask(world, "pid")).content, flush=True)
    await ask(world, sys.argv[1])

asyncio.run(main())
"""


@pytest.mark.parametrize("tool", ["hang", "deaf"])
def test_servers_die_with_us_even_when_we_are_killed(tool: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    engine = subprocess.Popen([sys.executable, "-c", KILLED, tool], stdout=subprocess.PIPE, env=environment)
    try:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        assert psutil.pid_exists(pid)
        engine.send_signal(signal.SIGKILL)
        _wait_until_gone(pid)
    finally:
        engine.kill()
        engine.communicate()


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _wait_until_gone(pid: int) -> None:
    """Looks again and again: waiting for it would take its exit code away from its parent, which may be us."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rollout")
