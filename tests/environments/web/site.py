"""A site of our own, served by the test: pages for every action and for every way to misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import TracebackType

from aiohttp import web

SHOP = """<!doctype html><title>Shop</title>
<style>#menu .sub{display:none} #menu:hover .sub{display:block}</style>
<h1>Small shop</h1>
<p id=out>nothing yet</p>
<button onclick="say('bought')" style="width:120px;height:30px">Buy now</button>
<button disabled>Sold out</button>
<form action=/results><label>Search <input name=q></label><button>Go</button></form>
<label>Size <select id=size onchange="say('size '+this.value)"><option value=s>Small</option>
<option value=m>Medium</option><option value=x disabled>Huge</option></select></label>
<label><input type=checkbox onchange="say('gift '+this.checked)">Gift wrap</label>
<label>Delivery <input type=date onchange="say('on '+this.value)"></label>
<textarea aria-label="Remarks" onkeyup="say('keys: '+this.value)"></textarea>
<div id=menu tabindex=0 role=button aria-label=Menu style="width:100px">Menu
<a class=sub href=/second>Hidden offers</a></div>
<a href=/second>Second page</a>
<input type=password aria-label=Secret value=hunter2>
<div style="height:2000px"></div><a href=/second>Far below</a>
<script>
const say = (text) => { document.getElementById('out').textContent = text; document.title = text; };
document.addEventListener('keydown', (e) => { if (e.key === 'Escape') say('escaped'); });
</script>"""

SAY = "const say = (text) => document.title = text;"
PAGES = {
    "/": SHOP,
    "/second": "<title>Second</title><h1>The second page</h1><a href=/>Home</a>",
    "/dialogs": """<title>Dialogs</title>
<button onclick="alert('hello'); document.title = confirm('sure?') + prompt('name?', 'Ann')">Ask</button>""",
    "/alert-loop": """<title>Loop</title><button onclick="while (true) alert('again')">Loop</button>
<button onclick="alert('once'); document.title='After'">Once</button><p>still here</p>""",
    "/alert-timer": "<title>Timer</title><p>text</p><script>setInterval(() => alert('tick'), 0)</script>",
    "/popup": """<title>Opener</title><button onclick="window.open('/second')">Open</button>
<a href=/second target=_blank>In a new tab</a>
<button onclick="for (let i=0;i<20;i++) window.open('/second')">Many</button>""",
    "/download": "<title>Download</title><a href=/file>Get it</a>",
    "/upload": "<title>Upload</title><input type=file aria-label='Your file'>",
    "/hang": "<title>Hang</title><button onclick='while (true) {}'>Hang</button>",
    "/late": """<title>Late</title>
<button onclick="fetch('/slow').then(r=>r.text()).then(t=>document.title=t)">Load</button>""",
    "/vanish": """<title>Vanish</title><button onclick="this.remove(); document.title='gone'">Go away</button>
<button>Stay</button>""",
    "/closes": "<title>Closes</title><button onclick='window.close()'>Close</button>",
    "/covered": """<title>Covered</title><button id=b onclick="document.title='pressed'">Under</button>
<button onclick="document.getElementById('veil').hidden=false">Veil</button>
<div id=veil hidden role=dialog aria-label=Cookies style="position:fixed;inset:0;background:#ccc">
<button style="margin-top:200px" onclick="document.getElementById('veil').hidden=true">Accept</button></div>""",
    "/frames": """<title>Frames</title><p>outer</p><iframe src=/inner style="margin:40px" width=300 height=120></iframe>
<div id=host></div><script>document.getElementById('host').attachShadow({mode:'open'}).innerHTML =
'<button onclick="document.title=\\'shadow\\'">In the shadow</button>'</script>""",
    "/inner": "<button onclick=\"parent.document.title='inner'\">In the frame</button>",
    "/remember": """<title>Remember</title><script>
(async () => {
  const databases = await indexedDB.databases(), cached = await caches.keys();
  const workers = await navigator.serviceWorker.getRegistrations();
  const had = [document.cookie, localStorage.visited, sessionStorage.visited, databases.length, cached.length,
    workers.length, window.name];
  document.cookie = 'visited=1;max-age=9999';
  localStorage.visited = 1; sessionStorage.visited = 1; window.name = 'visited';
  await new Promise((done) => { indexedDB.open('visited').onsuccess = done; });
  await caches.open('visited');
  await navigator.serviceWorker.register('/worker.js');
  document.title = 'had ' + had.join('|');
})();
</script>""",
    "/gate": """<title>Gate</title><a href="/status?code=403">Through</a><a href="/status?code=200">Open door</a>
<form action=/status method=post><input type=hidden name=code value=429><button>Try</button></form>
<a href="/status?code=401" target=_blank>In a new tab</a>
<button onclick="fetch('/status?code=403').then(() => document.title = 'fetched')">Fetch</button>
<a href="/status?code=403&empty=1">Emptiness</a>
<button onclick="location = '/redirect?to=/status%3Fcode%3D503'">Around</button>
<iframe src="/status?code=403" width=50 height=20></iframe>""",
    "/basket": """<title>Basket</title><ul><li class=item>Blue mug</li><li class=item>Tea  pot</li></ul>
