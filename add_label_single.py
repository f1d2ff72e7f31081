"""Add system prompt and tools to the trajectories of single domains, as AgentSkiller does; see `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rollout.cli import call_typed
from rollout.cli.label import label_single

if __name__ == "__main__":
    call_typed(label_single, sys.argv[1:], "add_label_single.py")
