"""Names: acronyms, shared initials, any order; legal for every provider."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.tasks.naming import match_server, offered_name, prefixes, split_fused

KNOWN = ["StudentAcademicPortal", "HRPortal", "LibraryDesk", "LeaseDepot", "JobApplicationManagerPro"]


@pytest.mark.parametrize(
    ("spelling", "server"),
    [
        ("student_academic_portal", "StudentAcademicPortal"),
        ("student_academic_portal_mcp", "StudentAcademicPortal"),
        ("StudentAcademicPortalServer", "StudentAcademicPortal"),
        ("hr_portal", "HRPortal"),
        ("HRPortal", "HRPortal"),
        ("hrportal_mcp", "HRPortal"),
    ],
)
def test_server_is_found_however_it_is_spelt(spelling: str, server: str) -> None:
    assert match_server(spelling, KNOWN) == server


def test_unknown_server_is_none_not_a_guess() -> None:
    assert match_server("student_academic", KNOWN) is None


def test_fused_name_is_split_by_the_servers_that_exist() -> None:
    assert split_fused("JobApplicationManagerPro_HRPortal", KNOWN) == ["JobApplicationManagerPro", "HRPortal"]
    assert split_fused("Library_Desk_HRPortal", KNOWN) == ["LibraryDesk", "HRPortal"]
    assert split_fused("LibraryDesk_Nowhere", KNOWN) is None


def test_shared_initials_get_different_prefixes() -> None:
    made = prefixes(["LibraryDesk", "LeaseDepot", "HRPortal"])
    assert len(set(made.values())) == 3


names = st.lists(st.from_regex(r"[A-Z][A-Za-z0-9]{0,12}", fullmatch=True), min_size=1, max_size=6, unique=True)


@given(names, st.randoms())
def test_prefixes_are_unique_legal_and_depend_only_on_the_set(servers: list[str], chance: object) -> None:
    made = prefixes(servers)
    shuffled = list(servers)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert prefixes(shuffled) == made
    assert len(set(made.values())) == len(servers)
    for prefix in made.values():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", offered_name(prefix, "any.tool name"))


def test_long_tool_names_stay_within_what_providers_take() -> None:
    assert len(offered_name("abc", "x" * 200)) == 64
