"""The terminal obeys nobody but us: text of models, tools and files is shown, never executed."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from rollout.agents.users.person import PersonUser
from rollout.core.errors import ModelError
from rollout.core.messages import Message, ToolCall
from rollout.core.printable import printable
from rollout.terminal.console import SafeConsole, print_json, show_error, show_warning
from rollout.terminal.log_lines import set_up_logging
from rollout.terminal.tables import side_by_side
from rollout.terminal.verbose import VerbosePrinter
from rollout.trajectories.generation import Generation
from rollout.trajectories.tree import NodeBody

HOSTILE = (
    "a\x1b[2Jb\x1b]0;owned\x07c\x1b]52;c;ZXZpbA==\x1b\\d\x1bPq#0\x1b\\e\x9b31mf\x9d8;;http://x\x9cg\rh\x08i\x00j\x7fk"
    "\u202el\u2066m\ud800n"
)
CLEAN = "abcdefghijklmn"
OURS = re.compile(r"\x1b\[[0-9;]*m")


def screen(*, is_terminal: bool = True) -> tuple[SafeConsole, io.StringIO]:
    shown = io.StringIO()
    return SafeConsole(file=shown, force_terminal=is_terminal, color_system="standard", width=200), shown


def assert_harmless(shown: str) -> None:
    rest = OURS.sub("", shown)
    bad = [char for char in rest if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not bad, bad
    assert "\u202e" not in rest
    assert "\u2066" not in rest


def test_control_sequences_are_removed_and_every_letter_stays() -> None:
    assert printable(HOSTILE) == CLEAN
    assert printable("tabs\tand\nnewlines, ünïcödé, 漢字, 👍 stay") == "tabs\tand\nnewlines, ünïcödé, 漢字, 👍 stay"


@given(st.text(st.sampled_from("\x1b\x9b\x9d\x9c\x07[]P\\;0m\n\r\u202eaZ\ud800"), max_size=40))
def test_nothing_that_a_terminal_obeys_is_left_of_any_text(text: str) -> None:
    assert_harmless(printable(text))
    assert printable(printable(text)) == printable(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_for_programs_is_harmless_on_a_terminal_and_says_the_same(text: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        print_json({text: text})
    assert_harmless(output.getvalue())
    assert json.loads(output.getvalue()) == {text: text}


def test_verbose_shows_hostile_messages_tools_and_ids_without_their_commands() -> None:
    console, shown = screen()
    printer = VerbosePrinter(console)
    printer.episode_began(HOSTILE, HOSTILE, [Message(role="user", content=HOSTILE)], False)
    call = ToolCall("1", HOSTILE, f'{{"[link=file:///etc]x": "{HOSTILE}"}}')
    said = Message(role="assistant", content=f"[bold]{HOSTILE}[/bold] :skull:", tool_calls=(call,), reasoning=HOSTILE)
    printer.node_added(HOSTILE, HOSTILE, NodeBody("generation", generation=Generation(said), marks=(HOSTILE,)))
    printer.node_added(HOSTILE, HOSTILE, NodeBody("tool", message=Message(role="tool", content=HOSTILE)))
    printer.episode_ended(HOSTILE, HOSTILE, None)
    assert_harmless(shown.getvalue())
    plain = OURS.sub("", shown.getvalue())
    assert plain.count("defghijklmn") >= 9, "what is said is still shown"
    assert "[bold]a" in plain, "markup is shown as it is written"
    assert "n[/bold] :skull:" in plain, "and so are emoji codes"
    assert "[link=file:///etc]x" in plain


def test_names_in_tables_and_titles_command_nothing() -> None:
    console, shown = screen()
    console.print(side_by_side(console, HOSTILE, {f"[red]{HOSTILE}": {"planned": HOSTILE, "[link=http://x]": "1"}}))
    table = Table(title=f"[bold]{HOSTILE}", caption=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(f"[conceal]{HOSTILE}")
    console.print(table)
    console.print(f"stop reasons: [on red]{HOSTILE}", highlight=False)
    assert_harmless(shown.getvalue())
    for written in ("[red]", "[bold]", "[conceal]", "[on red]", "[link=http://x]"):
        assert written in OURS.sub("", shown.getvalue())


def test_errors_and_warnings_command_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(SafeConsole(), ModelError(f"agent: HTTP 500: {HOSTILE}"))
    show_warning(HOSTILE)
    shown = capsys.readouterr().err
    assert_harmless(shown)
    assert shown.count("defghijklmn") == 2


@pytest.fixture
def _own_logging() -> Iterator[None]:
    root = logging.getLogger("rollout")
    before = (root.level, root.handlers[:], root.propagate)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    root.propagate = before[2]


@pytest.mark.usefixtures("_own_logging")
def test_log_lines_command_nothing_on_the_terminal_or_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console, shown = screen()
    set_up_logging("INFO", tmp_path / "log", console)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("rollout.models").exception("[link=x]%s", HOSTILE)
    assert_harmless(shown.getvalue())
    assert OURS.sub("", shown.getvalue()).count(CLEAN) == 2, "the line and the error's own text"
    written = (tmp_path / "log").read_text()
    assert_harmless(written)
    assert written.count(CLEAN) == 2
    assert "Logging error" not in capsys.readouterr().err


@pytest.mark.usefixtures("_own_logging")
def test_endless_messages_are_cut_on_the_terminal_and_whole_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console, shown = screen()
    set_up_logging("INFO", tmp_path / "log", console)
    text = "B" * 5_000_000
    logging.getLogger("rollout.models").warning("answered %s", text)
    show_error(console, ModelError(text))
    show_warning(text)
    assert "(5,000,009characters)" in "".join(OURS.sub("", shown.getvalue()).split())
    assert len(shown.getvalue()) + len(capsys.readouterr().err) < 50_000
    assert text in (tmp_path / "log").read_text()


async def test_a_person_is_shown_the_assistants_words_without_their_commands() -> None:
    shown: list[str] = []

    def ask(prompt: str) -> str:
        shown.append(prompt)
        return "bye"

    await PersonUser(ask, brief=HOSTILE).reply([Message(role="assistant", content=HOSTILE)])
    assert_harmless(shown[0])
    assert shown[0].count(CLEAN) == 2


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_file_on_a_full_disk_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    console, _ = screen()
    set_up_logging("INFO", Path("/dev/full"), console)
    for number in range(3):
        logging.getLogger("rollout.models").info("line %d", number)
    shown = " ".join(capsys.readouterr().err.split())
    assert shown.count("log_file: /dev/full cannot be written: No space left on device") == 1
    assert "Traceback" not in shown


def test_many_datasets_stand_in_80_columns_a_line_each() -> None:
    row = {
        "planned": "64",
        "completed": "63",
        "truncated": "1",
        "solved": "56 (88%)",
        "turns": "164",
        "tool calls": "445",
    }
    rows = {name: {**row, "planned": str(number)} for number, name in enumerate(("A" * 46, "B" * 30, "C", "D"))}
    rows["D"] = dict.fromkeys(row, "1342")
    console, shown = screen(is_terminal=False)
    console.width = 80
    console.print(side_by_side(console, "done", rows))
    lines = OURS.sub("", shown.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "445" in line and "63" in line]
