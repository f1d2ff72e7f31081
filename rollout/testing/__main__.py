"""`python -m rollout.testing`: the stub server as a program, for `StubProcess` and for a terminal.

Its first line on standard output is JSON with the URL; a bad script ends it with one line on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys

from rollout.core.errors import ConfigError
from rollout.testing.program import run_stub_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rollout.testing", description="A model server by script.")
    parser.add_argument("--script", help="a file of YAML or JSON, or the JSON itself")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    try:
        run_stub_server(
            options.script, options.host, options.port, _announce, until_stdin_closes=options.until_stdin_closes
        )
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _announce(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
