"""Block detection: rules that say from the pages of a trajectory whether a site refused the agent, without a model.

Only the end counts: a check that was passed on the way has not blocked the agent. The last page is examined for four
kinds of signs, all in the data of its observation:

    the status     401, 403, 429 or 503, of the document; it holds until another document comes
    the address    of a challenge (a path or a host that serves nothing else)
    the title      of a challenge, word for word; of a refusal ("Access denied"), which others may have too
    the text       phrases that only challenges and refusals address to a reader

A sure sign is enough on a page that shows hardly anything else. A doubtful one needs a second of another kind. So an
article about captchas, with its own title and its many links, is no block, and neither is a form that ends in "I'm not
a robot". Everything between is unsure, for a judge to decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from rollout.environments.web.scoring.steps import JudgedStep
from rollout.environments.web.shown import Page

STATUSES = frozenset({401, 403, 429, 503})
SHORT_TEXT = 1_500
FEW_ELEMENTS = 12
"""A page with less text and no more elements than this shows hardly anything."""

_CHALLENGE_TITLES = re.compile(
    r"just a moment(\.\.\.|…)"
    r"|attention required! \| cloudflare"
    r"|access denied \| .+ used cloudflare to restrict access"
    r"|ddos-guard|please wait\.\.\. \| cloudflare"
    r"|access to this page has been denied\.?"
    r"|pardon our interruption(\.\.\.|…)?"
    r"|vercel security checkpoint"
    r"|(please )?verify (that )?you('re| are) (a )?human( being)?\.?"
    r"|(checking your browser|checking if the site connection is secure)\b.{0,60}"
    r"|(sorry, )?you have been blocked"
    r"|are you (a )?(robot|human)\?( \W? ?.{0,40})?|(amazon\.\S+: )?robot check"
)
_REFUSAL_TITLES = re.compile(
    r"(error )?(401|403|429|503)\b.{0,60}"
    r"|(access|permission) (is )?(denied|forbidden)|forbidden|unauthori[sz]ed|too many requests|(request )?blocked"
    r"|service (temporarily )?unavailable|captcha|re-?captcha|hcaptcha|security (check|verification)"
    r"|(human|bot|browser) (verification|check|challenge)|one more step|client challenge|unusual (traffic|activity)"
)
_PHRASES = {
    "asks for a human": re.compile(
        r"verify (that )?you('re| are) (a |not a )?(human|robot|bot)|confirm (that )?you('re| are) (a )?human"
        r"|prove (that )?you('re| are) (a |not a )?(human|robot)|(i'm|i am) not a robot|are you a robot\?"
        r"|press (& |and )?hold to confirm|complete the (security check|captcha)|solve (the|this) captcha"
        r"|select all images with|slide to verify"
    ),
    "checks the browser": re.compile(
        r"checking your browser|checking if the site connection is secure|enable javascript and cookies to continue"
        r"|needs to review the security of your connection|this process is automatic\. your browser will redirect"
    ),
    "refuses": re.compile(
        r"you (have been|are|were) blocked|your (ip|ip address|access|request) (has been|was|is) (blocked|denied)"
        r"|you (don't|do not) have permission to access|access (to this page )?(has been |is )?denied"
        r"|unusual (traffic|activity) from your|automated (access|queries|requests|traffic)"
        r"|you('ve| have) (made|sent) too many requests|banned your (ip|access)"
    ),
    "signs itself": re.compile(
        r"cloudflare ray id|ray id: ?[0-9a-f]{8}|performance (& |and )?security by|powered and protected by"
        r"|reference ?(id|#|number)?:? ?#?\d+\.[0-9a-f]+\.|challenges\.cloudflare\.com|captcha-delivery\.com"
        r"|perimeterx|datadome|incapsula incident id"
    ),
}
_CHALLENGE_HOSTS = re.compile(r"(^|\.)(captcha-delivery\.com|validate\.perfdrive\.com|challenges\.cloudflare\.com)$")
_CHALLENGE_PATHS = re.compile(
    r"^/(cdn-cgi/(challenge-platform|l/chk_)|sorry/index|errors/validatecaptcha|splashui/(challenge|captcha)|_incapsula_"
    r"|\.well-known/vercel/security)"
)
_SAME = str.maketrans({"’": "'", "‘": "'", "\xa0": " "})


class Blocking(msgspec.Struct, frozen=True):
    """The finding of the rules about a trajectory."""

    is_blocked: bool | None
    """None: they are unsure."""
    rule: str = ""
    """Which signs were seen."""
    message: int | None = None
    """The place of the observation in the trajectory's messages."""
    seen: str = ""
    """What was read there."""


