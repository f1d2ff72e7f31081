"""The reference of the public API is what the docstrings say."""

from __future__ import annotations

import rollout
from rollout.api.reference import SECTIONS, describe
from tests.docs.test_docs import ROOT


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8") == describe(), (
        "run: python -m rollout.api.reference > docs/reference/api.md"
    )


def test_every_public_name_is_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(rollout.__all__)


def test_every_method_has_a_description() -> None:
    page = describe()
    entries = page.split("\n#### ")[1:]
    silent = [entry.split("\n")[0] for entry in entries if entry.split("```\n")[-1].split("\n### ")[0].strip() == ""]
    assert silent == []
