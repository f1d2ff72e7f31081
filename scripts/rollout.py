"""`rollout web` under the name that WebGym has for it; see `--help`."""

import sys
from pathlib import Path

# First, and without this folder: in it `rollout` would be this file.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.remove(str(Path(__file__).parent))

from rollout.cli import call_typed
from rollout.cli.web import web

if __name__ == "__main__":
    call_typed(web, sys.argv[1:], "rollout.py")
