"""A line of a run in browsers as WebGym's list of steps."""

from __future__ import annotations

from rollout.agents.text_calls import read_answer
from rollout.core.messages import Message, ToolCall
from rollout.environments.web.steps import steps_of
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.saved import read_saved
from tests.trajectories.web_lines import TASK, answered, page, picture, refusal, says, web_line, with_errors


def test_each_answer_of_the_agent_is_a_step_with_what_it_saw_before() -> None:
    line = web_line(
        says("click", "a", content="Memory: none yet\nIntention: open the cup\nAction: click Buy", element=1),
        page("cup", call="a"),
        says("answer", "b", reasoning="That is it.", text="bought"),
        Message(role="tool", content="taken down", tool_call_id="b"),
        success=True,
        scores=[{"name": "checks", "value": 1.0, "reason": "the cart holds it"}],
    )
    first, last = steps_of(line, TASK.info)
    assert first["observation"]["task"]["task_name"] == "Buy the red cup"
    assert first["observation"]["task"]["evaluator_reference"][0]["description"] == "the cup is in the cart"
    assert first["observation"]["page_metadata"] == {"title": "Shop ", "url": "http://shop.test/"}
    assert first["observation"]["image_path"] == f"blobs/{picture('')}"
    assert '[1] button "Buy"' in first["observation"]["ac_tree"]
    assert first["action"] == {
        "action": {"key": "click", "arguments": {"element": 1}},
        "action_string": "click(element=1)",
    }
    tokens = first["response"]["answering_tokens"]
    assert tokens["memory"] == "none yet"
    assert tokens["thought"] == "open the cup"
    assert tokens["action"] == "click Buy"
    assert tokens["observation"] == "The page changed. URL: http://shop.test/cup"
    assert first["reward"]["reward"] == 0
    assert last["observation"]["page_metadata"]["url"] == "http://shop.test/cup"
    assert last["action"]["action"] == {"key": "answer", "arguments": {"text": "bought"}}
    assert last["response"]["raw_response"] == (
        '<think>\nThat is it.\n</think>\n<tool_call>\n{"name": "answer", "arguments": {"text": "bought"}}\n</tool_call>'
    )
    assert last["reward"]["reward"] == 1
    assert last["reward"]["evaluation"] == "checks: the cart holds it"
    assert first["trajectory_metadata"]["trajectory_id"] == "shop-1"
    assert "trajectory_metadata" not in last


def test_a_refused_action_leaves_the_page_and_its_screenshot_as_they_were() -> None:
    line = web_line(
        says("click", "a", element=9),
        refusal("a", "click: there is no element 9."),
        says("goback", "b"),
        page("", call="b"),
        says("click", "c", element=1),
        page("cup", call="c"),
        says("answer", "d", text=""),
    )
    steps = steps_of(line, TASK.info)
    assert [step["same_as_next_screenshot"] for step in steps] == [True, True, False, False]
    assert "there is no element 9" in steps[0]["response"]["answering_tokens"]["observation"]
    assert steps[1]["observation"]["page_metadata"]["url"] == "http://shop.test/"
    assert steps[1]["response"]["answering_tokens"]["observation"].startswith("The page did not change")


def test_an_error_that_moved_the_page_shows_the_new_one() -> None:
    line = web_line(
        says("goback", "a"), page("late", call="a", error="goback: no answer"), says("answer", "b", text="")
    )
    assert steps_of(line, TASK.info)[1]["observation"]["page_metadata"]["url"] == "http://shop.test/late"


def test_an_empty_answer_is_no_action_also_where_calls_are_written_as_text() -> None:
    empty = read_answer(Message(role="assistant", content=""), None, must_call=True)
    words = read_answer(Message(role="assistant", content="<tool_call>{"), None, must_call=True)
    line = web_line(empty, refusal(empty.tool_calls[0].id, "…", "malformed_call"), words)
    steps = steps_of(with_errors(line, {3: "malformed_call"}), TASK.info)
    assert [step["action"]["action"]["key"] for step in steps] == ["none", "invalid_step"]