class _Signs(msgspec.Struct, frozen=True):
    """What one page has against it: what was read, by the kind of sign."""

    sure: dict[str, str]
    doubtful: dict[str, str]
    is_bare: bool
    """Hardly anything else is there."""

    @property
    def is_suspect(self) -> bool:
        return bool(self.sure or self.doubtful)


def find_blocking(steps: Sequence[JudgedStep]) -> Blocking:
    """Whether the last page that was shown keeps the agent out."""
    pages = _pages(steps)
    if not pages:
        return Blocking(False, "no page was shown")
    step, told, status = pages[-1]
    signs = _signs(told, status)
    if not signs.is_suspect:
        return Blocking(False, "the last page shows no sign of it", step.message)
    shown = {**signs.sure, **signs.doubtful}
    rule, seen = " and ".join(shown), "; ".join(shown.values())
    return Blocking(_weigh(signs, status, pages), rule, step.message, seen)


def _weigh(signs: _Signs, status: int | None, pages: Sequence[tuple[JudgedStep, Page, int | None]]) -> bool | None:
    if signs.sure:
        return True if signs.is_bare or status in STATUSES or "address" in signs.sure else None
    if len(signs.doubtful) > 1 and (signs.is_bare or status in STATUSES):
        return True
    if "status" in signs.doubtful:
        # A status alone: persistent, it is a wall; one forbidden page after others may be the agent's own mistake.
        others = [_signs(told, at).is_suspect for _, told, at in pages[:-1]]
        return True if all(others) or others[-1] else None
    if "title" in signs.doubtful:
        return None
    # Phrases alone: every form may hold one, and any page may quote some.
    return None if signs.is_bare and signs.doubtful["text"].count(";") else False


def _pages(steps: Sequence[JudgedStep]) -> list[tuple[JudgedStep, Page, int | None]]:
    """The pages that were shown, each with the status of its document, where it is known."""
    pages: list[tuple[JudgedStep, Page, int | None]] = []
    for step in steps:
        told = step.page
        if told is None:
            continue
        status = told.status
        if status is None and pages:
            _, before, at = pages[-1]
            is_same = (before.url, before.title) == (told.url, told.title)
            is_new = step.call is not None and step.call.name in ("navigate", "goback")
            status = at if is_same and not is_new else None
        pages.append((step, told, status))
    return pages


def _signs(told: Page, status: int | None) -> _Signs:
    sure: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    if status in STATUSES:
        doubtful["status"] = f"status {status}"
    address = urlsplit(told.url.casefold())
    if _CHALLENGE_HOSTS.search(address.hostname or "") or _CHALLENGE_PATHS.match(address.path):
        sure["address"] = told.url[:200]
    title = _plain(told.title)
    if _CHALLENGE_TITLES.fullmatch(title):
        sure["title"] = told.title
    elif _REFUSAL_TITLES.fullmatch(title):
        doubtful["title"] = told.title
    body = _plain(told.body)
    phrases = [found[0] for phrase in _PHRASES.values() if (found := phrase.search(body))]
    if phrases:
        doubtful["text"] = "; ".join(phrases)
    return _Signs(sure, doubtful, len(told.body) <= SHORT_TEXT and told.elements <= FEW_ELEMENTS)


def _plain(text: str) -> str:
    return " ".join(text.translate(_SAME).casefold().split())
