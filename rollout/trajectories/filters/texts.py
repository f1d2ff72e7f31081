"""Measures of a text that need no understanding: its words, how much repeats, how much is garbage.

Words are lower-case runs of letters and digits. Scripts that set no spaces give a word for each character, and an
endless run gives pieces of equal length, so that repetition shows in all of them.
"""

from __future__ import annotations

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
_IN_WORDS = [chr(code).isalnum() or chr(code) == "_" for code in range(128)]
_LOWER = bytes(ord(chr(code).lower()) if is_word else 0x20 for code, is_word in enumerate(_IN_WORDS)) + bytes(128)
"""Of each ASCII character the lower case, and a space for all that is no part of a word."""
_SHAPE = bytes(0x78 if is_word else 0x20 for is_word in _IN_WORDS) + bytes(128)
"""The same with one letter for all."""
_LONG_WORD, _LONG_GAP = b"x" * (LONGEST_WORD + 1), b" " * (LONGEST_WORD + 1)
_TOKEN = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+|[^\w\s]")
_PLAIN = re.compile(r"[\x20-\x7e\n\r\t]+")
_PLAIN_ASCII = bytes([*range(0x20, 0x7F), *b"\n\r\t"])
_GARBAGE = frozenset({"Cc", "Co", "Cs"})
_SYMBOLS = frozenset({"Sc", "Sm", "So"})


def words(text: str) -> list[str]:
    """The words of a text."""
    if text.isascii():
        # Four times as quick as the pattern, which is needed for other scripts and for long runs of signs.
        encoded = text.encode()
        shape = encoded.translate(_SHAPE)
        if _LONG_WORD not in shape and _LONG_GAP not in shape:
            return encoded.translate(_LOWER).decode().split()
    found: list[str] = _WORD.findall(text.lower())
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
    """About how many tokens a text has, where there is no count: words, signs, characters of spaceless scripts."""
    return len(_TOKEN.findall(text))


def measure_repetition(found: Sequence[str], n: int) -> float:
    """The share of the n-grams of these words that were there before: 0 where none repeats."""
    if len(set(found)) == len(found):
        return 0.0
    grams = list(zip(*[found[start:] for start in range(n)], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def most_repeated(found: Sequence[str], n: int) -> tuple[str, int]:
    """The n-gram that these words repeat most often, and how often it comes. There is one."""
    grams = Counter(zip(*(found[start:] for start in range(n)), strict=False))
    # Of those that come equally often the first one is named.
    gram, times = max(grams.items(), key=lambda entry: entry[1])
    return " ".join(gram), times


def count_garbled(text: str) -> int:
    """Characters that no writer means: control and private ones, halves of others, the sign for what was lost."""
    if text.isascii() and not text.encode().translate(None, _PLAIN_ASCII):
        return 0
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
