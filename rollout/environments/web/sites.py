"""Sites of our own that are served while a run goes on.

Each is served on a port of the loopback interface. Pages know it as `http://<name>.test/`: the proxy of each context
leads that name to the port, so what is recorded never depends on which port was free. Serving begins with the first
world that is opened.
"""

from __future__ import annotations

import asyncio
import importlib
import mimetypes
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin

if TYPE_CHECKING:
    from aiohttp import web

SHIPPED = "rollout.examples.web"
Route = tuple[str, int]
"""Address and port."""
MakeApp = Callable[[], "web.Application"]


class Sites:
    """Sites by name. One object serves all worlds of a dataset; `close` ends it."""

    def __init__(self, sites: Mapping[str, MakeApp | Path] | None = None) -> None:
        """`sites`: what makes the application, or a folder of files."""
        self._sites = dict(sites or {})
        self._routes: dict[str, Route] = {}
        self._runners: list[web.AppRunner] = []
        self._starting = asyncio.Lock()

    async def routes(self) -> Mapping[str, Route]:
        """Where each host is served. Starts what is not started yet."""
        async with self._starting:
            for name, site in self._sites.items():
                if host_of(name) not in self._routes:
                    self._routes[host_of(name)] = await self._serve(
                        _folder_app(site) if isinstance(site, Path) else site()
                    )
        return self._routes

    async def close(self) -> None:
        """Stop serving."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
        self._routes.clear()

    async def _serve(self, app: web.Application) -> Route:
        from aiohttp import web

        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return str(host), int(port)


def load_sites(names: Sequence[str]) -> Sites:
    """The sites that a configuration names. Raises ConfigError where there is no such one."""
    sites: dict[str, MakeApp | Path] = {}
    for given in names:
        name, site = _find_site(given)
        if name in sites:
            raise ConfigError(f"sites: {given!r}: there is another one called {name!r}; rename one of them")
        sites[name] = site
    return Sites(sites)


def host_of(name: str) -> str:
    """The host that pages know a site by. `.test` is reserved: no such host is on the internet."""
    return f"{name}.test"


def _find_site(given: str) -> tuple[str, MakeApp | Path]:
    if ":" in given:
        name, make = given.partition(":")[0].rpartition(".")[2], find_plugin("rollout.sites", given)
    elif Path(given).is_dir():
        return _host_name(Path(given).resolve().name, given), Path(given).resolve()
    else:
        name, make = given, _shipped(given) or find_plugin("rollout.sites", given)
        if make is None:
            raise ConfigError(
                f"sites: there is no site {given!r}; expected a shipped one, an entry point of rollout.sites, a folder "
                "of files, or module:function"
            )
    if not callable(make):
        raise ConfigError(f"sites: {given!r} is not a function; expected one that makes an aiohttp.web.Application")
    return _host_name(name, given), make


def _shipped(name: str) -> MakeApp | None:
    try:
        make: MakeApp = importlib.import_module(f"{SHIPPED}.{name}").make_app
    except (ModuleNotFoundError, AttributeError, ValueError):
        return None
    return make


def _host_name(name: str, given: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not plain:
        raise ConfigError(f"sites: {given!r} has no name that a host can have")
    return plain


def _folder_app(folder: Path) -> web.Application:
    """Files as they are, texts in UTF-8; a folder shows its index.html."""
    from aiohttp import web

    root = folder.resolve()

    async def show(request: web.Request) -> web.StreamResponse:
        path = (root / request.match_info["path"]).resolve()
        if path.is_dir():
            path /= "index.html"
        if not path.is_relative_to(root) or not path.is_file():
            raise web.HTTPNotFound
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        # Without it, a page that does not say so itself would be read as in the last century.
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        return web.FileResponse(path, headers={"Content-Type": kind + charset})

    app = web.Application()
    app.router.add_get("/{path:.*}", show)
    return app
