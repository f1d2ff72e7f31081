"""Pages that are not made as most are: each is shown, and none costs an episode."""

from __future__ import annotations

import pytest

from tests.environments.web.conftest import Browsing
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODES = ("coordinates", "set_of_marks", "text", "accessibility_tree")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/picture", "/feed", "/empty", "/post", "/sandbox"])
async def test_any_document_can_be_shown_and_left(browsing: Browsing, site: Site, mode: str, path: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url(path))
    assert f"URL: {site.url(path)}" in driver.text
    await driver.do("scroll", direction="down")
    await driver.world.state_key()
    assert "Title: Second" in (await driver.do("navigate", url=site.url("/second"))).content


async def test_a_form_with_a_field_called_title_can_be_clicked(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="coordinates").open(site.url("/post"))
    assert not (await driver.do("click", x=300, y=200)).is_error


@pytest.mark.parametrize("mode", MODES[1:])
async def test_what_is_in_a_frame_without_scripts_is_shown(browsing: Browsing, site: Site, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url("/sandbox"))
    assert not (await driver.do("click", element=driver.number("Still"))).is_error


async def test_frames_that_never_load_are_not_waited_for_one_after_the_other(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(open_timeout=8).open(site.url("/slow-frames"))
    assert driver.text.count("Half a page") == 5


@pytest.mark.parametrize("mode", MODES)
async def test_halves_of_characters_are_not_passed_on(browsing: Browsing, site: Site, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url("/torn"))
    assert "Title: ?" in driver.text
    driver.text.encode()


async def test_a_page_that_listens_to_clicks_is_read_in_full(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/listening"))
    assert "At the very end of it stands the answer." in driver.text
    assert driver.number("Name") < driver.number("Send") < driver.number("go home")


@pytest.mark.parametrize("mode", MODES[1:])
async def test_what_was_typed_into_an_editor_is_shown(browsing: Browsing, site: Site, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url("/editor"))
    result = await driver.do("type", element=driver.number("Letter"), text="Dear Ann")
    assert 'textbox "Letter" (= "Dear Ann")' in result.content


@pytest.mark.parametrize("link", ["Broken off", "No such port"])
async def test_a_link_that_leads_nowhere_is_told(browsing: Browsing, site: Site, link: str) -> None:
    driver = await browsing.driver().open(site.url("/broken"))
    result = await driver.do("click", element=driver.number(link))
    assert "Note: The page could not be opened. goback or navigate to go on." in result.content
    assert "Title: Broken" in (await driver.do("goback")).content
