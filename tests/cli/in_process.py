"""`rollout` without a process of its own. What is about the process itself starts one: `test_run`, `test_signals`."""

from __future__ import annotations

import contextlib
import io
from subprocess import CompletedProcess

import pytest

from rollout.cli import main


def rollout(*arguments: str, columns: int = 160) -> CompletedProcess[str]:
    """Run a command in this process, which takes a second less."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
    return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
