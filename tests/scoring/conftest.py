"""Commands called in this process, so that dozens of them take seconds; `tests/cli` has them as processes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from rollout.cli import main


class Done(msgspec.Struct):
    """What a command did."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def rollout(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`rollout("score", "run")`."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = 0
        try:
            main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call