def test_calls_that_cannot_be_read_are_invalid_steps_and_keep_what_was_written() -> None:
    broken = Message(role="assistant", tool_calls=(ToolCall("b", "click", '{"element": '),))
    line = web_line(
        says("left_click", "a", x=1),
        refusal("a", "There is no tool 'left_click'.", "unknown_tool"),
        broken,
        refusal("b", "click: the arguments are not valid JSON", "bad_arguments"),
        Message(role="assistant", content="I would click."),
        says("click", "d", element=0),
        refusal("d", "click: element: 0 is less than 1", "bad_arguments"),
        Message(role="assistant"),
    )
    errors = {3: "unknown_tool", 5: "bad_arguments", 8: "bad_arguments"}
    steps = steps_of(with_errors(line, errors), TASK.info)
    assert [step["action"]["action"]["key"] for step in steps] == [*["invalid_step"] * 4, "none"]
    assert steps[0]["action"]["action"]["arguments"] == {"name": "left_click", "arguments": {"x": 1}}
    assert steps[1]["action"]["action"]["arguments"]["arguments"] == {"malformed_arguments": '{"element": '}
    assert steps[2]["action"]["action"]["arguments"] == {"text": "I would click."}
    by_itself = [step["action"]["action"]["key"] for step in steps_of(line, TASK.info)]
    assert by_itself == ["invalid_step", "invalid_step", "invalid_step", "click", "none"]


def test_a_drag_is_an_action() -> None:
    line = web_line(says("drag", "a", element=1, to_element=2), page("p", call="a"))
    assert [step["action"]["action"]["key"] for step in steps_of(line)] == ["drag"]


def test_what_the_agent_said_before_the_task_began_is_no_step_of_its() -> None:
    earlier = (Message(role="user", content="Hello."), says("click", "x", element=9), page("p", call="x"))
    messages = (*earlier, Message(role="user", content="Buy it."), page("cup", role="user"))
    answer = (says("answer", "a", text="42"), Message(role="tool", content="taken down", tool_call_id="a"))
    head = Head("t", "t", True, {"status": "completed", "scored": True, "view": {"opening": 4}})
    line = read_saved(encode_line(head, (*messages, *answer)))
    (step,) = steps_of(line, prompts=["what was sent"])
    assert step["action"]["action"]["key"] == "answer"
    assert step["response"]["raw_prompt"] == "what was sent"
    assert step["observation"]["page_metadata"]["url"] == "http://shop.test/cup"


def test_several_calls_of_one_answer_are_one_step_with_the_last_as_its_key() -> None:
    calls = (ToolCall("a", "type", '{"element": 2, "text": "x"}'), ToolCall("b", "press", '{"key": "Enter"}'))
    line = web_line(
        Message(role="assistant", tool_calls=calls),
        Message(role="tool", content="Done. URL: http://shop.test/", tool_call_id="a"),
        page("found", call="b"),
        says("answer", "c", text=""),
    )
    step = steps_of(line, TASK.info)[0]
    assert step["action"]["action"]["key"] == "press"
    assert [call["key"] for call in step["action"]["calls"]] == ["type", "press"]
    assert step["action"]["action_string"] == 'type(element=2, text="x"); press(key="Enter")'


def test_a_failed_trajectory_keeps_its_steps_and_ends_with_an_error() -> None:
    error = {"kind": "model", "text": "the server is gone", "notes": []}
    line = web_line(
        says("click", "a", element=1), page("p", call="a"),
        status="failed", stop_reason="error", scored=False, error=error, unscored="the conversation failed",
    )  # fmt: skip
    clicked, ended = steps_of(line, TASK.info)
    assert clicked["action"]["action"]["key"] == "click"
    assert ended["action"]["action"] == {
        "key": "error",
        "arguments": {"error_type": "model", "error": "the server is gone"},
    }
    assert ended["observation"]["page_metadata"]["url"] == "http://shop.test/p"
    assert ended["reward"]["reward"] == -1
    assert "failed" in ended["reward"]["evaluation"]


