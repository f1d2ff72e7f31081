"""Elements of a page, found by what observations say of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.config.browsing import WebSettings
from rollout.environments.web.observe import Element, Observation, Seen, describe
from rollout.tasks.elements import NotListed, find_element, resolve_elements, scroll_position, shows_page

LISTED = """URL: http://shop.test/
Title: Shop
Scrolled: 612 px of the page above, 90 px below
Elements:
[1] link "Tea"
[2] searchbox "Search" (= "tea")
[3] button "Remove"
[4] button "Remove" (disabled)
[5] combobox "Size" (= "Small", options: Small | Large)
[6] link "LUM-104 Dashboard takes 9 seconds"
[7] textbox
[12] link "He said "no""
"""
AS_TEXT = """URL: http://shop.test/
Title: Shop

# Fern & Kettle
Teapots and [1] link "Tea" and [2] button "Remove" [3] button "Remove" (disabled) more
- [4] link "He said \\"no\\""
"""


@pytest.mark.parametrize(
    ("locator", "number"),
    [
        ({"$element": 'link "Tea"'}, 1),
        ({"$element": 'searchbox "Search"'}, 2),
        ({"$element": 'button "Remove"'}, 3),
        ({"$element": 'button "Remove"', "nth": 2}, 4),
        ({"$element": 'combobox "Size"'}, 5),
        ({"$element": 'link "LUM-104"', "match": "prefix"}, 6),
        ({"$element": "textbox"}, 7),
        ({"$element": 'link "He said "no""'}, 12),
    ],
)
def test_role_and_name_lead_to_the_number(locator: dict[str, object], number: int) -> None:
    assert find_element(locator, LISTED) == number


def test_pages_that_are_shown_as_text_are_understood() -> None:
    assert find_element({"$element": 'link "Tea"'}, AS_TEXT) == 1
    assert find_element({"$element": 'button "Remove"', "nth": 2}, AS_TEXT) == 3
    assert find_element({"$element": 'link "He said "no""'}, AS_TEXT) == 4


@pytest.mark.parametrize(
    "locator",
    [
        {"$element": 'link "Te"'},
        {"$element": 'button "Tea"'},
        {"$element": 'button "Remove"', "nth": 3},
        {"$element": 'link "LUM-104"'},
        {"$element": "link"},
    ],
)
def test_what_is_not_listed_is_not_found(locator: dict[str, object]) -> None:
    with pytest.raises(NotListed):
        find_element(locator, LISTED)


@pytest.mark.parametrize("locator", [{"$element": ""}, {"$element": 3}, {"$element": "a", "nth": 0}])
def test_a_malformed_locator_is_refused(locator: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a locator"):
        find_element(locator, LISTED)


def test_only_locators_are_resolved() -> None:
    arguments = {"element": {"$element": 'searchbox "Search"'}, "text": "[1] link", "submit": True}
    assert resolve_elements(arguments, LISTED) == {"element": 2, "text": "[1] link", "submit": True}


def test_where_the_page_is_scrolled_to_is_read() -> None:
    assert scroll_position(LISTED) == (612, 90)
    assert scroll_position(AS_TEXT) == (0, 0)
    assert shows_page(LISTED)
    assert shows_page('{"error":"click: element 3 is gone"}\nURL: http://shop.test/\nTitle: Shop')
    assert not shows_page('{"error":"URL: is what it says"}')


# What a name can be: the script in the page joins all white space to single blanks.
names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30).map(
    lambda text: " ".join(text.split())
)
elements = st.builds(
    Element,
    role=st.sampled_from(["button", "link", "textbox", "combobox"]),
    name=names.filter(bool),
    state=st.sampled_from(["", "disabled", '= "a"', "checked"]),
    box=st.just((0, 0, 9, 9)),
)


@given(st.lists(elements, min_size=1, max_size=8, unique_by=lambda element: (element.role, element.name)))
def test_every_element_that_is_described_is_found_again(listed: list[Element]) -> None:
    seen = Seen("http://a.test/", "A", True, 0, 0, tuple(listed))
    text = describe(Observation(seen), WebSettings())
    for number, element in enumerate(listed, 1):
        found = find_element({"$element": f'{element.role} "{element.name}"'}, text)
        # A name may hold the text of another line; the first that fits is then an earlier one.
        assert found == number or (
            found < number and f'{element.role} "{element.name}"' in listed[found - 1].describe()
        )
