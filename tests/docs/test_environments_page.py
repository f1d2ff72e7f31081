"""The page about environments of one's own: its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import Command, read_lines

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "environments.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_checked_run_and_scored_by_the_commands_of_the_page(rollout: Command) -> None:
    Path("shop.py").write_text(block("python"), encoding="utf-8")
    Path("shop.yml").write_text(block("yaml"), encoding="utf-8")
    for command in block("text").splitlines():
        done = rollout(*command.removeprefix("rollout ").split())
        assert done.code == 0, done.out + done.err
    lines = read_lines(Path("outputs/shop.jsonl"))
    assert [line["metadata"]["reward"] for line in lines] == [1.0] * 4