def test_a_start_page_that_cannot_be_shown_is_an_invalid_url() -> None:
    def keys(kind: str) -> list[str]:
        error = {"kind": kind, "text": "the start page cannot be shown", "notes": []}
        line = web_line(status="failed", stop_reason="error", scored=False, error=error)
        unseen = read_saved(encode_line(line, TASK.messages))
        return [step["action"]["action"]["key"] for step in steps_of(unseen, TASK.info)]

    assert keys("navigation") == ["invalid_url"]
    assert keys("world") == ["error"], "no browser could be had: nothing is wrong with the address"


def test_what_was_cut_says_so_and_has_no_verdict() -> None:
    line = web_line(status="cut", stop_reason="cut", scored=False)
    (step,) = steps_of(line, TASK.info)
    assert step["action"]["action"]["arguments"]["error_type"] == "cut"
    assert step["reward"]["reward"] == -1


def test_blocking_and_the_screenshots_that_a_judge_saw_are_told() -> None:
    line = answered(
        False,
        1,
        scores=[
            {"name": "blocked", "value": 1.0, "reason": "a captcha"},
            {"name": "rubric", "value": 0.0, "reason": "not seen", "evidence": {"images": [picture("p0")]}},
        ],
    )
    steps = steps_of(line, TASK.info, prompts=['[{"role": "user"}]', None])
    assert [step["reward"]["submit"] for step in steps] == [False, True]
    assert steps[1]["reward"]["submission_judgment"] == "not seen"
    assert [step["reward"]["is_blocked"] for step in steps] == [False, True]
    assert steps[0]["response"]["raw_prompt"] == '[{"role": "user"}]'


def test_an_unscored_trajectory_is_pending_whatever_its_success_says() -> None:
    assert steps_of(answered(True, scored=False, unscored="nothing to check"), None)[-1]["reward"] == {
        "reward": -1,
        "evaluation": "No verdict: nothing to check",
        "is_blocked": False,
        "submit": False,
        "submission_judgment": None,
    }


def test_a_call_is_known_by_its_place_and_errors_of_the_world_are_no_invalid_steps() -> None:
    same = ToolCall("same", "click", '{"element": 1}')
    line = web_line(
        Message(role="assistant", tool_calls=(same, same)),
        refusal("same", "click: element: unexpected", "bad_arguments"),
        refusal("same", "click: the button is covered"),
        says("play_note", "same", note="C"),
        page("p", call="same"),
        says("goback", "open"),
    )
    kinds = {3: "malformed_call", 4: "tool"}
    first, second, unanswered = steps_of(with_errors(line, kinds))
    assert [call["key"] for call in first["action"]["calls"]] == ["invalid_step", "click"]
    assert second["action"]["action"] == {"key": "play_note", "arguments": {"note": "C"}}
    assert unanswered["action"]["action"]["key"] == "goback"


def test_the_whole_text_is_the_response_where_calls_and_reasoning_were_read_out_of_it() -> None:
    raw = 'I look.</think>Action: click\n<tool_call>{"name": "click", "arguments": {"element": 1}}</tool_call>'
    call = ToolCall("a", "click", '{"element": 1}')
    said = Message(role="assistant", content="Action: click", reasoning="I look.", tool_calls=(call,), raw=raw)
    no_call = Message(
        role="assistant", content="Hm.", tool_calls=(ToolCall("b", "malformed_call", '{"problem": "x"}'),)
    )
    first, second = steps_of(web_line(said, page("p", call="a"), no_call, refusal("b", "no call")))
    assert first["response"]["raw_response"] == raw
    assert first["response"]["answering_tokens"]["tool_call"].startswith("<tool_call>")
    assert first["response"]["answering_tokens"]["thinking"] == "I look."
    assert second["response"]["raw_response"] == "Hm."
    assert second["action"]["action"]["key"] == "invalid_step"