<p style="text-transform:uppercase">Two things</p><p hidden class=secret>Paid</p>
<input id=note value="ring twice"><select id=size><option value=s>Small<option value=m selected>Medium</select>
<script>window.basket = {items: ['mug', 'pot'], total: 21.5}; localStorage.seen = 1</script>""",
    "/loud": "<title>Loud</title><script>alert('hi'); window.open('/second')</script><p>there</p>",
    "/post": """<title>Post</title>
<form style="width:600px;height:300px"><input name=title><input name=labels></form>""",
    "/empty": "<title>Empty</title><script>onload = () => document.documentElement.remove()</script>",
    "/sandbox": """<title>Sandbox</title><p>outer</p><iframe sandbox srcdoc="<button>Still</button>"></iframe>""",
    "/slow-frames": "<title>Slow</title><p>outer</p>" + "<iframe sandbox=allow-scripts src=/half></iframe>" * 5,
    "/torn": f"""<title>Torn</title><button>{"x" * 119}\N{SAUROPOD}</button>
<script>document.title = '\\ud800'</script>""",
    "/listening": """<!doctype html><title>Listening</title><body onclick="1">
<p>At the very end of it stands the answer.</p>
<form onclick="1"><label>Name <input></label><button>Send</button></form>
<p onclick="1">Or <a href=/>go home</a></p></body>""",
    "/broken": "<title>Broken</title><a href=/reset>Broken off</a><a href=http://127.0.0.1:9/>No such port</a>",
    "/editor": '<title>Editor</title><div contenteditable aria-label=Letter style="width:300px;height:50px"></div>',
    "/scrolling": """<title>Scrolling</title><div style="height:200px;overflow:auto;border:1px solid">
<div style="height:900px">inside</div>
<button>Deep inside</button></div><div style="height:3000px"></div><p>end of the page</p>""",
}

DOCUMENTS = {
    "/picture": (
        "image/svg+xml",
        '<svg xmlns="http://www.w3.org/2000/svg"><a href="/second"><text x="20" y="40">Enter</text></a></svg>',
    ),
    "/feed": ("text/xml", "<rss><channel><item>News</item></channel></rss>"),
}


class Site:
    """The site, on a port of its own."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._app = web.Application()
        self._app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(self._app, shutdown_timeout=0.1)
        self.never = asyncio.Event()
        self.slow = asyncio.Event()

    async def __aenter__(self) -> Site:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.never.set()
        await self._runner.cleanup()

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    async def stop(self) -> None:
        """The server is gone."""
        self.never.set()
        await self._runner.cleanup()

    def stop_soon(self) -> None:
        """The same, for who cannot wait for it."""
        self._stopping = asyncio.create_task(self.stop())

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.asked[path] += 1
        if path in PAGES:
            return web.Response(text=PAGES[path], content_type="text/html")
        if path in DOCUMENTS:
            kind, text = DOCUMENTS[path]
            return web.Response(text=text, content_type=kind)
        if path == "/status":
            given = request.query if request.method == "GET" else await request.post()
            code = int(str(given["code"]))
            text = "" if given.get("empty") else f"<title>Status {code}</title>{code}"
            return web.Response(status=code, text=text, content_type="text/html")
        if path == "/results":
            return web.Response(
                text=f"<title>Results</title><p>Found: {request.query['q']}</p>", content_type="text/html"
            )
        if path == "/file":
            return web.Response(body=b"data", headers={"Content-Disposition": "attachment; filename=report.pdf"})
        if path == "/worker.js":
            return web.Response(text="self.addEventListener('fetch', () => {});", content_type="text/javascript")
        if path == "/slow":
            await self.slow.wait()
            return web.Response(text="came late")
        if path == "/reset":
            assert request.transport is not None
            request.transport.abort()
        if path == "/never":
            await self.never.wait()
        if path == "/half":
            response = web.StreamResponse(headers={"Content-Type": "text/html"})
            await response.prepare(request)
            await response.write(b"<title>Half</title><button>Half a page</button>" + b" " * 2048)
            await self.never.wait()
            return response
        if path == "/big":
            rows = "".join(
                f"<div class=row><p>row {n} {'x' * 60}</p><a href=/second>link {n}</a></div>" for n in range(45_000)
            )
            return web.Response(text=f"<title>Big</title>{rows}", content_type="text/html")
        if path == "/redirect":
            raise web.HTTPFound(request.query["to"])
        if path == "/fetch":
            to = request.query["to"]
            script = f"fetch('{to}', {{mode: 'no-cors'}}).then(() => say('reached'), () => say('refused'))"
            return web.Response(text=f"<title>Fetch</title><script>{SAY}{script}</script>", content_type="text/html")
        if path == "/socket":
            to = request.query["to"]
            script = (
                f"const s = new WebSocket('{to}'); s.onopen = () => say('reached'); s.onerror = () => say('refused')"
            )
            return web.Response(text=f"<title>Socket</title><script>{SAY}{script}</script>", content_type="text/html")
        if path == "/outer":
            frame = f"<iframe src={request.query['to']} style='margin:50px' width=600 height=300></iframe>"
            return web.Response(text=f"<title>Outer</title><button>Out</button>{frame}", content_type="text/html")
        if path == "/echo":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for _ in socket:
                pass
            return socket
        return web.Response(status=404, text="<title>404</title>not here", content_type="text/html")
