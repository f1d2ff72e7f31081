"""What can be measured on a text without understanding it: its words, how much repeats, how much is garbage.

Words are lower-case runs of letters and digits. Scripts that set no spaces give a word for each character, and an
endless run gives pieces of equal length, so that repetition shows in all of them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Sequence

import msgspec

LONGEST_WORD = 40
PIECE = 8
GARBLED_SHARE = 0.1
QUOTE = 160
_SPACELESS = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+|[^\w\s]{{{LONGEST_WORD + 1},}}")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_PLAIN = re.compile(r"[\x20-\x7e\n\r\t]+")
_GARBAGE = frozenset({"Cc", "Co", "Cs"})


class Repeated(msgspec.Struct, frozen=True):
    """How much of a text repeats itself."""

    ratio: float = 0.0
    """The share of its n-grams that were there before: 0 for a text that never repeats one."""
    ngram: str = ""
    """The one that comes most often."""
    times: int = 0


def words(text: str) -> list[str]:
    """The words of a text."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if len(word) <= LONGEST_WORD:
            found.append(word)
        else:
            found.extend(word[start : start + PIECE] for start in range(0, len(word), PIECE))
    return found


def count_tokens(text: str) -> int:
    """About how many tokens a text has, where nobody counted them: words and signs."""
    return len(_TOKEN.findall(text))


def measure_repetition(found: Sequence[str], n: int) -> Repeated:
    """How much the n-grams of these words repeat."""
    grams = Counter(zip(*(found[start:] for start in range(n)), strict=False))
    total = grams.total()
    if total == 0:
        return Repeated()
    # Of those that come equally often the first one is named.
    gram, times = max(grams.items(), key=lambda entry: entry[1])
    return Repeated(1 - len(grams) / total, " ".join(gram), times)


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
    return not any(character.isalnum() or unicodedata.category(character)[0] == "S" for character in text)


def shingles(found: Sequence[str], n: int) -> array[int]:
    """The n-grams of these words as numbers, each once, the same on every machine. A shorter text is one n-gram."""
    if not found:
        return array("Q")
    grams = {" ".join(found[start : start + n]) for start in range(max(1, len(found) - n + 1))}
    digests = (hashlib.blake2b(gram.encode("utf-8", "replace"), digest_size=8).digest() for gram in grams)
    return array("Q", sorted(int.from_bytes(digest, "little") for digest in digests))


def quote(text: str, around: str | None = None) -> str:
    """A piece of a text as evidence: on one line, not too long, and with `around` in it where that is given."""
    start = 0
    if around is not None and (place := text.find(around)) > QUOTE // 2:
        start = place - QUOTE // 4
    piece = " ".join(text[start : start + 2 * QUOTE].split())
    cut = piece if len(piece) <= QUOTE else piece[: QUOTE - 1] + "…"
    return f"…{cut}" if start else cut
