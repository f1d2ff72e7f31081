"""Snippets: the text around the first match of a search, read from the journal.

The index holds no text, so the messages of the few attempts that are shown are looked through again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import msgspec

from rollout.core.errors import RolloutError
from rollout.viewer.answers.rows import SnippetPart
from rollout.viewer.index.queries import Term
from rollout.viewer.index.rows import searchable, texts_of
from rollout.viewer.open_runs import OpenRun

BEFORE, AFTER = 20, 120
"""Characters around what was found. Few before it: a row of the table shows about forty."""
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W_]")


class Snippet(msgspec.Struct, frozen=True):
    """A piece of a message."""

    message: int
    parts: tuple[SnippetPart, ...]


def find_snippet(run: OpenRun, dataset: str, trajectory: str, terms: Sequence[Term]) -> Snippet | None:
    """The first match of any of these terms in an attempt; None if the attempt cannot be read."""
    patterns = [[_plain(word) for word in _WORD.findall(searchable(term.text))] for term in terms]
    try:
        with run.reading_of(trajectory) as journal:
            messages = journal.messages(dataset, trajectory)
            for number, message in enumerate(messages):
                for text in texts_of(message):
                    if (snippet := _in_text(number, text, terms, patterns)) is not None:
                        return snippet
    except RolloutError:
        return None
    return None


def _in_text(number: int, text: str, terms: Sequence[Term], patterns: Sequence[Sequence[str]]) -> Snippet | None:
    words = [(found.start(), found.end(), _plain(found[0])) for found in _words(text)]
    spans: list[tuple[int, int]] = []
    for place in range(len(words)):
        for term, pattern in zip(terms, patterns, strict=True):
            if pattern and _stands(words, place, pattern, term.is_prefix):
                spans.append((words[place][0], words[place + len(pattern) - 1][1]))
                break
        if spans and words[place][0] > spans[0][1] + AFTER:
            break
    if not spans:
        return None
    begin, end = max(0, spans[0][0] - BEFORE), min(len(text), spans[0][1] + AFTER)
    parts = [SnippetPart("…", False)] if begin else []
    place = begin
    for first, last in spans:
        if first >= place and last <= end:
            parts += [SnippetPart(text[place:first], False), SnippetPart(text[first:last], True)]
            place = last
    parts.append(SnippetPart(text[place:end] + ("…" if end < len(text) else ""), False))
    return Snippet(number, tuple(part for part in parts if part.text))


def _words(text: str) -> list[re.Match[str]]:
    found = []
    for word in _WORD.finditer(text):
        if word[0].isascii() or searchable(word[0]) == word[0]:
            found.append(word)
        else:
            # Letters of a script without spaces are words of their own, as in the index.
            found += _LETTER.finditer(text, word.start(), word.end())
    return found


def _stands(words: Sequence[tuple[int, int, str]], place: int, pattern: Sequence[str], is_prefix: bool) -> bool:
    if place + len(pattern) > len(words):
        return False
    for offset, wanted in enumerate(pattern):
        word = words[place + offset][2]
        is_last = offset == len(pattern) - 1
        if word != wanted and not (is_last and is_prefix and word.startswith(wanted)):
            return False
    return True


def _plain(word: str) -> str:
    """A word as the index has it: in lower case, without accents."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char))
