"""An MCP server by hand, without the SDK: it starts at once and does wrong what it is asked to do wrong.

Each tool of `TOOLS` is a way to answer, or not to. Options: `--refuse` ends before the handshake, `--late` never gets
ready, `--chatty` writes lines that are no messages, `--moody FILE` offers other tools once FILE exists, `--modern`
knows no handshake, `--log FILE` adds the name of each called tool to FILE, `--refuse-once FILE` removes FILE and ends
before the handshake, where FILE is there. Its tools are described by the variable `TELLS_ALL`. It keeps a count, which
is its state.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TOOLS = (
    "add", "echo", "env", "pid", "read", "write", "meet", "fail", "refuse", "structured", "image", "mixed", "nonsense",
    "hang", "die", "die_after", "huge", "endless_line", "endless_lines", "endless_stderr", "endless_notices", "deaf",
    "leave_behind",
)  # fmt: skip
_count = 0
_lock = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with _lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    global _count
    if "--log" in sys.argv:
        with Path(sys.argv[sys.argv.index("--log") + 1]).open("a") as log:
            log.write(f"{name}\n")
    match name:
        case "add":
            _count += arguments.get("by", 1)
            return text({"count": _count})
        case "echo":
            return text(arguments.get("text", ""))
        case "env":
            return text(dict(os.environ))
        case "pid":
            return text(str(os.getpid()))
        case "read":
            return text(Path(arguments["text"]).read_text())
        case "write":
            Path("note.txt").write_text(arguments["text"])
            return text(os.getcwd())
        case "meet":
            # Comes back only when somebody with the other name is here at the same time.
            here = Path(arguments["text"])
            here.touch()
            other = here.with_name("a" if here.name == "b" else "b")
            while not other.exists():
                time.sleep(0.005)
            return text(f"met {other.name}")
        case "fail":
            return {**text("the vault is shut"), "isError": True}
        case "structured":
            return {"content": [], "structuredContent": {"b": 1, "a": [2]}}
        case "image":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        case "mixed":
            wav = base64.b64encode(b"12345").decode()
            resource = {"uri": "note://1", "mimeType": "text/plain", "text": "a note"}
            return {
                "content": [
                    {"type": "text", "text": "first"},
                    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                    {"type": "audio", "data": wav, "mimeType": "audio/wav"},
                    {"type": "resource", "resource": resource},
                    {"type": "resource_link", "name": "more", "uri": "note://2"},
                ],
                "structuredContent": {"not": "shown"},
            }
        case "nonsense":
            return {"content": "this is no list"}
        case "hang":
            threading.Event().wait()
        case "die":
            sys.stderr.write("the floor gave way\n")
            sys.stderr.flush()
            os._exit(3)
        case "die_after":
            # The end comes after the answer: nobody is calling then.
            threading.Thread(target=lambda: (time.sleep(0.01), os._exit(4))).start()
            return text("goodbye")
        case "leave_behind":
            # The same, and what it started outlives it.
            void = subprocess.DEVNULL
            child = subprocess.Popen(["sleep", "1000"], stdin=void, stdout=void, stderr=void)
            threading.Thread(target=lambda: (time.sleep(0.01), os._exit(4))).start()
            return text(str(child.pid))
        case "huge":
            return text("x" * arguments.get("by", 1))
        case "endless_line":
            while True:
                sys.stdout.write("x" * 65536)
        case "endless_lines":
            while True:
                sys.stdout.write("not a message\n" * 4096)
        case "endless_stderr":
            while True:
                sys.stderr.write("moan\n" * 16384)
        case "endless_notices":
            notice = {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "info", "data": "x" * 9999},
            }
            line = json.dumps(notice) + "\n"
            while True:
                sys.stdout.write(line * 16)
        case "deaf":
            os.close(0)
            threading.Event().wait()
    raise AssertionError(name)


def answer(request: dict[str, Any]) -> None:
    method, params, number = request.get("method"), request.get("params") or {}, request.get("id")
    if number is None:
        return
    if method in ("initialize", "server/discover"):
        if method == "initialize" and "--modern" in sys.argv:
            error = {"code": -32022, "message": "no handshake", "data": {"supported": ["2026-07-28"], "requested": ""}}
            return send({"jsonrpc": "2.0", "id": number, "error": error})
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
        if method == "initialize":
            result = {**about, "protocolVersion": params["protocolVersion"]}
        else:
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
            result |= {"ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/list":
        names = [*TOOLS]
        if "--moody" in sys.argv and Path(sys.argv[sys.argv.index("--moody") + 1]).exists():
            names = ["echo", "surprise"]
        told = os.environ.get("TELLS_ALL", "")
        noted = {"description": told, "examples": [told]} if told else {}
        properties = {"by": {"type": "integer"}, "text": {"type": "string", **noted}}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        result = {"tools": [{"name": name, "description": f"{name}.{told}", "inputSchema": schema} for name in names]}
        if "--modern" in sys.argv:
            result |= {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    elif method == "tools/call" and params["name"] != "refuse":
        result = call(params["name"], params.get("arguments") or {})
        if "--modern" in sys.argv:
            result["resultType"] = "complete"
    else:
        return send({"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": f"no {params.get('name')}"}})
    send({"jsonrpc": "2.0", "id": number, "result": result})


def _lines() -> Iterator[str]:
    """What comes in, until the input ends; where a tool has closed it, nothing more comes, and no end either."""
    try:
        yield from sys.stdin
    except OSError:
        threading.Event().wait()


def main() -> None:
    if "--refuse" in sys.argv:
        sys.stderr.write(f"cannot open the vault with {os.environ.get('VAULT_KEY')}\n")
        sys.exit(3)
    if "--refuse-once" in sys.argv:
        mark = Path(sys.argv[sys.argv.index("--refuse-once") + 1])
        if mark.is_file():
            mark.unlink()
            sys.exit(3)
    if "--late" in sys.argv:
        sys.stderr.write("warming up\n")
        sys.stderr.flush()
        threading.Event().wait()
    for line in _lines():
        if "--chatty" in sys.argv:
            sys.stdout.write('Welcome!\n\n{"jsonrpc": "1.0"}\n\x00\xff\n')
        request = json.loads(line)
        if request.get("method") == "tools/call":
            threading.Thread(target=answer, args=(request,), daemon=True).start()
        else:
            answer(request)


if __name__ == "__main__":
    main()
