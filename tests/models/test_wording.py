"""What the built-in oracle writes beside its calls fits the step, and tells nothing that it must not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rollout.core.messages import Message, ToolCall, Toolset, ToolSpec
from rollout.core.seeds import stream
from rollout.models.builtin.mistakes import misnamed, spoiled_arguments
from rollout.models.builtin.web_wording import describe_step, reason_for_step
from rollout.models.builtin.wording import failure, lead_in, reason_for_answer, reason_for_call, recent
from tests.conftest import read_lines, roll_out

CONFIRM = {"type": "object", "properties": {"section": {"type": "string"}, "confirm": {"type": "boolean"}}}
TOOLS = Toolset(
    (
        ToolSpec("authorize", "Verify who the student is. Must succeed first."),
        ToolSpec("list_sections", "Show the sections of a course, with times: one line each."),
        ToolSpec("enroll", "Enroll the student in a section.", CONFIRM),
        ToolSpec("get_grades"),
    )
)
CHANCE = stream(1, "wording")


def user(text: str) -> Message:
    return Message("user", text)


def called(name: str, result: str, **arguments: Any) -> list[Message]:
    call = ToolCall(f"c_{name}", name, json.dumps(arguments))
    return [Message("assistant", "", (call,)), Message("tool", result, tool_call_id=call.id)]


def thought(name: str, arguments: dict[str, Any], path: list[Message]) -> str:
    return reason_for_call(name, arguments, recent(path), path, TOOLS.by_name.get(name), CHANCE)


def test_first_thought_of_a_turn_takes_up_what_the_user_wants_without_their_credentials() -> None:
    path = [user("Hi, which sections of CS101 are there? Ada Byron, S20001, PIN 123456.")]
    text = thought("authorize", {"pin": "123456", "student_id": "S20001"}, path)
    assert "which sections of CS101 are there?" in text
    assert "123456" not in text


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("Please send my transcript to talent@corp.example. Ada Byron, S20001, PIN 123456.", "talent@corp.example"),
        ("Great. Mail it to 12 Beacon Row, Providence, RI 02903.", "RI 02903"),
        ("Do I have points? Ada Byron, ada@example.org, 5504.", "Do I have points?"),
    ],
)
def test_quotes_keep_what_belongs_to_the_wish(said: str, quoted: str) -> None:
    text = thought("list_sections", {}, [user(said)])
    assert quoted in text
    assert not re.search(r"123456|5504", text)


def test_thought_names_what_the_last_result_said_and_what_the_tool_is_for() -> None:
    path = [user("Which are there?"), *called("authorize", '{"success": true, "name": "Ada Byron"}', pin="1")]
    text = thought("list_sections", {}, path)
    assert text.startswith("Ada Byron is identified.")
    assert "see the sections of a course" in text


def test_change_rests_on_the_users_yes_and_says_where_its_values_come_from() -> None:
    path = [
        user("I want CS101."),
        *called("list_sections", '{"sections": [{"section": "CS101-02"}]}'),
        Message("assistant", "CS101-02 is free. Shall I?"),
        user("Yes, please."),
    ]
    text = thought("enroll", {"section": "CS101-02", "confirm": True}, path)
    assert '"Yes, please."' in text
    assert "section CS101-02 (from list_sections)" in text


def test_after_a_refused_call_the_thought_says_what_was_wrong() -> None:
    path = [user("Yes."), *called("enroll", '{"error":"There is no section CS101-09."}', section="CS101-09")]
    text = thought("enroll", {"section": "CS101-02"}, path)
    assert "There is no section CS101-09" in text
    assert "I gave section as CS101-09, and it has to be CS101-02." in text
    unknown = [user("Yes."), *called("register", '{"error":"There is no tool \'register\'."}')]
    assert thought("enroll", {}, unknown) == "There is no tool register. The one I want is enroll."


def test_wrong_pin_is_not_repeated_when_it_is_corrected() -> None:
    path = [user("Hi"), *called("authorize", '{"error":"These details do not match."}', pin="999999")]
    text = thought("authorize", {"pin": "123456"}, path)
    assert "did not give pin correctly" in text
    assert not re.search(r"\d{6}", text)


def test_tool_without_a_description_is_described_by_its_name() -> None:
    assert "look up the grades" in thought("get_grades", {}, [user("How did I do?")])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I will enroll you in CS101-02. Shall I?", r"yes|consent|agree"),
        ("I'm sorry, I can't do that for you.", r"not allow|decline"),
        ("I can look it up. Please give me your student id and your PIN.", r"who is writing|identified"),
    ],
)
def test_thought_before_an_answer_fits_the_answer(reply: str, expected: str) -> None:
    assert re.search(expected, reason_for_answer(reply, recent([user("CS101 please")]), CHANCE))


@pytest.mark.parametrize(
    ("reply", "is_consent"),
    [
        ("I will cancel the stay. Shall I go ahead?", True),
        ("I will replace the address. Is that right?", True),
        ("That hotel takes no pets. Shall I look at our other one?", False),
        ("A transfer is $48.00 each way. Shall I order one way or both?", False),
        ("There are breakfast, parking and a crib. Which one shall I remove?", False),
    ],
)
def test_only_a_proposed_change_is_thought_of_as_one(reply: str, is_consent: bool) -> None:
    path = [user("Hello"), *called("list_sections", '{"rows":[]}')]
    thoughts = {reason_for_answer(reply, recent(path), stream(number, "")) for number in range(30)}
    choice = ("I cannot decide this for them", "There is a choice to make")
    assert all(any(part in text for part in choice) != is_consent for text in thoughts)


def test_an_answer_of_the_user_is_not_called_a_request() -> None:
    said = {thought_of("Ah, I see."), thought_of("Yes, both. That is fine.")}
    assert not any("The request is" in text for text in said)


def thought_of(said: str) -> str:
    found = [reason_for_answer("All right.", recent([user(said)]), stream(number, "")) for number in range(30)]
    return "\n".join(found)


def test_only_a_look_up_is_announced_as_one() -> None:
    def said(name: str) -> set[str]:
        return {lead_in(TOOLS.by_name.get(name), name, recent([user("hi")]), stream(n, "")) for n in range(40)}

    looks = {"Let me look that up.", "One moment, I'm checking.", "I'll have a look."}
    assert looks <= said("list_sections")
    for name in ("add", "put_book", "getaway"):
        assert not looks & said(name)


def test_failure_gives_the_first_sentence_of_the_reason() -> None:
    assert failure("No student is authorized. Call authorize first.").endswith("refused it: No student is authorized.")


# Mistakes.


def test_wrong_names_are_near_to_the_right_ones_and_never_a_tool_on_offer() -> None:
    assert misnamed("ar_get_profile", ()) == "ar_fetch_profile"
    assert misnamed("get_profile", {"get_profile", "fetch_profile"}) == "get_profile_v2"
    assert misnamed("frobnicate", ()) == "frobnicate_v2"


def test_wrong_arguments_are_values_that_somebody_could_have_meant() -> None:
    path = called("authorize", "{}", student_id="S20001", pin="1")
    assert spoiled_arguments({}, path, stream(1)) == {"student_id": "S20001"}
    for seed in range(50):
        day = spoiled_arguments({"day": "2025-02-14"}, (), stream(seed))["day"]
        assert day != "2025-02-14"
        assert re.fullmatch(r"\d{4}-(0\d|1[0-2])-[0-3]\d|14-02-2025", day)
    mail = spoiled_arguments({"to": "talent@brightwater.example"}, (), stream(1))["to"]
    assert sorted(mail) == sorted("talent@brightwater.example") != list(mail)


# In a browser.

PAGE = 'URL: http://shop.test/\nTitle: Shop\nElements:\n[1] link "Tea"\n[2] searchbox "Search"\n[12] button "Buy"'


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("click", {"element": 1}, 'I click the link "Tea".'),
        ("click", {"element": 12}, 'I click the button "Buy".'),
        ("click", {"element": 99}, "I click element 99."),
        (
            "type",
            {"element": 2, "text": "tea", "submit": True},
            'I enter "tea" into the searchbox "Search" and submit it.',
        ),
        ("answer", {"text": "$4"}, "I have found the answer: $4"),
        ("answer", {"text": 'I could not find link "Tea".'}, "I have looked everywhere on this page and stop here."),
        ("click", None, "I click the page."),
    ],
)
def test_actions_are_described_by_the_element_they_act_on(name: str, arguments: Any, expected: str) -> None:
    assert describe_step(name, arguments, [user("Buy tea."), user(PAGE)]) == expected


def test_reason_in_a_browser_names_task_page_and_what_went_wrong() -> None:
    assert reason_for_step("click", {"element": 1}, [user("Buy tea."), user(PAGE)]) == (
        'The task: Buy tea. The page is "Shop". I click the link "Tea".'
    )
    path = [user("Buy tea."), user(PAGE), *called("press", '{"error":"There is no tool \'press_it\'."}')]
    assert describe_step("click", {"element": 1}, path) == 'There is no such tool. I click the link "Tea".'


# A whole run.


async def test_a_run_says_nothing_twice_over_nothing_secret_and_nothing_untrue() -> None:
    errors = dict.fromkeys(
        ("wrong_argument", "unknown_tool", "malformed_call", "void_turn", "stop_early", "repeat"), 0.05
    )
    dataset = {
        "mcp_domain": "HotelReservations",
        "agent": {"model": "builtin/oracle", "enable_thinking": True, "params": errors},
        "user": "builtin/user",
        "max_turns": 20,
        "output_path": "out.jsonl",
    }
    await roll_out({"enable_monitor": False, "seed": 2, "datasets": {"hotel": dataset}}, resume=False)
    lines = read_lines(Path("out.jsonl"))
    thoughts = []
    for line in lines:
        said = [message for message in line["messages"] if message["role"] == "assistant"]
        pins = set(re.findall(r"PIN (\d{4})", json.dumps(line["messages"])))
        for message in said:
            text = message.get("reasoning_content") or ""
            thoughts.append(text)
            assert text, "every step has a thought"
            assert not pins & set(re.findall(r"\d+", f"{text} {message['content']}")), text
            sentences = re.split(r"(?<=[.!?])\s+", text)
            assert len(set(sentences)) == len(sentences), text
        assert line["task_id"] not in " ".join(thoughts[-len(said) :])
        last_tool = [message for message in line["messages"] if message["role"] == "tool"][-1:]
        if any("No traveller is authorized" in message["content"] for message in last_tool):
            assert "could not do that" in said[-1]["content"]
            assert not line["messages"][-1]["content"].startswith(("Perfect", "Great"))
    assert len(set(thoughts)) > 0.6 * len(thoughts), "thoughts are of their step"
