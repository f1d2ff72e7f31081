"""Public text is plain technical English: no phrase of the house dialect is in it."""

from __future__ import annotations

from pathlib import Path

from tests.docs.prose import faults, prose_of_module, prose_of_page


def test_no_public_text_contains_the_dialect() -> None:
    assert list(faults()) == []


def test_phrases_are_found_in_pages_and_modules_but_not_in_code(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("It starts anew.\n\n```python\nanew = 1\n```\n`anew` is a name.\n")
    (tmp_path / "rollout").mkdir()
    module = '"""What it does."""\nanew = 1  # starts anew\nraise ValueError("is not to be had")\n'
    (tmp_path / "rollout" / "one.py").write_text(module)
    assert [fault.split(": write")[0] for fault in faults(tmp_path)] == [
        "README.md:1: 'anew'",
        "rollout/one.py:1: begins with 'What': say what the module is for",
        "rollout/one.py:2: 'anew'",
        "rollout/one.py:3: 'to be had'",
    ]


def test_only_prose_is_read() -> None:
    assert list(prose_of_page("a `b` c\n```\nd\n```\ne")) == [(1, "a `` c"), (5, "e")]
    assert [text for _, text in prose_of_module('x = "key"\ny = "two words"  # why\n')] == ['"two words"', "# why"]
