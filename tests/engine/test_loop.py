"""The loop: turns, steps, modes, error observations, stop reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
DONE = {"reply": {"content": "All done."}}


def calls(*asked: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in asked]}


async def run_script(
    rules: list[dict[str, Any]], config_changes: dict[str, Any] | None = None, **dataset: Any
) -> dict[str, Any]:
    """One conversation against a scripted server; its line."""
    tasks = dataset.pop("tasks", None) or write_tasks(Path("tasks.jsonl"), "Hello, please help.")
    async with StubServer({"rules": rules}, keep_requests=True) as stub:
        config = {**stub_config(stub.url, tasks, **dataset), **(config_changes or {})}
        await roll_out(config)
        line = read_lines(OUT)[0] if OUT.stat().st_size else read_lines(Path("run/failed.jsonl"))[0]
        line["sent"] = stub.requests
        return line


def observations(line: dict[str, Any]) -> list[str]:
    return [message["content"] for message in line["messages"] if message["role"] == "tool"]


async def test_single_turn_ends_when_the_agent_answers() -> None:
    line = await run_script([{"when": {"step": 0}, "reply": calls(("echo", {"text": "x"}))}, DONE])
    assert line["success"] is True
    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "tool", "assistant"]
    metadata = line["metadata"]
    assert (metadata["total_turns"], metadata["stop_reason"], metadata["tool_call_count"]) == (1, "agent_done", 1)
    assert (metadata["status"], metadata["scored"]) == ("completed", False)
    assert metadata["usage"]["agent"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("asked", "kind", "told"),
    [
        (("echo", '{"text": "cut off'), "bad_arguments", "not valid JSON"),
        (("echo", '"just text"'), "bad_arguments", "must be a JSON object"),
        (("echo", {}), "bad_arguments", '"text" is a required property'),
        (("echo", {"text": 7}), "bad_arguments", "text: 7 is not of type"),
        (("ecko", {"text": "x"}), "unknown_tool", "Did you mean 'echo'?"),
        (("zzz.echo", {"text": "x"}), "unknown_tool", "There is no tool 'zzz.echo'"),
        (("boom", {"text": "x"}), "crash", "RuntimeError: no x today"),
        (("slow", {"text": "x"}), "timeout", "no answer within"),
    ],
)
async def test_what_goes_wrong_with_a_call_becomes_an_observation(asked: tuple[str, Any], kind: str, told: str) -> None:
    line = await run_script(
        [{"when": {"step": 0}, "reply": calls(asked)}, DONE],
        {"timeouts": {"tool": 0.02}},
        tools=["tests.tools:echo", "tests.tools:boom", "tests.tools:slow"],
    )
    (observation,) = observations(line)
    assert told in json.loads(observation)["error"]
    assert line["metadata"]["tool_errors"] == {kind: 1}
    assert line["metadata"]["status"] == "completed", "the agent could go on"
    assert line["sent"][-1]["messages"][-1]["content"] == observation, "the agent was shown it"


async def test_one_bad_call_among_good_ones_is_answered_in_its_place() -> None:
    asked = calls(("echo", {"text": "a"}), ("nothing", {}), ("echo", {"text": "c"}))
    line = await run_script([{"when": {"step": 0}, "reply": asked}, DONE])
    first, second, third = observations(line)
    assert (first, third) == ("echo: a", "echo: c")
    assert "no tool 'nothing'" in second


async def test_steps_of_a_turn_are_limited_and_the_record_ends_with_answers() -> None:
    line = await run_script([{"reply": calls(("echo", {"text": "again"}))}], max_steps_per_turn=3)
    assert (line["metadata"]["stop_reason"], line["metadata"]["status"]) == ("max_steps", "truncated")
    assert line["metadata"]["generations"] == 3
    assert line["messages"][-1]["role"] == "tool"
    assert line["success"] is False


async def test_turns_are_limited_and_no_unanswered_user_message_hangs_at_the_end() -> None:
    rules = [{"when": {"model": "user"}, "reply": {"content": "And another thing."}}, DONE]
    line = await run_script(rules, user={"model": "user"}, max_turns=3)
    assert (line["metadata"]["stop_reason"], line["metadata"]["total_turns"]) == ("max_turns", 3)
    assert line["messages"][-1]["role"] == "assistant"


async def test_user_who_is_satisfied_in_the_last_turn_still_completes_it() -> None:
    rules = [{"when": {"model": "user"}, "reply": {"content": "Thanks! ###STOP###"}}, DONE]
    line = await run_script(rules, user={"model": "user"}, max_turns=2)
    assert (line["metadata"]["stop_reason"], line["metadata"]["status"], line["success"]) == (
        "user_stop",
        "completed",
        True,
    )
    assert line["messages"][-1] == {"role": "user", "content": "Thanks!"}


@pytest.mark.parametrize(
    ("token", "reason"),
    [("###STOP###", "user_stop"), ("###TRANSFER###", "user_transfer"), ("###OUT-OF-SCOPE###", "user_out_of_scope")],
)
async def test_bare_stop_token_ends_without_a_user_message(token: str, reason: str) -> None:
    line = await run_script(
        [{"when": {"model": "user"}, "reply": {"content": token}}, DONE], user={"model": "user"}, max_turns=5
    )
    assert line["metadata"]["stop_reason"] == reason
    assert line["messages"][-1]["role"] == "assistant"
    assert "###" not in json.dumps(line["messages"])


async def test_user_model_never_sees_tools_tool_results_or_reasoning() -> None:
    rules = [
        {"when": {"model": "user", "turn": {"min": 2}}, "reply": {"content": "Bye ###STOP###"}},
        {"when": {"model": "user"}, "reply": {"content": "Go on."}},
        {"when": {"step": 0}, "reply": {**calls(("echo", {"text": "hush"})), "reasoning": "secret plan"}},
        {"reply": {"content": "Here you are.", "reasoning": "secret plan"}},
    ]
    line = await run_script(rules, user={"model": "user"}, max_turns=5)
    to_user = [request for request in line["sent"] if request["model"] == "user"]
    assert len(to_user) == 2
    for request in to_user:
        assert "tools" not in request
        text = json.dumps(request)
        assert "hush" not in text
        assert "secret plan" not in text
        assert {message["role"] for message in request["messages"]} == {"system", "user", "assistant"}
    assert to_user[0]["messages"][-1] == {"role": "user", "content": "Here you are."}
    assert to_user[0]["messages"][1] == {"role": "assistant", "content": "Hello, please help."}


async def test_mode_no_tool_offers_none_in_several_turns_too() -> None:
    rules = [
        {"when": {"model": "user", "turn": {"min": 2}}, "reply": {"content": "Bye ###STOP###"}},
        {"when": {"model": "user"}, "reply": {"content": "Really?"}},
        {"reply": {"content": "I cannot do that without tools."}},
    ]
    line = await run_script(rules, user={"model": "user"}, max_turns=4, mode="no_tool")
    assert all("tools" not in request for request in line["sent"])
    assert line["success"] is True
    assert line["metadata"]["scores"][0]["name"] == "abstention"


async def test_mode_wrong_tool_offers_the_tasks_own_tools_and_scores_restraint() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    task = {"id": "w", "messages": [{"role": "user", "content": "Book a flight."}], "tools": [tool]}
    tasks = write_tasks(Path("tasks.jsonl"), task)
    line = await run_script(
        [{"when": {"step": 0}, "reply": calls(("weather", {}))}, DONE], mode="wrong_tool", tasks=tasks
    )
    assert [entry["function"]["name"] for entry in line["sent"][0]["tools"]] == ["weather"]
    assert line["success"] is False
    assert line["metadata"]["scored"] is True


async def test_context_that_no_longer_fits_truncates() -> None:
    line = await run_script(
        [{"when": {"step": 0}, "reply": calls(("echo", {"text": "x"}))}, {"fault": "context_length"}, DONE]
    )
    assert (line["metadata"]["stop_reason"], line["metadata"]["status"]) == ("context_length", "truncated")


async def test_episode_deadline_truncates() -> None:
    line = await run_script(
        [{"when": {"step": 0}, "reply": calls(("slow", {"text": "x"}))}, DONE],
        {"timeouts": {"tool": 60, "episode": 0.2}},
        tools=["tests.tools:slow"],
    )
    assert (line["metadata"]["stop_reason"], line["metadata"]["status"]) == ("deadline", "truncated")


async def test_reasoning_is_cleared_from_the_context_at_a_user_turn_but_saved_whole() -> None:
    rules = [
        {"when": {"model": "user", "turn": {"min": 2}}, "reply": {"content": "Bye ###STOP###"}},
        {"when": {"model": "user"}, "reply": {"content": "And then?"}},
        {"when": {"step": 0}, "reply": {**calls(("echo", {"text": "x"})), "reasoning": "I call echo"}},
        {"reply": {"content": "Answer.", "reasoning": "I answer"}},
    ]
    line = await run_script(rules, user={"model": "user"}, max_turns=4)
    to_agent = [request["messages"] for request in line["sent"] if request["model"] == "agent"]
    assert to_agent[1][1]["reasoning_content"] == "I call echo", "within the turn it is sent back"
    assert all("reasoning_content" not in message for message in to_agent[2]), "at the next user message it is gone"
    saved = [message.get("reasoning_content") for message in line["messages"] if message["role"] == "assistant"]
    assert saved == ["I call echo", "I answer"] * 2
    assert line["metadata"]["reasoning"] == {"rule": "clear_on_user_turn", "present": True}


async def test_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    config = {
        "seed": 3,
        "datasets": {
            "d": {
                "mcp_domain": "StudentAcademicPortal",
                "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.3}},
                "user": "builtin/user",
                "max_turns": 9,
                "output_path": "out.jsonl",
                "limit": 10,
            }
        },
    }

    async def once(run: str, seed: int) -> dict[str, Any]:
        OUT.unlink(missing_ok=True)
        await roll_out({**config, "seed": seed}, Path(run))
        return {line["id"]: line["messages"] for line in read_lines(OUT)}

    first, again, other = await once("a", 3), await once("b", 3), await once("c", 4)
    assert first == again
    assert first != other


async def test_monitor_ends_a_conversation_without_tools_with_its_own_reason() -> None:
    rules = [
        {"when": {"model": "user"}, "reply": {"content": "Hm, {turn}."}},
        {"reply": {"content": "Let me think {turn}."}},
    ]
    changes = {"enable_monitor": True, "monitor_max_no_tool_turns": 1}
    line = await run_script(rules, changes, user={"model": "user"}, max_turns=9)
    assert (line["metadata"]["stop_reason"], line["metadata"]["total_turns"]) == ("monitor_no_tool_turns", 1)


async def test_monitors_judge_ends_it_and_a_judge_who_says_nothing_does_not() -> None:
    rules = [
        {"when": {"model": "judge", "contains": "third"}, "reply": {"content": "COMPLETE"}},
        {"when": {"model": "judge"}, "reply": {"content": "Well, who knows."}},
        {"when": {"model": "user", "turn": {"min": 2}}, "reply": {"content": "third"}},
        {"when": {"model": "user"}, "reply": {"content": "second"}},
        {"reply": {"content": "Answer {turn}."}},
    ]
    tasks = write_tasks(Path("tasks.jsonl"), "Hello.")
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, tasks, user={"model": "user"}, max_turns=9)
        config |= {"enable_monitor": True, "monitor_max_no_tool_turns": 0, "monitor_use_llm_judge": True}
        config |= {"monitor_judge_model": "judge"}
        config["models"]["judge"] = {"api_base": stub.url}
        await roll_out(config)
    (line,) = read_lines(OUT)
    assert (line["metadata"]["stop_reason"], line["metadata"]["total_turns"]) == ("monitor_judge", 3)
    assert line["metadata"]["unjudged"] == 2


async def test_scripted_user_says_its_list_and_then_it_is_over() -> None:
    line = await run_script(
        [{"reply": {"content": "Yes {turn}."}}], user={"kind": "scripted", "messages": ["two", "three"]}, max_turns=9
    )
    said = [message["content"] for message in line["messages"] if message["role"] == "user"]
    assert said == ["Hello, please help.", "two", "three"]
    assert line["metadata"]["stop_reason"] == "script_end"


async def test_a_limit_in_dollars_without_a_price_is_told(stub: StubServer, caplog: pytest.LogCaptureFixture) -> None:
    path = write_tasks(Path("tasks.jsonl"), "Hello")
    config = {**stub_config(stub.url, path), "max_cost": 1.0}
    await roll_out(config)
    assert "data: max_cost: the price of agent is unknown" in caplog.text
    caplog.clear()
    config["models"]["agent"]["output_cost_per_token"] = 1e-6
    await roll_out(config, Path("priced"))
    assert "nobody knows" not in caplog.text


async def test_budget_pauses_the_run_and_more_money_goes_on() -> None:
    tasks = write_tasks(Path("tasks.jsonl"), *(f"Question {n}" for n in range(8)))
    async with StubServer() as stub:
        config = stub_config(stub.url, tasks)
        config["models"]["agent"] |= {"input_cost_per_token": 0.001, "output_cost_per_token": 0.002}
        config |= {"max_workers": 1, "max_cost": 1.0}
        opened = await roll_out(config)
        assert opened.summary is not None
        assert opened.engine.control.reason == "max_cost"
        assert opened.summary.total.unfinished > 0
        spent = opened.engine.control.cost
        assert 1.0 <= spent < 1.5
        opened = await roll_out({**config, "max_cost": 1000.0})
    assert opened.summary is not None
    assert (opened.summary.total.finished, opened.summary.total.unfinished) == (8, 0)
    assert opened.summary.total.cost == pytest.approx(sum(line["metadata"]["cost"] for line in read_lines(OUT)))


async def test_every_launched_attempt_is_accounted_for() -> None:
    tasks = write_tasks(Path("tasks.jsonl"), *(f"Question {n}" for n in range(12)))
    rules = [
        {"when": {"contains": "Question 3"}, "fault": {"kind": "status", "status": 403, "times": "always"}},
        {"when": {"contains": "Question 5"}, "fault": {"kind": "context_length", "times": "always"}},
    ]
    async with StubServer({"rules": rules}) as stub:
        opened = await roll_out(stub_config(stub.url, tasks))
    assert opened.summary is not None
    total = opened.summary.total
    assert sum(total.statuses.values()) == total.planned == 12
    assert sum(total.stop_reasons.values()) == 12
    assert total.statuses == {"completed": 10, "truncated": 1, "failed": 1}
    assert total.success_rate == pytest.approx(10 / 11), "a failure of infrastructure is no zero"
    assert json.loads(Path("run/metrics.json").read_text())["total"]["statuses"] == total.statuses


async def test_exported_prompt_is_byte_for_byte_what_the_model_was_sent() -> None:
    async with StubServer(keep_requests=True) as stub:
        config = stub_config(stub.url, Path("unused"))
        config["datasets"]["data"] = {
            "mcp_domain": "StudentAcademicPortal",
            "output_path": "out.jsonl",
            "limit": 1,
            "agent": {"model": "agent"},
        }
        await roll_out(config)
        (line,) = read_lines(OUT)
        blob = json.loads((Path("run/blobs") / f"{line['metadata']['prompt']}.json").read_text())
        sent = stub.requests[0]
    assert blob["system"] == sent["messages"][0]["content"]
    assert blob["tools"] == sent["tools"]
    called = {call["function"]["name"] for message in line["messages"] for call in message.get("tool_calls", [])}
    assert called <= {tool["function"]["name"] for tool in sent["tools"]}
