"""`rollout check-domain`: what cannot be solved is found before anybody tries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.environments.domains.domain import SHIPPED
from rollout.tasks.discovery import list_combinations
from tests.conftest import Command
from tests.scoring.desk import query, write_library

RENEW = ("renew_loan", {"loan_id": "L1", "confirm": True})
NAMES = [
    one.name
    for folder in sorted(SHIPPED.iterdir())
    if (folder / "queries").is_dir()
    for one in list_combinations(folder)
]


@pytest.mark.parametrize("name", NAMES)
def test_every_query_of_a_shipped_domain_can_be_solved(name: str, rollout: Command) -> None:
    done = rollout("check-domain", name)
    assert done.code == 0, done.out + done.err
    assert "problem" not in done.out


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (query("q", [("renew_loan", {"loan_id": "NOPE", "confirm": True})]), "action 0 (renew_loan) failed"),
        (query("q", [("renew_lone", {"loan_id": "L1"})]), "action 0 (renew_lone) cannot be called"),
        (query("q", [("renew_loan", {"loan": "L1"})]), "action 0 (renew_loan) cannot be called"),
        (query("q", [("list_loans", {}), ("return_loan", {"loan_id": {"$from": "0/books/0"}})]), "leads nowhere"),
        (query("q", [("list_loans", {})], kind="update"), "changes nothing, although the kind is 'update'"),
        (query("q", [RENEW], minefields=[{"table": "Loan", "row": {"status": "renewed"}}]), "enters the minefield"),
        (query("q", [RENEW], milestones=[{"table": "Loan", "removed": {}}]), "does not reach the milestone"),
        (query("q", [RENEW], milestones=[{"tabel": "Loan"}]), "milestones or minefields"),
        (query("q", [RENEW], scoring={"ignored": {}}), "task_info.scoring"),
        (query("q", [RENEW], scoring={"decide": ["status"]}), "there is no scorer status"),
    ],
)
def test_query_that_cannot_be_solved_is_named_with_its_reason(
    tmp_path: Path, broken: Any, said: str, rollout: Command
) -> None:
    base = write_library(tmp_path / "data", [query("good", [RENEW], kind="update"), broken])
    done = rollout("check-domain", "LibraryDesk", "--base-path", str(base))
    assert done.code == 1
    (line,) = (line for line in done.out.splitlines() if line.startswith("problem"))
    assert line.startswith("problem q: ")
    assert said in line


def test_duplicate_ids_and_bad_lines_are_problems_with_their_place(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", [query("a", [RENEW]), query("a", [RENEW])])
    with (base / "queries" / "LibraryDesk.jsonl").open("a") as file:
        file.write("{not json\n")
    done = rollout("check-domain", "LibraryDesk", "--base-path", str(base))
    assert done.code == 1
    problems = [line for line in done.out.splitlines() if line.startswith("problem")]
    assert ["LibraryDesk.jsonl:2" in problems[0], "LibraryDesk.jsonl:3" in problems[1]] == [True, True]


def test_what_is_worth_a_look_is_a_remark_and_idle_passes_are_a_class(tmp_path: Path, rollout: Command) -> None:
    queries = [
        query("idle", [], kind="refuse"),
        query("reads", [("list_loans", {})], kind="read"),
        query("told", [("list_loans", {})], kind="read", communicate=["Atlas"]),
        query("untold", [("list_loans", {})], kind="read", communicate=["Zebra"]),
        query("writes", [RENEW], kind="read"),
        {"id": "plain", "messages": [{"role": "user", "content": "Hi"}]},
    ]
    base = write_library(tmp_path / "data", queries)
    done = rollout("check-domain", "LibraryDesk", "--base-path", str(base), "--verbose")
    assert done.code == 0, done.out
    assert "an idle agent passes: idle\n" in done.out
    assert "remark untold: communicate 'Zebra' is in no tool result and in no reply" in done.out
    assert "remark writes: the reference changes rows, although the kind is 'read'" in done.out
    assert "remark plain: no reference actions" in done.out
    assert "told  read  1 actions  0 rows changed  idle fails" in done.out
    assert "reads  read  1 actions  0 rows changed  idle fails" in done.out, "then what was called decides"


def test_combination_is_checked_in_any_order_with_tools_by_their_servers(tmp_path: Path, rollout: Command) -> None:
    both = [("LibraryDesk.renew_loan", RENEW[1]), ("RoomBooker.book_room", {"room": "A", "day": "Mon"})]
    base = write_library(tmp_path / "data", [query("both", both, kind="multi_write")], "LibraryDesk_RoomBooker")
    for name in ("LibraryDesk_RoomBooker", "RoomBooker_LibraryDesk"):
        done = rollout("check-domain", name, "--base-path", str(base), "--verbose")
        assert done.code == 0, done.out + done.err
        assert "both  multi_write  2 actions  3 rows changed  idle fails" in done.out


def test_names_that_mean_nothing_are_errors(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", [query("a", [RENEW])])
    for arguments, said in (
        (("Desk", "--base-path", str(base)), "there are: LibraryDesk"),
        ((), "NAME... or --all"),
        (("--all", "--base-path", str(tmp_path)), "no queries here"),
    ):
        done = rollout("check-domain", *arguments)
        assert done.code == 2
        assert said.replace("NAME... or", "NAME..., or") in done.err
