"""When an answer is the wanted one: as written, in a normalised form, within it, or as a number.

The normalised form goes on from that of `rollout.scoring.wording` (case, spacing, typography, thousands, currency
signs, empty decimals, days of months): Latin letters lose their accents and texts their punctuation, but for what
belongs to a number (`-5`, `12.5`, `14:30`, `5%`) or a name (`c++`, `c#`). `the` goes wherever it stands, `a` and `an`
only at the beginning: "Vitamin A" is not "Vitamin".
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from rollout.scoring.wording import DATE, is_said, plain

_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NUMBER = re.compile(
    rf"(?<![\w.,:/{DATE}-])(-?\d+(?:\.\d+)?)(?![\d:/{DATE}]|[.,-]\d)(?:\s*({'|'.join(_SCALES)})\b)?", re.ASCII
)
_MARKS = str.maketrans(dict.fromkeys("™®©℠°", " "))
_ACCENTS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
_PERCENT = re.compile(r"(?<=\d)\s*(?:%|percent\b|per cent\b)")
_HALF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?")
_POSSESSIVE = re.compile(r"(?<=\w)'(?=\w)")


def normalized(text: str) -> str:
    """A text as words and numbers with one blank between them. The form of a form is itself."""
    while (form := _simpler(text)) != text:
        text = form
    return form


def _simpler(text: str) -> str:
    text = plain(text.translate(_MARKS))
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    text = _HALF_DAY.sub(r"\1m", _PERCENT.sub("%", text))
    text = _POSSESSIVE.sub("", text).replace("&", " and ")
    words = "".join(char if _belongs(text, place) else " " for place, char in enumerate(text)).split()
    return " ".join(_without_articles(words))


def is_same(wanted: str, answer: str) -> bool:
    """Whether two texts are one in their normalised form."""
    return _form(wanted) == _form(answer)


def is_contained(wanted: str, answer: str) -> bool:
    """Whether an answer says the wanted text, as whole words."""
    needle = normalized(wanted)
    if needle and f" {needle} " in f" {normalized(answer)} ":
        return True
    return DATE in needle and is_said(wanted, answer)  # a day without a year is any year's


def numbers(text: str) -> list[Decimal]:
    """The numbers that a text says: no dates, times, ranges, fractions, versions, nor parts of names."""
    return [
        Decimal(written) * _SCALES.get(scale, 1) for written, scale in _NUMBER.findall(plain(text.translate(_MARKS)))
    ]


def is_number(wanted: Decimal, answer: str) -> bool:
    """Whether an answer says this number and no other."""
    return set(numbers(answer)) == {wanted}


def _form(text: str) -> str:
    """Of a text that is all punctuation, its plain form: nothing is equal to everything."""
    return normalized(text) or plain(text)


def _belongs(text: str, place: int) -> bool:
    """Whether a character is part of a word or a number."""
    char = text[place]
    before = text[place - 1] if place else " "
    after = text[place + 1] if place + 1 < len(text) else " "
    if char in ".:/":
        return before.isdigit() and after.isdigit()
    if char == "-":
        return after.isdigit() and not (before.isalnum() or before in ".%")
    if char == "%":
        return before.isdigit()
    if char in "+#":
        is_second = before in "+#" and place > 1 and text[place - 2].isalnum()
        return is_second or (before.isalnum() and not after.isalnum())
    return unicodedata.category(char) not in _DROPPED


_DROPPED = frozenset(("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sc", "Sk", "So", "Cc", "Cf"))


def _without_articles(words: list[str]) -> list[str]:
    kept = [word for word in words if word != "the"]
    while len(kept) > 1 and kept[0] in ("a", "an"):
        kept = kept[1:]
    return kept or words
