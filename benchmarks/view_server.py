"""A `rollout view` of one run as a process of its own, and what each request takes: for `benchmarks.view`."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import psutil

ROOT = Path(__file__).resolve().parents[1]
ROLLOUT = (sys.executable, "-c", "from rollout.cli import main; main()")
REPEATS = 5
"""Requests of one kind. The system counts CPU time in hundredths of a second."""
OBEYING = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
"""Runs a command of root without the right to write where permissions forbid it."""


class Server:
    """The server. Leaving the block ends it. `read_only`: it may not write where permissions
    forbid it, even if root runs it."""

    def __init__(self, run: Path, log: Path, *, read_only: bool = False) -> None:
        self.run = run.name
        self._log = log.open("wb")
        before = OBEYING if read_only and os.geteuid() == 0 else ()
        self._process = subprocess.Popen(
            [*before, *ROLLOUT, "view", str(run), "--no-browser", "--port", "0", "--while-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(log.parent / "cache")},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        found = re.search(r"http://([\d.]+):(\d+)/\?token=(\S+)", line)
        if found is None:
            raise RuntimeError(f"no server: {line}{log.read_text()}")
        self.address = found[0]
        """What a browser opens."""
        self._address, self._token = (found[1], int(found[2])), found[3]
        self._watched = psutil.Process(self._process.pid)
        self.peak_mb = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.peak_mb = used.ru_maxrss / 1024
        self._log.close()
        if self._process.returncode != 0:
            log = Path(self._log.name).read_text()
            raise RuntimeError(f"the server ended with {self._process.returncode}:\n{log[-2000:]}") from error

    def cpu(self) -> float:
        """Seconds of CPU that the server has used."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def memory_mb(self) -> float:
        """What it holds now."""
        return float(self._watched.memory_info().rss) / 1e6

    def ask(self, path: str = "", method: str = "GET", body: object = None, **query: Any) -> bytes:
        """The answer about the run. Raises RuntimeError where it is refused."""
        where = f"/api/runs/{self.run}{'/' if path else ''}{path}?{urlencode(query, doseq=True, quote_via=quote)}"
        return self.ask_for(where, method, body)

    def ask_for(self, where: str, method: str = "GET", body: object = None) -> bytes:
        """The answer at an address."""
        headers = {"authorization": f"Bearer {self._token}", "x-rollout": "1", "content-type": "application/json"}
        # A connection for each: one that was idle for some seconds would be closed by the server.
        connection = self._connect()
        connection.request(method, where, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{where}: {answer.status} {content[:300]!r}")
        return content

    def measure(self, ask: Callable[[], object], repeats: int = REPEATS) -> float:
        """The server's CPU seconds for each of these requests."""
        before = self.cpu()
        for _ in range(repeats):
            ask()
        return (self.cpu() - before) / repeats

    def follow_index(self, upto: int, show: Callable[[str], None] = lambda line: None) -> int:
        """Wait until so many attempts are in the index; returns how many times the server told how far it is."""
        told = 0
        connection = self._connect()
        connection.request("GET", f"/api/events?run={self.run}", headers={"authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        kind = ""
        while line := answer.readline().decode():
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: ") and kind == "index":
                state = json.loads(line[6:])["data"]
                told += 1
                show(f"{state['rows']} of {state['of']}")
                if state["problem"]:
                    raise RuntimeError(state["problem"])
                if state["is_ready"] and state["rows"] >= upto:
                    break
        else:
            raise RuntimeError(f"the server ended:\n{Path(self._log.name).read_text()[-2000:]}")
        connection.close()
        return told

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=600)
