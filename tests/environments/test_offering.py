"""Prompts for files that no run of ours made: from policy and tool lists, in the naming that the calls show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollout.environments.domains.domain import load_domain
from rollout.environments.domains.offering import Offering
from rollout.tasks.naming import prefixes
from rollout.trajectories.labels import NoPrompt, Prompt
from tests.cli import test_batch

datasets = test_batch.datasets


def offering(base: Path) -> Offering:
    return Offering(base / "policies", base / "tool_lists")


def names(prompt: Prompt) -> list[str]:
    assert json.loads(prompt.wire) == prompt.tools
    return [tool["function"]["name"] for tool in prompt.tools]


@pytest.mark.parametrize("name", ["LibraryDesk_LeaseDepot.jsonl", "LeaseDepot_LibraryDesk_output.jsonl"])
def test_combination_is_a_set_and_tools_are_named_as_in_our_runs(datasets: Path, name: str) -> None:
    base = datasets / "cross_domain"
    prompt = offering(base).prompt_of(Path(name), ())
    assert prompt.system == "Policy of both."
    domain = load_domain(base, Path(name).stem.removesuffix("_output"), [])
    assert prompt.wire == domain.toolset.wire
    assert all(isinstance(tool["function"]["parameters"], dict) for tool in prompt.tools)


def test_single_domain_has_bare_names(datasets: Path) -> None:
    prompt = offering(datasets / "single_domain").prompt_of(Path("x/LibraryDesk.jsonl"), {"add"})
    assert (prompt.system, names(prompt)) == ("Policy of LibraryDesk.", ["add", "list"])


def test_names_are_those_that_the_calls_in_the_file_have(datasets: Path) -> None:
    single = offering(datasets / "single_domain")
    assert names(single.prompt_of(Path("LibraryDesk.jsonl"), {"ld.add", "made_up"})) == ["ld.add", "ld.list"]
    lists = datasets / "cross_domain" / "tool_lists"
    (lists / "RoomBooker.json").write_text(json.dumps([test_batch.tool("book")]))
    (datasets / "cross_domain/policies/RoomBooker_LibraryDesk.md").write_text("P")
    cross = offering(datasets / "cross_domain")
    file = Path("LibraryDesk_RoomBooker.jsonl")
    assert names(cross.prompt_of(file, {"rb.book", "ld.add"})) == ["ld.add", "ld.list", "rb.book"]
    assert names(cross.prompt_of(file, {"book", "add"})) == ["add", "list", "book"]
    assert names(cross.prompt_of(file, {"book", "rb_book"})) == ["ld_add", "ld_list", "rb_book"], (
        "ours where it is even"
    )


def test_shared_initials_leave_no_tool_out(datasets: Path) -> None:
    found = names(offering(datasets / "cross_domain").prompt_of(Path("LibraryDesk_LeaseDepot.jsonl"), {"ld.add"}))
    short = prefixes(["LibraryDesk", "LeaseDepot"])
    assert found == [f"{short[server]}_{tool}" for server in ("LibraryDesk", "LeaseDepot") for tool in ("add", "list")]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("HRPortal.jsonl", r"no policy in .*policies: expected HRPortal\.md"),
        ("Nowhere.jsonl", "made of no tool lists in .*: HRPortal, LeaseDepot, LibraryDesk"),
        ("LibraryDesk_LeaseDepot.jsonl", r"expected LibraryDesk_LeaseDepot\.md, its names in any order"),
    ],
)
def test_missing_policy_is_an_error_and_never_a_default_text(datasets: Path, name: str, told: str) -> None:
    with pytest.raises(NoPrompt, match=told):
        offering(datasets / "single_domain").prompt_of(Path(name), ())
