"""The pages of `patterns` and what they ask their server for.

Each page is a file in `pages/` that works by itself and leaves what was achieved in its `#result`, where the checks of
its task look. What a page does slowly it does in the browser, so that the server answers at once.
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

PAGES = Path(__file__).parent / "pages"
CITIES = ("Lima", "Lille", "Linz", "Lisbon", "Liverpool", "Livorno", "Ljubljana", "London", "Lucerne", "Lyon")
DEPARTURES = (("09:10", "Skye"), ("11:45", "Mull"), ("14:20", "Orkney"), ("18:05", "Lewis"))
STORIES_A_PAGE = 12
REPORT = "month,visitors\nJanuary,1204\nFebruary,1377\n"
_SHELL = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css">{body}</html>"""


def make_app() -> web.Application:
    """The site. It keeps nothing of its visitors."""
    app = web.Application(client_max_size=256 * 1024)
    app.router.add_get("/", _index)
    app.router.add_get("/style.css", _style)
    app.router.add_get("/api/cities", _cities)
    app.router.add_get("/api/departures", _departures)
    app.router.add_get("/api/stories", _stories)
    app.router.add_get("/visitors-2025.csv", _report)
    app.router.add_post("/upload", _upload)
    app.router.add_get(r"/{name:[a-z-]+}", _page)
    return app


async def _index(request: web.Request) -> web.Response:
    links = "".join(f'<li><a href="/{path.stem}">{path.stem}</a>' for path in sorted(PAGES.glob("*.html")))
    return _show("Patterns", f"<main><h1>Patterns</h1><ul>{links}</ul></main>")


async def _page(request: web.Request) -> web.Response:
    path = PAGES / f"{request.match_info['name']}.html"
    if not path.is_file():
        raise web.HTTPNotFound
    title, _, body = path.read_text(encoding="utf-8").partition("\n")
    return _show(title, body)


def _show(title: str, body: str) -> web.Response:
    return web.Response(text=_SHELL.format(title=title, body=body), content_type="text/html")


async def _style(request: web.Request) -> web.Response:
    return web.Response(text=(PAGES.parent / "style.css").read_text(encoding="utf-8"), content_type="text/css")


async def _cities(request: web.Request) -> web.Response:
    begin = request.query.get("q", "").lower()
    return web.json_response([city for city in CITIES if begin and city.lower().startswith(begin)])


async def _departures(request: web.Request) -> web.Response:
    return web.json_response([{"time": time, "to": island} for time, island in DEPARTURES])


async def _stories(request: web.Request) -> web.Response:
    first = int(request.query.get("page", "0")) * STORIES_A_PAGE + 1
    return web.json_response([f"Story {number}" for number in range(first, first + STORIES_A_PAGE)])


async def _report(request: web.Request) -> web.Response:
    headers = {"Content-Disposition": 'attachment; filename="visitors-2025.csv"'}
    return web.Response(text=REPORT, content_type="text/csv", headers=headers)


async def _upload(request: web.Request) -> web.Response:
    form = await request.post()
    file = form.get("file")
    if not isinstance(file, web.FileField):
        return _show("Upload", "<main><h1>Upload</h1><output id=result>No file came.</output></main>")
    lines = len(file.file.read().splitlines())
    result = f"Received {file.filename} with {lines} lines."
    return _show("Upload", f"<main><h1>Upload</h1><output id=result>{result}</output></main>")
