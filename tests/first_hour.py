"""Play the first hour of a newcomer: README, then Getting started, each from top to bottom (`make first-hour`).

Each page is played in a clone of its own with a virtual environment of its own, without the variables of this process
that could lead back to the source tree. A page becomes one shell script, so that every command meets what the commands
before it have left: blocks with a title become files, `bash` blocks are run, and the stub server, which the page puts
into a second terminal, runs beside them. One thing is replaced, because it costs money: `openai/gpt-5` by
`builtin/oracle`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEP = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
KEPT = re.compile(r"PIP_\w+|SSL_\w+|REQUESTS_\w+|LANG|LC_\w+|TZ|\w+_proxy|\w+_PROXY")
WAIT_FOR_SERVER = "until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.1; done"
UNTITLED = {"README.md": "example.py"}
"""Pages whose Python block has no title, with a name for it."""


def script_of(page: Path) -> Iterator[str]:
    """The lines of the shell script that plays a page."""
    yield "set -euo pipefail"
    yield "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    is_installed = False
    for language, title, body in STEP.findall(page.read_text(encoding="utf-8")):
        body = body.replace("openai/gpt-5", "builtin/oracle")
        name = title or (UNTITLED.get(page.name, "") if language == "python" else "")
        if name:
            yield f"cat > {shlex.quote(name)} <<'END-OF-FILE'\n{body}END-OF-FILE"
            if not title:
                yield f"python {name}"
        elif language == "text" and body.startswith("rollout stub-server"):
            yield f"{body.strip()} >/dev/null 2>&1 &"
            yield WAIT_FOR_SERVER
        elif language == "bash":
            for command in body.splitlines():
                yield f"echo {shlex.quote(f'$ {command}')}"
                yield command
            if "pip install" in body and not is_installed:
                is_installed = True
                yield "mkdir ../elsewhere; cd ../elsewhere"


def play(page: str) -> float:
    """Play one page; returns how long it took. Exits with its output where a command fails."""
    with tempfile.TemporaryDirectory() as folder:
        home, clone = Path(folder), Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
        kept = {key: value for key, value in os.environ.items() if KEPT.fullmatch(key)}
        path = f"{home / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        begun = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", "\n".join(script_of(clone / page))],
            cwd=clone,
            env={**kept, "PATH": path, "HOME": folder, "PYTHONNOUSERSITE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        sys.stdout.write("".join(line for line in done.stdout.splitlines(keepends=True) if line.startswith("$ ")))
        if done.returncode:
            sys.exit(f"{page}: ended with {done.returncode}\n{done.stdout[-5000:]}")
        return time.monotonic() - begun


def main() -> None:
    for page in ("README.md", "docs/getting-started/index.md"):
        seconds = play(page)
        sys.stdout.write(f"{page}: every command ended well, in {seconds:.0f} s\n")


if __name__ == "__main__":
    main()
