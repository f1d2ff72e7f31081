"""Runs from Python show and log what the command does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import rollout
from tests.api.shop import Cart, busy_shop, seller


def test_verbose_prints_the_conversations(capsys: pytest.CaptureFixture[str]) -> None:
    rollout.run(busy_shop, model="builtin/oracle", limit=1, progress=False, config={"verbose": True})
    printed = capsys.readouterr().out
    assert "Two mugs and a lamp, please." in printed
    assert 'add({"item":"lamp"})' in printed


def test_the_log_file_of_the_configuration_is_written_and_closed(tmp_path: Path) -> None:
    async def broken(request: rollout.Request) -> Any:
        raise RuntimeError("no such luck")

    file = tmp_path / "logs" / "run.log"
    rollout.run(busy_shop, model=broken, limit=1, progress=False, config={"log_file": file})
    assert "no such luck" in file.read_text()
    size = file.stat().st_size
    rollout.run(busy_shop, model=broken, limit=1, progress=False)
    assert file.stat().st_size == size


def test_an_unusable_log_file_is_named() -> None:
    Path("file").write_text("")
    with pytest.raises(rollout.ConfigError, match=r"log_file: file/run\.log cannot be written"):
        rollout.run(busy_shop, model=seller, progress=False, config={"log_file": "file/run.log"})


def test_a_person_talks_to_one_attempt_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = 0
    seen: list[int] = []

    class Counted(Cart):
        def setup(self) -> None:
            nonlocal opened
            opened += 1

    class Keyboard(io.StringIO):
        def readline(self, size: int | None = -1) -> str:
            seen.append(opened)
            return "\n"

    monkeypatch.setattr("sys.stdin", Keyboard())
    carts = rollout.Environment(tasks=[rollout.Task(f"t{n}", "Hello.") for n in range(4)], world=Counted)
    run = rollout.run(carts, model=seller, user={"kind": "person"}, progress=False)
    assert (seen, run.finished) == ([1, 2, 3, 4], 4)


def test_a_refused_call_leaves_no_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(rollout.ConfigError, match="max_turns"):
        rollout.run(busy_shop, model=seller, max_turns=-1)
    assert list(tmp_path.iterdir()) == []


def test_the_notice_of_built_in_models_names_the_arguments_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    rollout.run(busy_shop, model="builtin/oracle", limit=1)
    assert 'For real data, name your own: model="openai/…"' in capsys.readouterr().err
