"""Checks that need no model: the tasks can be solved, and the tools keep their rules."""

from __future__ import annotations

import pytest
from library import Library, library

import rollout


def test_every_task_is_solved_by_its_reference_actions() -> None:
    run = rollout.run(library, model="builtin/oracle", progress=False)
    assert run.finished == 3
    assert run.solved == 3


def test_a_book_that_is_out_is_not_lent() -> None:
    with pytest.raises(ValueError, match="no copy of 'Ulysses'"):
        Library().lend_book("Ulysses", "Ada")
