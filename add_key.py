"""`add_key.py` of AgentSkiller: labelled trajectories as records ready to be tokenised; see `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rollout.cli import call_typed
from rollout.cli.export import add_key

if __name__ == "__main__":
    call_typed(add_key, sys.argv[1:], "add_key.py")
