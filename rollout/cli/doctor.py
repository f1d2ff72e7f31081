"""`rollout doctor`: is this machine ready?"""

from __future__ import annotations

import sys

from rollout.cli import options as o
from rollout.cli.exit_codes import EXIT_FAILED


def doctor(as_json: o.AsJson = False, no_colors: o.NoColors = False) -> None:
    """Look at this machine: versions, extras, Chromium, sandbox, disk; say what is missing and how to get it.

        rollout doctor

        rollout doctor --json

    Exit code 0 where everything that is required is there, also if something optional is missing; else 1.
    """
    from rollout.pipelines.checks.doctor import examine, is_sound
    from rollout.terminal.console import make_console, print_json
    from rollout.terminal.findings import show_findings

    findings = examine()
    if as_json:
        print_json({"ok": is_sound(findings), "findings": findings})
    else:
        show_findings(make_console(no_colors), findings)
    sys.exit(0 if is_sound(findings) else EXIT_FAILED)
