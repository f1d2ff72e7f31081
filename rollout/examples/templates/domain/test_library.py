"""Checks that need no model: the tools do what the policy says, and the tasks can be solved."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_servers.Library import LibraryServer

import rollout


def test_a_lent_book_is_off_the_shelf() -> None:
    server = LibraryServer()
    server.invoke("s", "lend_book", title="Emma", member="Grace")
    assert server.invoke("s", "find_book", title="Emma")["copies"] == 0
    with pytest.raises(ValueError, match="no copy of 'Emma'"):
        server.invoke("s", "lend_book", title="Emma", member="Ada")


def test_sessions_share_nothing() -> None:
    server = LibraryServer()
    server.invoke("one", "lend_book", title="Emma", member="Grace")
    assert server.invoke("two", "find_book", title="Emma")["copies"] == 1


def test_every_task_is_solved_by_its_reference_actions(tmp_path: Path) -> None:
    run = rollout.run(
        "project.yml", samples=1, run_dir=tmp_path / "run", output_path=tmp_path / "out.jsonl", progress=False
    )
    assert run.finished == 3
    assert run.solved == 3
