"""Add system prompt and tools to the trajectories of cross domains, as AgentSkiller does; see `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rollout.cli import call_typed
from rollout.cli.label import label_cross

if __name__ == "__main__":
    call_typed(label_cross, sys.argv[1:], "add_label_cross.py")
