"""`rollout run` as AgentSkiller spells it: `run.py --config FILE [--resume] [--dataset X] [--verbose]`.

The same as `rollout run`; see `python run.py --help`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rollout.cli import call_typed
from rollout.cli.run import run_by_option

if __name__ == "__main__":
    call_typed(run_by_option, sys.argv[1:], "run.py")
