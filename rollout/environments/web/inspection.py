"""Finding out about a page what no observation tells: which elements fit a selector, and what a script says.

Selectors are looked up from our own world of the document, which the page's scripts cannot reach. A script is the
task's: it runs in the page's main world, among the page's own variables, within SCRIPT_TIMEOUT, and its value comes
back as JSON of at most MAX_VALUE characters. What cannot be found out is a `Finding` with a problem, never a value.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from rollout.core.errors import WorldError
from rollout.core.messages import JSON
from rollout.environments.web.page import Tab

SCRIPT_TIMEOUT = 5.0
MAX_VALUE = 100_000
MAX_FOUND = 200
"""Elements of a selector that are reported; `count` counts all."""
MAX_TEXT = 200_000
"""Characters that all of them may have together."""


class Probe(msgspec.Struct, frozen=True):
    """A question about a page: a selector, a script, or, with neither, only its address."""

    selector: str | None = None
    script: str | None = None
    """An expression, a function, or the body of one with `return`; promises are waited for."""


class Finding(msgspec.Struct, frozen=True):
    """What was found out."""

    url: str
    value: Any = None
    """Of a selector `{"count": n, "elements": [{"text", "value", "isVisible", "isCut"}, …]}`; of a script its value."""
    problem: str | None = None
    """Why there is no value."""


async def look_into(tab: Tab, probe: Probe) -> Finding:
    """Answer one question about a settled page. Raises PageLost where the tab is gone."""
    url = tab.page.url
    try:
        async with asyncio.timeout(SCRIPT_TIMEOUT + 1):
            if probe.selector is not None:
                return _found(url, await tab.call("find", probe.selector, MAX_FOUND, MAX_TEXT))
            if probe.script is not None:
                return _found(url, await _run(tab, probe.script))
            return Finding(url)
    except TimeoutError:
        return Finding(url, problem=f"no answer within {SCRIPT_TIMEOUT:g} s")
    except WorldError as error:
        return Finding(url, problem=str(error))


def _found(url: str, told: JSON) -> Finding:
    return Finding(url, problem=told["problem"]) if "problem" in told else Finding(url, told["value"])


async def _run(tab: Tab, script: str) -> JSON:
    """A script is an expression if it can be read as one, else a function's body."""
    expression = f"const value = (\n{script}\n); return typeof value === 'function' ? await value() : value;"
    try:
        await tab.run(f"{_function(expression)}; 0", SCRIPT_TIMEOUT)  # read and not called
        body = expression
    except WorldError:
        body = script
    told: JSON = await tab.run(f"{_function(body)}()", SCRIPT_TIMEOUT)
    return {"value": msgspec.json.decode(told["text"])} if "text" in told else told


def _function(body: str) -> str:
    """A function that tells the value of another one's body as JSON, if that is not too long."""
    return f"""(async () => {{
const told = await (async () => {{
{body}
}})();
const text = JSON.stringify(told);
if (text === undefined) return {{problem: 'the script returned nothing; expected a value'}};
if (text.length > {MAX_VALUE}) return {{problem: `its value has ${{text.length}} characters; at most {MAX_VALUE}`}};
return {{text}};
}})"""
