"""Messages on a terminal are broken between words; a path is never broken, and a pipe gets lines as they are."""

from __future__ import annotations

import io

from rich.text import Text

from rollout.terminal.console import SafeConsole, in_whole_words

LONG = "warning 77 trajectories were made by builtin/oracle: they show the format; do not train on them"
PATH = "/a/very/long/path/to/a/file/that/is/wider/than/the/terminal/itself.jsonl"


def test_lines_end_between_words_and_lose_nothing() -> None:
    lines = in_whole_words(LONG, 40).plain.split("\n")
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == LONG


def test_a_word_that_is_wider_than_the_terminal_stays_whole() -> None:
    lines = in_whole_words(f"cannot write {PATH}: no space", 40).plain.split("\n")
    assert lines == ["cannot write", f"{PATH}:", "no space"]


def test_indents_blank_lines_and_styles_stay() -> None:
    text = in_whole_words(Text.assemble(("error ", "red"), "one\n\n  two three"), 8)
    assert text.plain == "error\none\n\n  two\nthree"
    assert any(str(span.style) == "red" for span in text.spans)


def test_only_a_terminal_gets_breaks() -> None:
    for is_terminal, lines in ((True, 3), (False, 1)):
        console = SafeConsole(file=io.StringIO(), width=40, force_terminal=is_terminal, color_system=None)
        console.print(LONG, soft_wrap=True, highlight=False)
        assert isinstance(console.file, io.StringIO)
        assert len(console.file.getvalue().splitlines()) == lines
