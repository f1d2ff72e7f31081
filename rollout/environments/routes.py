"""Routes from offered tools to their servers, when several servers offer theirs together."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Route(msgspec.Struct, frozen=True):
    """The server and the tool's own name there."""

    server: str
    tool: str


def find_offered(routes: Mapping[str, Route], name: str) -> str | None:
    """The offered name of a reference action's tool: bare, `Server.tool`, or offered already."""
    if name in routes:
        return name
    for offered, route in routes.items():
        if name in (route.tool, f"{route.server}.{route.tool}"):
            return offered
    return None
