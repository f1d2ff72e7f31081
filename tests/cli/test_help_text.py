"""What `-h` shows: whole names of options, paragraphs without ragged lines, commands that can be pasted."""

from __future__ import annotations

import re

import pytest

from rollout.cli import COMMANDS
from rollout.cli.completion import load_function
from rollout.cli.help_text import help_of
from tests.cli.in_process import rollout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_eighty_columns_and_cuts_no_option(name: str) -> None:
    said = rollout(name, "--help", columns=80).stdout
    assert max(map(len, said.splitlines())) <= 80
    assert re.findall(r"--[a-z-]*…", said) == []
    examples = [line for line in said.splitlines() if re.match(r" *rollout [a-z-]+ ", line)]
    assert all(line.startswith("     rollout ") for line in examples), examples


def test_a_long_command_goes_on_behind_a_backslash_and_an_option_keeps_its_value() -> None:
    def command() -> None:
        """Do it.

        A paragraph that was
        wrapped in the source:

            rollout do something --first-option with-a-value --second-option with-another
            --third x
        """

    lines = help_of(command, 60).splitlines()
    assert lines[2] == "A paragraph that was wrapped in the source:"
    assert lines[4:] == [
        "    rollout do something --first-option with-a-value \\",
        "        --second-option with-another --third x",
    ]


def test_every_docstring_begins_with_one_paragraph_of_summary() -> None:
    for place, _ in COMMANDS.values():
        assert not help_of(load_function(place), 80).startswith((" ", "For example"))
