"""What can be measured on a text without understanding it: its words, how much repeats, how much is garbage.

Words are lower-case runs of letters and digits. Scripts that set no spaces give a word for each character, and an
endless run gives pieces of equal length, so that repetition shows in all of them.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

LONGEST_WORD = 40
PIECE = 8
GARBLED_SHARE = 0.1
QUOTE = 160
WORDS_AT_HAND = 100_000
"""Words whose numbers are kept."""
_SPACELESS = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+|[^\w\s]{{{LONGEST_WORD + 1},}}")
_ASCII_SPACES = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
_LONG_RUN = " " * (LONGEST_WORD + 1)
_TOKEN = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+|[^\w\s]")
_PLAIN = re.compile(r"[\x20-\x7e\n\r\t]+")
_GARBAGE = frozenset({"Cc", "Co", "Cs"})
_SYMBOLS = frozenset({"Sc", "Sm", "So"})


def words(text: str) -> list[str]:
    """The words of a text."""
    lower = text.lower()
    spaced = lower.translate(_ASCII_SPACES) if lower.isascii() else _LONG_RUN
    # Three times as quick as the pattern, which is needed for other scripts and for long runs of signs.
    found: list[str] = spaced.split() if _LONG_RUN not in spaced else _WORD.findall(lower)
    if max(map(len, found), default=0) <= LONGEST_WORD:
        return found
    return [
        piece
        for word in found
        for piece in (
            (word,)
            if len(word) <= LONGEST_WORD
            else (word[start : start + PIECE] for start in range(0, len(word), PIECE))
        )
    ]


def count_tokens(text: str) -> int:
    """About how many tokens a text has, where nobody counted them: words, signs, characters of spaceless scripts."""
    return len(_TOKEN.findall(text))


@functools.lru_cache(16)
def measure_repetition(text: str, n: int) -> tuple[int, float]:
    """How many words a text has, and the share of its n-grams that were there before: 0 where none repeats.

    The facts of a turn and the filter ask for the same, one after the other.
    """
    found = words(text)
    if len(set(found)) == len(found):
        return len(found), 0.0
    grams = list(zip(*[found[start:] for start in range(n)], strict=False))
    return len(found), 1 - len(set(grams)) / len(grams) if grams else 0.0


def most_repeated(text: str, n: int) -> tuple[str, int]:
    """The n-gram that a text repeats most often, and how often it comes. The text has one."""
    found = words(text)
    grams = Counter(zip(*(found[start:] for start in range(n)), strict=False))
    # Of those that come equally often the first one is named.
    gram, times = max(grams.items(), key=lambda entry: entry[1])
    return " ".join(gram), times


def count_garbled(text: str) -> int:
    """Characters that no writer means: control and private ones, halves of others, the sign for what was lost."""
    odd = _PLAIN.sub("", text)
    return sum(1 for character in odd if character == "\ufffd" or unicodedata.category(character) in _GARBAGE)


def is_garbled(text: str) -> bool:
    """Whether a text that is there says nothing: garbage, or signs without a letter, a digit or a symbol."""
    if not text.strip():
        return False
    if count_garbled(text) > GARBLED_SHARE * len(text):
        return True
    return not any(character.isalnum() or unicodedata.category(character) in _SYMBOLS for character in text)


class _Numbers(dict[str, int]):
    """A number for each word, the same in every process: Python's own hash of a text is not."""

    def __missing__(self, word: str) -> int:
        if len(self) >= WORDS_AT_HAND:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        number = self[word] = int.from_bytes(digest, "little")
        return number


_numbers = _Numbers()


def shingles(found: Sequence[str], n: int) -> list[int]:
    """The n-grams of these words as signed 64-bit numbers, in their order. A shorter text is one n-gram."""
    if not found:
        return []
    numbers = list(map(_numbers.__getitem__, found))
    if len(numbers) <= n:
        return [hash(tuple(numbers))]
    return list(map(hash, zip(*[numbers[start:] for start in range(n)], strict=False)))


def quote(text: str, around: str | None = None) -> str:
    """A piece of a text as evidence: on one line, not too long, and with `around` in it where that is given."""
    start = 0
    if around is not None and (place := text.find(around)) > QUOTE // 2:
        start = place - QUOTE // 4
    piece = " ".join(text[start : start + 2 * QUOTE].split())
    cut = piece if len(piece) <= QUOTE else piece[: QUOTE - 1] + "…"
    return f"…{cut}" if start else cut
