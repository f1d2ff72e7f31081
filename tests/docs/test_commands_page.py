"""docs/reference/commands.md is what the commands themselves say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout.cli import COMMANDS, USAGE
from rollout.cli.completion import as_command, load_function
from rollout.cli.exit_codes import EXIT_CODES
from rollout.cli.reference import describe_commands
from tests.conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_commands_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == describe_commands(), "run: python -m rollout.cli.reference > docs/reference/commands.md"


def test_the_page_has_every_command_and_every_exit_code() -> None:
    text = PAGE.read_text()
    assert [name for name in COMMANDS if f"## `rollout {name}`" not in text] == []
    assert [code for code in EXIT_CODES if f"| {code} |" not in text or code not in USAGE] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_examples_and_the_short_option_for_help(name: str, rollout: Command) -> None:
    done = rollout(name, "-h")
    assert done.code == 0
    assert f"rollout {name}" in done.out.partition("\n")[2].replace("Usage:", ""), "an example"


def test_an_option_says_the_same_in_every_command() -> None:
    """Different words under one name would be different meanings."""
    shared = {"--limit", "--set", "--dataset", "--agent-model", "--user-model", "--samples", "--strategy", "--resume"}
    shared |= {"--success", "--status", "--stop-reason", "--split", "--filters", "--json", "--no-colors"}
    said: dict[str, set[str]] = {}
    for place, _ in COMMANDS.values():
        for param in as_command(load_function(place)).params:
            for option in shared.intersection(param.opts):
                said.setdefault(option, set()).add(param.help or "")
    assert {option: texts for option, texts in said.items() if len(texts) > 1} == {}
    assert said.keys() == shared
