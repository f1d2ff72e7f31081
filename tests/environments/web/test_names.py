"""Roles and names of elements, held against what Chromium itself computes."""

from __future__ import annotations

import pytest

from tests.environments.web.conftest import Browsing
from tests.environments.web.site import PAGES, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMED = [
    "<button>Plain</button>",
    "<button>  Two \n words </button>",
    "<button aria-label='Close'>×</button>",
    "<button title='Titled'></button>",
    "<button><img alt='Picture' src=x width=9 height=9></button>",
    "<button><span>Add</span> <b>to</b> cart<span hidden> secretly</span><i aria-hidden=true>!</i></button>",
    "<button aria-labelledby='one two'>Hidden by labels</button><span id=one>First</span><span id=two>Second</span>",
    "<a href=#>Link <em>text</em></a>",
    "<a href=# aria-label='Cart, 3 things'><svg width=9 height=9></svg>3</a>",
    "<input type=submit value='Send it'>",
    "<input type=submit value='Send' aria-label='Send the form'>",
    "<label>Name <input></label>",
    "<label for=mail>E-mail</label><input id=mail type=email>",
    "<input placeholder='Search here'>",
    "<input title='By title'>",
    "<input type=search aria-label=Query>",
    "<input type=number aria-label=Count>",
    "<input type=range aria-label=Volume>",
    "<label><input type=checkbox> I agree</label>",
    "<label><input type=radio name=r>Red</label>",
    "<textarea aria-label='Your words'></textarea>",
    "<label>Colour <select><option>Red<option>Blue</select></label>",
    "<div role=button tabindex=0>A div as a button</div>",
    "<div role=checkbox aria-checked=true tabindex=0>Fancy box</div>",
    "<div role=tab tabindex=0>Second tab</div>",
    "<div role=menuitem tabindex=0>Cut</div>",
    "<div role=textbox contenteditable=true aria-label=Editor>written</div>",
]


@pytest.mark.parametrize("html", NAMED)
async def test_an_element_has_the_role_and_name_that_chromium_gives_it(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, html: str
) -> None:
    monkeypatch.setitem(PAGES, "/named", f"<!doctype html><title>Named</title><p>{html}</p>")
    driver = await browsing.driver().open(site.url("/named"))
    assert driver.world._session is not None
    tab = driver.world._session.active
    observation = await driver.world._session.observe()
    (element,) = observation.seen.elements
    target = "button,a,input,textarea,select,[tabindex],[contenteditable]"
    found = await tab.cdp.send("Runtime.evaluate", {"expression": f"document.querySelector({target!r})"})
    tree = await tab.cdp.send(
        "Accessibility.getPartialAXTree", {"objectId": found["result"]["objectId"], "fetchRelatives": False}
    )
    role = tree["nodes"][0]["role"]["value"]
    assert element.name == " ".join(tree["nodes"][0]["name"]["value"].split())
    assert element.role == {"menuItem": "menuitem"}.get(role, role)
