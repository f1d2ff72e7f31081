"""Whether something was said: a wanted text within a text, however numbers and dates are written.

Both texts are brought to one form: case, spacing, typographic characters and emphasis do not matter, numbers lose
thousands separators, currency signs and empty decimals (`$2,318.00` is `2318`), a day of a month has one spelling
(`Jan. 31st, 2025`, `31 January 2025`, `2025-01-31`, `1/31/2025`). Then the wanted text must stand there as whole words:
`12` is in neither `2012` nor `12.50` nor `January 12`. A wanted day without a year is any year's.
"""

from __future__ import annotations

import re
import unicodedata

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?\\.?" if len(name) > 3 else name for name in _MONTHS).replace(
    "sep(?:tember)?", "sept?(?:ember)?"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(\d{4})(?!\d|[.,:]\d))?"
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\s+(?:the\s+)?{_DAY}\b(?![.,:]\d){_YEAR}")
_DAY_FIRST = re.compile(rf"\b{_DAY}\s+(?:of\s+)?({_MONTH})(?![a-z]){_YEAR}")
_ISO = re.compile(r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?![\d-])")
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\d/])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMALS = re.compile(r"(?<![\d.:])(\d+)\.(\d+)(?![\d.:]*\d)")
DATE = "\ue001"
"""Stands in a plain text around the month and the day of a date."""
_SAME = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u2010": "-", "−": "-"})


def is_said(wanted: str, text: str) -> bool:
    """Whether `text` says `wanted`."""
    needle, hay = plain(wanted), plain(text)
    if not needle:
        return False
    start = hay.find(needle)
    while start >= 0:
        if _is_whole(hay, start, start + len(needle)):
            return True
        start = hay.find(needle, start + 1)
    return False


def plain(text: str) -> str:
    """A text in the form in which texts are compared."""
    text = unicodedata.normalize("NFKC", text).translate(_SAME).casefold()
    text = re.sub(r"[*`]", "", text)
    text = " ".join(text.split())
    text = _ISO.sub(lambda m: _date(m[0], int(m[2]), int(m[3]), m[1]), text)
    text = _SLASHED.sub(lambda m: _slashed(m[0], int(m[1]), int(m[2]), m[3]), text)
    text = _MONTH_FIRST.sub(lambda m: _date(m[0], _month(m[1]), int(m[2]), m[3]), text)
    text = _DAY_FIRST.sub(lambda m: _date(m[0], _month(m[2]), int(m[1]), m[3]), text)
    text = re.sub(r"[$€£¥]\s?(?=\d)", "", text)
    text = _THOUSANDS.sub("", text)
    return _DECIMALS.sub(_shortest, text)


def _shortest(match: re.Match[str]) -> str:
    decimals = match[2].rstrip("0")
    return f"{match[1]}.{decimals}" if decimals else match[1]


def _month(name: str) -> int:
    return next(number for number, full in enumerate(_MONTHS, 1) if full.startswith(name[:3]))


def _slashed(written: str, first: int, second: int, year: str) -> str:
    """Month first, as where dollars are; the day where it can be no month."""
    return _date(written, second, first, year) if first > 12 else _date(written, first, second, year)


def _date(written: str, month: int, day: int, year: str | None) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return written
    return f"{DATE}{month:02}{DATE}{day:02}{DATE}{year or ''}"


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a text is made of whole words, numbers and dates."""
    before, after = text[:start], text[end:]
    first, last = text[start], text[end - 1]
    if _is_word(first) and before and (_is_word(before[-1]) or (before[-1] == DATE)):
        return False
    if first.isdigit() and re.search(r"\d[.,:/-]$", before):
        return False
    if last == DATE:
        return True  # a day without a year: any year may follow
    if _is_word(last) and after and (_is_word(after[0]) or after[0] in (DATE, "+")):
        return False
    return not (last.isdigit() and re.match(r"[.,:/]\d", after)) and not re.match(r"-(?!\w)", after)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
