"""The seed's entry point for cross domains: the same as `rollout cross`; see `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rollout.cli import call_typed
from rollout.cli.cross import cross

if __name__ == "__main__":
    call_typed(cross, sys.argv[1:], "batch_rollout_cross.py")
