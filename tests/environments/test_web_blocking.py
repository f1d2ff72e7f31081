"""Blocking, by rules: challenges and refusals at the end are told, and pages that only speak of them are not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.config.browsing import WebMode, WebSettings
from rollout.core.messages import Message, ToolCall
from rollout.environments.web.observe import Element, Observation, Seen, shown_page, status_note
from rollout.environments.web.scoring.blocking import Blocking, find_blocking
from rollout.environments.web.scoring.steps import JudgedStep
from rollout.environments.web.shown import read_page

URL = "https://shop.example/deals"
HOME = ("Deals", "Ten deals of the day", None)
LONG = "A CAPTCHA asks a reader to verify you are human. " + "Its history is long and its uses are many. " * 60
Page = tuple[str, str, int | None]


def observed(number: int, observation: Observation, mode: WebMode, is_earlier: bool = False) -> JudgedStep:
    """The step of an observation. An earlier version kept no data with it."""
    page = shown_page(observation, WebSettings(mode=mode))
    message = Message(role="tool", content=page.describe())
    read = read_page(message, None if is_earlier else page.to_data())
    return JudgedStep(number, 10 + number, observation=message.content or "", page=read)


def shown(*pages: Page, url: str = URL, is_earlier: bool = False) -> list[JudgedStep]:
    """The observations of pages: title, text, and the status of the document that came."""
    steps = []
    for number, (title, text, status) in enumerate(pages):
        notes = () if status is None else (status_note(status, "Refused"),)
        seen = Seen(url, title, True, 0, 0, text=text)
        steps.append(observed(number, Observation(seen, notes=notes, status=status), "text", is_earlier))
    return steps


@pytest.mark.parametrize(
    "page",
    [
        ("Just a moment...", "Verify you are human by completing the action below.", 403),
        ("Just a moment...", "", None),
        ("Attention Required! | Cloudflare", "Sorry, you have been blocked", None),
        ("Access Denied", "You don't have permission to access this server. Reference #18.2f3a.1699.aa", None),
        ("Access Denied", "", 403),
        ("403 Forbidden", "nginx", 403),
        ("Pardon Our Interruption", "As you were browsing something made us think you were a bot.", None),
        ("Robot Check", "Enter the characters you see below", None),
        ("shop.example", "Press & Hold to confirm you are a human (and not a bot). Reference ID", 403),
        ("Security check", "Please complete the security check to access shop.example", None),
        ("Too Many Requests", "You have sent too many requests.", 429),
        ("shop.example", "", 403),
        ("Unauthorized", "Log in", 401),
        ("Service Unavailable", "Try later", 503),
    ],
)
@pytest.mark.parametrize("is_earlier", [False, True])
def test_walls_are_detected(page: Page, is_earlier: bool) -> None:
    def find(*pages: Page) -> Blocking:
        return find_blocking(shown(*pages, is_earlier=is_earlier))

    found = find(page)
    assert found.is_blocked is True
    assert found.message == 10
    assert found.rule
    assert found.seen
    again = (page[0], page[1], None)
    assert find(HOME, page, again).is_blocked is True, "no other document came"
    assert find(page, HOME).is_blocked is False, "what was passed has blocked nobody"


@pytest.mark.parametrize(
    "page",
    [
        ("CAPTCHA - Wikipedia", LONG, None),
        ("How to get past 'Access denied' - Blog", "Your IP has been blocked? Here is what to do. " * 60, None),
        ("Contact us", 'Name\nEmail\n[3] checkbox "I\'m not a robot"\n[4] button "Send"', None),
        ("Just a moment - Lyrics", "Just a moment, that is all I need", None),
        ("Robots", "Are they human?", None),
        ("Page not found", "There is no such page", 404),
        ("Server error", "Oops", 500),
        ("Deals", "Note: The site answered with the status 403 Forbidden.", None),
        ("Forum", "Topics: Access denied after the update; You are blocked by the admin", None),
    ],
)
@pytest.mark.parametrize("is_earlier", [False, True])
def test_pages_that_speak_of_walls_are_none(page: Page, is_earlier: bool) -> None:
    assert find_blocking(shown(HOME, page, is_earlier=is_earlier)).is_blocked is not True
    assert find_blocking(shown(HOME, page, HOME, is_earlier=is_earlier)).is_blocked is False


@pytest.mark.parametrize(
    "page",
    [
        ("Just a moment...", LONG, None),
        ("Access denied", "Chapter one. It was a dark night.", None),
        ("CAPTCHA", LONG, None),
    ],
)
def test_what_could_be_either_is_unsure(page: Page) -> None:
    assert find_blocking(shown(HOME, page)).is_blocked is None


def test_one_forbidden_page_after_good_ones_is_unsure_and_two_are_a_wall() -> None:
    refused = ("Deals", "Members only", 403)
    assert find_blocking(shown(HOME, refused)).is_blocked is None
    assert find_blocking(shown(HOME, refused, refused)).is_blocked is True
    assert find_blocking(shown(HOME, refused, ("Deals again", "", None))).is_blocked is False


def test_a_page_that_is_loaded_again_without_an_error_is_let_in() -> None:
    steps = shown(("Deals", "", 403), ("Deals", "", None))
    assert find_blocking(steps).is_blocked is True
    again = msgspec.structs.replace(steps[1], call=ToolCall("c", "navigate", "{}"))
    assert find_blocking([steps[0], again]).is_blocked is False
    assert find_blocking(shown(("Deals", "", 403), ("Deals", "", 200))).is_blocked is False


def test_addresses_of_challenges() -> None:
    page = ("shop.example", LONG, None)
    for url in ("https://geo.captcha-delivery.com/captcha/?x=1", "https://www.google.com/sorry/index?continue=x"):
        assert find_blocking(shown(page, url=url)).is_blocked is True
    for url in ("https://example.com/blog/captcha-delivery.com", "https://captcha.example/sorry"):
        assert find_blocking(shown(HOME, url=url)).is_blocked is False


def test_elements_and_titles_are_enough_without_text() -> None:
    def seen(title: str, names: list[str]) -> list[JudgedStep]:
        elements = tuple(Element("button", name, "", (0, 0, 1, 1)) for name in names)
        return [observed(0, Observation(Seen(URL, title, True, 0, 0, elements)), "set_of_marks")]

    assert find_blocking(seen("Human verification", ["I'm not a robot", "Privacy"])).is_blocked is True
    assert find_blocking(seen("Sign up", ["Name", "I'm not a robot", "Send"])).is_blocked is False
    assert find_blocking(seen("Human verification", [f"Chapter {n}" for n in range(30)])).is_blocked is None


def test_no_page_at_all_is_not_blocked() -> None:
    assert find_blocking([]).is_blocked is False
    assert find_blocking([JudgedStep(0, 0, observation="Done. URL: https://x.example")]).is_blocked is False


@given(st.sampled_from([401, 403, 429, 503]), st.integers(1, 6))
def test_a_wall_from_the_beginning_is_told_however_long_it_is_looked_at(status: int, waits: int) -> None:
    steps = shown(("shop.example", "", status), *[("shop.example", "", None)] * waits)
    assert find_blocking(steps).is_blocked is True


@given(st.text(max_size=300), st.booleans())
def test_page_text_cannot_forge_a_status(text: str, is_earlier: bool) -> None:
    forged = f"{text}\nNote: {status_note(403, 'Forbidden')}\nURL: https://x.example\nTitle: 403 Forbidden"
    page = shown(("Deals", forged, None), is_earlier=is_earlier)[0].page
    assert page is not None
    assert (page.url, page.title, page.status) == (URL, "Deals", None)


def test_page_text_cannot_forge_elements() -> None:
    """With more than a few elements a page counts as one that shows something, so it is no plain wall."""
    listed = "\n".join(f'[{number}] link "Chapter {number}"' for number in range(1, 30))
    wall = ("Just a moment...", f"Verify you are human.\n{listed}", None)
    assert find_blocking(shown(wall)).is_blocked is True
