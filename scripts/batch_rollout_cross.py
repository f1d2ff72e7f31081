"""`rollout cross` under the name that AgentSkiller's rollout has for it, with its output folder; see `--help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rollout.cli import call_typed
from rollout.cli.cross import cross

if __name__ == "__main__":
    call_typed(cross, sys.argv[1:], "batch_rollout_cross.py", output_dir=Path("outputs_cross_domain_0114"))
