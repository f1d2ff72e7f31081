"""Access to the server: checks on every request before it is handled, and headers on every response.

A page in another tab, another user of the machine and a name that was rebound to this address all reach a loopback
port. So a request needs the token that the printed address holds (scripts send it as a bearer; the page has a cookie
with a value that is derived from it), a host that is known, and, where a browser names an origin, the same one. Files
of the page hold no data and need no token: a browser that follows a link from elsewhere sends the cookie only after it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
API = "/api/"
READING = frozenset({"GET", "HEAD"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d+)?")


class Access:
    """Middleware that refuses requests without access and adds security headers to every response."""

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Sequence[str] = (), prefix: str = "", code: str | None = None
    ) -> None:
        """`hosts` are accepted beside loopback, with or without a port. `prefix` is the path under which a reverse
        proxy shows the server; the proxy may forward it or strip it. `code` replaces the token in an address, once:
        other users of the machine can read the arguments with which a browser is started."""
        self._app = app
        self._token = token.encode()
        self._hosts = {host.lower() for host in hosts}
        self._prefix = prefix.rstrip("/")
        self._code = None if code is None else code.encode()
        # Cookies do not tell ports apart, and several servers may run on a machine. A browser sends a cookie to all of
        # them, so its value is not the token.
        self.cookie = f"rollout-view-{hashlib.sha256(self._token).hexdigest()[:12]}"
        self._cookie_value = hmac.digest(self._token, b"the cookie of the page", "sha256").hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        is_without_slash = self._prefix != "" and scope["path"] == self._prefix
        scope = self._without_prefix(scope)
        is_api = _is_api(scope)

        async def send_checked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store" if is_api else "no-cache")
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send_checked, refusal[0], refusal[1])
        elif is_without_slash:
            # The page's addresses are relative to its folder.
            query = scope["query_string"].decode("latin-1")
            name = quote(self._prefix.rpartition("/")[2])
            await _redirect(send_checked, f"./{name}/{'?' + query if query else ''}")
        elif (location := self._location_after_token(scope)) is not None:
            path = quote(self._prefix) or "/"
            cookie = f"{self.cookie}={self._cookie_value.decode()}; Path={path}; HttpOnly; SameSite=Strict"
            await _redirect(send_checked, location, cookie)
        else:
            await self._app(scope, receive, send_checked)

    def _without_prefix(self, scope: Scope) -> Scope:
        path = scope["path"]
        if self._prefix and (path == self._prefix or path.startswith(self._prefix + "/")):
            return {**scope, "path": path[len(self._prefix) :] or "/", "raw_path": None}
        return scope

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Status and reason of a refusal; None if the request is allowed."""
        host = headers.get("host", "").lower()
        if not self._knows(host):
            return 403, (
                f"the host {host or '(none)'} is not one of this server; expected a loopback address, or one given by "
                "--allow-host"
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_same(origin, host):
            return 403, f"the origin {origin} is not this server's; open the printed address instead"
        if not _is_api(scope):
            return None
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 403, "another page asked for this; open the printed address instead"
        if not self._has_token(headers):
            return 401, (
                "the token is missing or wrong; open the address that `rollout view` printed, or send it as "
                "`Authorization: Bearer TOKEN`"
            )
        if scope["method"] in READING:
            return None
        if headers.get("x-rollout") != "1":
            return 403, "writing requests need the header X-Rollout: 1"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 403, "writing requests need the header Content-Type: application/json"
        return None

    def _knows(self, host: str) -> bool:
        # A tunnel may end at another port of loopback, so only names are compared there.
        return host in self._hosts or (name := _name_of(host)) in LOOPBACK or name in self._hosts

    def _is_same(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        place = parts.netloc.lower()
        if parts.scheme not in ("http", "https") or not place:
            return False
        name = _name_of(place)
        # Every port of loopback may be another program's.
        return place == host or place in self._hosts or (name in self._hosts and name not in LOOPBACK)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_token(given.strip())
        cookies = (each.strip() for header in headers.getlist("cookie") for each in header.split(";"))
        found = (value for name, _, value in (each.partition("=") for each in cookies) if name == self.cookie)
        return any(hmac.compare_digest(value.encode(), self._cookie_value) for value in found)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)

    def _uses_code(self, given: str) -> bool:
        if self._code is None or not hmac.compare_digest(given.encode(), self._code):
            return False
        self._code = None
        return True

    def _location_after_token(self, scope: Scope) -> str | None:
        """The redirect target of a request with the right token in its address: the address without the token."""
        if scope["method"] not in READING or _is_api(scope) or b"token=" not in scope["query_string"]:
            return None
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not any(name == "token" and (self._is_token(value) or self._uses_code(value)) for name, value in pairs):
            return None
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        name = quote(scope["path"].rpartition("/")[2])
        return f"./{name}{'?' + rest if rest else ''}"


def _is_api(scope: Scope) -> bool:
    return bool(scope["path"].startswith(API)) or scope["path"] == API.rstrip("/")


def _name_of(host: str) -> str:
    """A host without its port, and without the brackets of IPv6; empty where it is not written like one."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1] or found[2]


async def _answer(send: Send, status: int, text: str) -> None:
    body = msgspec.json.encode({"error": text})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, location: str, cookie: str | None = None) -> None:
    headers = [(b"location", location.encode()), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
