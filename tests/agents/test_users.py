"""Simulated users: what they say, what is taken out of it, and what is noticed about them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.agents.users.faults import (
    CONFIRMED_AND_LEFT,
    REPEATED,
    SPOKE_AS_ASSISTANT,
    TOLD_UNKNOWN,
    check_reply,
)
from rollout.agents.users.model import GUIDELINES, ModelUser, user_prompt
from rollout.agents.users.person import PersonUser
from rollout.agents.users.scripted import ASK_AGAIN, BuiltinUser, ScriptedUser
from rollout.agents.users.user import STOP_TOKENS, read_reply
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.models.model import Sampling
from rollout.models.openai import HttpPool, OpenAIModel
from rollout.testing import StubServer

TASK = Task(
    id="t",
    messages=(Message(role="user", content="My loan is due."),),
    user_system_prompt="You are Ada, member [[M-10442]]. Your e-mail is ada@example.org.",
    user_turns=("Yes, renew it.", "And [[room 5]]?"),
    info={"instruction": "Renew [[loan 77421]]."},
)


def said(*pairs: tuple[str, str]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words", "end"),
    [
        ("Thanks! ###STOP###", "Thanks!", "stop"),
        ("###TRANSFER###", None, "transfer"),
        ("I do not know. ###OUT-OF-SCOPE### ###STOP###", "I do not know.", "out_of_scope"),
        ("My number is [[M-10442]].", "My number is M-10442.", None),
        ("<think>I should be brief</think>Hello", "Hello", None),
        ("<think>never closed", None, None),
        ("   ", None, None),
    ],
)
def test_tokens_markers_and_thoughts_are_taken_out(text: str, words: str | None, end: str | None) -> None:
    assert read_reply(text) == (words, end)


@given(
    st.lists(st.sampled_from([*STOP_TOKENS, "[[", "]]", "<think>", "</think>", "word ", "a", "\n"]), max_size=12).map(
        "".join
    )
)
def test_nothing_of_the_machinery_ever_leaks(text: str) -> None:
    words, end = read_reply(text)
    assert all(token not in (words or "") for token in (*STOP_TOKENS, "[[", "]]", "<think>"))
    assert (end is not None) == any(token in text for token in STOP_TOKENS)


async def test_builtin_user_says_the_tasks_lines_thanks_and_stops() -> None:
    user = BuiltinUser(TASK, seed=1)
    dialogue = said(("user", "My loan is due."), ("assistant", "Shall I renew it?"))
    first = await user.reply(dialogue)
    dialogue += said(("user", first.text or ""), ("assistant", "Done."))
    second = await user.reply(dialogue)
    dialogue += said(("user", second.text or ""), ("assistant", "Booked."))
    third = await user.reply(dialogue)
    assert (first.text, second.text) == ("Yes, renew it.", "And room 5?")
    assert third.end == "stop"
    assert third.text


async def test_scripted_user_reads_its_place_off_the_dialogue() -> None:
    user = ScriptedUser(["one", "two"])
    dialogue = said(("user", "start"), ("assistant", "a"), ("user", "one"), ("assistant", "b"))
    assert (await user.reply(dialogue)).text == "two", "a resumed conversation goes on where it was"
    dialogue += said(("user", "two"), ("assistant", "c"))
    assert (await user.reply(dialogue)).end == "script_end"


async def test_person_is_shown_the_assistants_words_and_ends_with_an_empty_line() -> None:
    asked: list[str] = []
    answers = iter(["Yes please", ""])

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    user = PersonUser(ask, brief="You are Ada.")
    dialogue = said(("user", "Hi"), ("assistant", "Shall I?"))
    assert (await user.reply(dialogue)).text == "Yes please"
    dialogue += said(("user", "Yes please"), ("assistant", "Done."))
    assert (await user.reply(dialogue)).end == "stop"
    assert "You are Ada." in asked[0]
    assert "Shall I?" in asked[0]
    assert "Shall I?" not in asked[1]
    assert "Done." in asked[1]


async def test_person_who_closes_the_terminal_ends_the_conversation() -> None:
    def closed(prompt: str) -> str:
        raise EOFError

    assert (await PersonUser(closed).reply(said(("user", "Hi")))).end == "stop"


async def test_silent_model_user_is_asked_again_and_then_ends() -> None:
    pool = HttpPool()
    async with StubServer({"rules": [{"reply": {"content": ""}}]}) as stub:
        model = OpenAIModel("user", pool=pool, api_base=stub.url, api_model="user")
        reply = await ModelUser(model, Sampling(), TASK, seed=1).reply(said(("user", "Hi"), ("assistant", "Yes?")))
        assert stub.stats.requests == 3
    await pool.close()
    assert (reply.text, reply.end) == (None, "silent")


async def test_model_user_may_speak_first() -> None:
    pool = HttpPool()
    async with StubServer({"rules": [{"reply": {"content": "I have a problem."}}]}, keep_requests=True) as stub:
        model = OpenAIModel("user", pool=pool, api_base=stub.url, api_model="user")
        user = ModelUser(model, Sampling(), TASK, seed=1, guidelines="Just be rude.")
        reply = await user.reply([])
        assert stub.requests[0]["messages"][-1]["role"] == "user"
        assert stub.requests[0]["messages"][0]["content"].startswith("Just be rude.")
    await pool.close()
    assert reply.text == "I have a problem."


def test_brief_holds_guidelines_and_scenario_without_markers() -> None:
    prompt = user_prompt(TASK, None)
    assert GUIDELINES in prompt
    assert "member M-10442" in prompt
    assert "[[" not in prompt
    assert user_prompt(TASK, "Just be rude.").startswith("Just be rude.")
    bare = Task(id="x", info={"instruction": "Ask for [[tea]].", "known_info": "It is cold."})
    assert "Ask for tea." in user_prompt(bare, None)


@pytest.mark.parametrize(
    ("heard", "text", "end", "marks"),
    [
        ("Shall I renew it?", "Yes, go ahead. Thanks!", "stop", (CONFIRMED_AND_LEFT,)),
        ("Shall I renew it?", "Yes, go ahead.", None, ()),
        ("It is renewed.", "Yes, great, bye.", "stop", ()),
        ("What is your number?", "It is M-10442.", None, ()),
        ("What is your number?", "It is M-99999.", None, (TOLD_UNKNOWN,)),
        ("What is your e-mail?", "ada@example.org", None, ()),
        ("What is your e-mail?", "eve@example.org", None, (TOLD_UNKNOWN,)),
        ("Which loan?", "Loan 77421", None, ()),
        ("Your order is A1234567.", "So A1234567 it is.", None, ()),
        ("Hello.", "How can I help you today?", None, (SPOKE_AS_ASSISTANT,)),
        ("Hello.", "My loan is due!", None, (REPEATED,)),
        ("Hello.", "I'd like tea on 3 days.", None, ()),
    ],
)
def test_faults_of_the_user_are_marked(heard: str, text: str, end: str | None, marks: tuple[str, ...]) -> None:
    dialogue = said(("user", "My loan is due."), ("assistant", heard))
    assert check_reply(TASK, dialogue, text, end) == marks  # type: ignore[arg-type]


async def test_scripted_users_ask_again_where_the_agent_said_nothing_and_then_go_on() -> None:
    for user in (ScriptedUser(TASK.user_turns), BuiltinUser(TASK, seed=1)):
        dialogue = said(("user", "My loan is due."))
        for _ in range(2):
            dialogue += said(("assistant", ""))
            again = await user.reply(dialogue)
            assert again.asks_again
            assert (again.text, again.end) == (ASK_AGAIN, None)
            dialogue += said(("user", ASK_AGAIN))
        dialogue += said(("assistant", "Shall I renew it?"))
        assert (await user.reply(dialogue)).text == "Yes, renew it.", "the script waited"
        dialogue += said(("user", "Yes, renew it."), ("assistant", "Done."), ("user", "And room 5?"), ("assistant", ""))
        assert (await user.reply(dialogue)).asks_again, "no thanks for nothing"


async def test_fixed_turns_of_a_suite_go_on_whatever_the_agent_does() -> None:
    user = ScriptedUser(["one"], goes_on=True)
    assert (await user.reply(said(("user", "start"), ("assistant", "")))).text == "one"


async def test_a_model_user_is_told_that_the_assistant_said_nothing(stub: StubServer) -> None:
    pool = HttpPool(10)
    model = OpenAIModel("user", pool=pool, api_base=stub.url, api_model="user", timeout=10)
    await ModelUser(model, Sampling(), TASK, 1).reply(said(("user", "My loan is due."), ("assistant", "")))
    await pool.close()
    assert stub.requests[-1]["messages"][-1] == {"role": "user", "content": "(The assistant has said nothing.)"}


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ("Your stay is canceled.", r"thank|thanks"),
        ("I'm sorry, I cannot waive the minibar.", r"pity|leave it|Not what I hoped"),
        ("Only the Bursar's Office can clear it, so please contact them.", r"ask them|in touch"),
        ("Would you like another course instead?", r"^No\b"),
    ],
)
async def test_last_words_of_the_builtin_user_fit_what_it_was_told(heard: str, expected: str) -> None:
    task = Task("t", "Hi.")
    for seed in range(6):
        reply = await BuiltinUser(task, seed).reply(said(("user", "Hi."), ("assistant", heard)))
        assert reply.end == "stop"
        assert re.search(expected, reply.text or "", re.IGNORECASE), reply.text
        assert check_reply(task, said(("user", "Hi."), ("assistant", heard)), reply.text, reply.end) == ()


async def test_the_builtin_user_is_not_delighted_by_a_refusal_that_it_has_accepted() -> None:
    task = Task("t", "Refund me.", user_turns=("Okay.",))
    refused = [("user", "Refund me."), ("assistant", "I cannot refund that."), ("user", "Okay.")]
    heard = said(*refused, ("assistant", "Thank you for understanding."))
    worked = [*heard[:3], Message("assistant", "", (ToolCall("c", "refund", "{}"),)), *heard[3:]]
    for seed in range(6):
        reply = await BuiltinUser(task, seed).reply(heard)
        assert "anyway" in (reply.text or "")
        assert check_reply(task, heard, reply.text, reply.end) == ()
        assert "anyway" not in ((await BuiltinUser(task, seed).reply(worked)).text or "")
