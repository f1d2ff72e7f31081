"""The oracle in a browser, on conversations written down by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.task import Action, Task
from rollout.models.builtin.browsing import MAX_TRIES, MAX_WAITS, next_call

CLICK_TEA = Action("click", {"element": {"$element": 'link "Tea"'}})
BUY = Action("click", {"element": {"$element": 'button "Buy"'}})
ANSWER = Action("answer", {"text": "Done."})
TASK = Task("t", (Message("user", "Buy tea."),), actions=(CLICK_TEA, BUY, ANSWER))


def page(*elements: str, above: int = 0, below: int = 0) -> str:
    lines = ["URL: http://shop.test/", "Title: Shop"]
    if above or below:
        lines.append(f"Scrolled: {above} px of the page above, {below} px below")
    return "\n".join([*lines, "Elements:", *(f"[{number}] {text}" for number, text in enumerate(elements, 1))])


class Talk:
    """A conversation that grows by what the oracle calls and what the page answers."""

    def __init__(self, opening: str, task: Task = TASK) -> None:
        self.task = task
        self.messages = [Message("user", opening)]

    def wants(self) -> tuple[str, JSON] | None:
        return next_call(self.task, 0, self.messages)

    def does(self, result: str, call: tuple[str, Any] | None = None) -> tuple[str, JSON] | None:
        name, arguments = call or self.wants() or ("", {})
        identifier = f"c{len(self.messages)}"
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        self.messages += [
            Message("assistant", tool_calls=(ToolCall(identifier, name, text),)),
            Message("tool", result, tool_call_id=identifier),
        ]
        return self.wants()


def test_numbers_are_looked_up_in_the_observation_before_each_call() -> None:
    talk = Talk(page('link "Coffee"', 'link "Tea"'))
    assert talk.wants() == ("click", {"element": 2})
    # The same number means another element on the next page, and is not taken for a call already made.
    assert talk.does(page('link "Tea"', 'button "Buy"')) == ("click", {"element": 2})
    assert talk.does(page('link "Orders"')) == ("answer", {"text": "Done."})
    assert talk.does("The answer was taken down.") is None


def test_a_call_that_the_page_refused_is_made_again_but_not_for_ever() -> None:
    talk = Talk(page('link "Tea"'))
    for _ in range(MAX_TRIES - 1):
        assert talk.does('{"error":"click: element 1 is covered"}') == ("click", {"element": 1})
    assert talk.does('{"error":"click: element 1 is covered"}') == (
        "answer",
        {"text": "I could not click: the page did not take it."},
    )


def test_what_is_out_of_sight_is_scrolled_to() -> None:
    talk = Talk(page('link "Coffee"', below=900))
    assert talk.wants() == ("scroll", {"direction": "down"})
    assert talk.does(page(below=300, above=600)) == ("scroll", {"direction": "down"})
    assert talk.does(page('link "Tea"', above=900)) == ("click", {"element": 1})


def test_a_page_that_has_not_settled_is_waited_for_but_not_for_ever() -> None:
    busy = page('link "Coffee"').replace(
        "Elements:", "The page had not settled when it was observed (requests). Wait to see more.\nElements:"
    )
    talk = Talk(busy)
    assert talk.wants() == ("wait", {"seconds": 1})
    assert talk.does(page('link "Tea"')) == ("click", {"element": 1})
    talk = Talk(busy)
    for _ in range(MAX_WAITS - 1):
        assert talk.does(busy) == ("wait", {"seconds": 1})
    assert talk.does(busy) == ("answer", {"text": 'I could not find link "Tea".'})


def test_what_is_above_is_found_from_the_top() -> None:
    talk = Talk(page('link "Coffee"', above=900))
    assert talk.wants() == ("scroll", {"direction": "up", "pages": 10})
    assert talk.does(page('link "Tea"', below=900)) == ("click", {"element": 1})


def test_what_is_nowhere_ends_in_an_answer_that_says_so() -> None:
    talk = Talk(page('link "Coffee"', below=300))
    assert talk.does(page(above=300)) == ("answer", {"text": 'I could not find link "Tea".'})


def test_after_a_stray_click_it_goes_back() -> None:
    talk = Talk(page('link "Coffee"', 'link "Tea"'))
    talk.does(page('link "Espresso"'), ("click", {"element": 1}))
    assert talk.wants() == ("goback", {})
    assert talk.does(page('link "Coffee"', 'link "Tea"')) == ("click", {"element": 2})


def test_calls_that_are_no_json_count_for_nothing() -> None:
    talk = Talk(page('link "Tea"'))
    assert talk.does('{"error":"click: the arguments are no JSON"}', ("click", '{"elem')) == ("click", {"element": 1})
