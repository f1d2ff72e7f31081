"""Marks that people set on a trajectory or on one of its messages, and selecting trajectories by them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.trajectories.score import Score

MarkKind = Literal["good", "bad", "note", "label", "verdict"]
MARK_KINDS: tuple[MarkKind, ...] = get_args(MarkKind)
PERSON_SCORE = "person"
"""The name of the score that people's verdicts are."""
LONGEST_NAME = 100
"""Characters of an author's name and of a label."""
LONGEST_TEXT = 100_000


class PersonMark(msgspec.Struct, frozen=True, kw_only=True):
    """A remark of a person on a trajectory, or on one of its messages."""

    number: int
    """Its number within the run. Numbers are never reused."""
    dataset: str
    id: str
    """The trajectory."""
    message: int | None = None
    """The place in `messages`; None for the whole trajectory."""
    kind: MarkKind
    """`good`, `bad`, `note`, `label` or `verdict`."""
    value: float | None = None
    """Of a verdict: from 0 (not solved) to 1 (solved)."""
    text: str | None = None
    """The text of a note, the name of a label; for the other kinds a reason, where one was given."""
    author: str
    at: float
    """When it was set, in seconds since 1970."""


class MarkSelection(msgspec.Struct, frozen=True):
    """Selects trajectories by people's marks, whether these are on the trajectory or on one of its messages. All
    conditions must hold; where a condition has several values, one of them is enough."""

    kinds: frozenset[str] = frozenset()
    without_kinds: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    authors: frozenset[str] = frozenset()
    """Only the marks of these authors count; empty: of all. Given alone: trajectories that one of them has marked."""

    @property
    def is_given(self) -> bool:
        """Whether anything is asked for."""
        return self != MarkSelection()

    def reason_against(self, marks: Iterable[PersonMark]) -> str | None:
        """Why a trajectory with these marks is left out, in words that can be counted; None where it is taken."""
        counted = [mark for mark in marks if not self.authors or mark.author in self.authors]
        by = f" by {_listed(self.authors)}" if self.authors else ""
        kinds = {mark.kind for mark in counted}
        if self.kinds and not kinds & self.kinds:
            return f"not marked {_listed(self.kinds)}{by}"
        if self.without_kinds & kinds:
            return f"marked {_listed(self.without_kinds & kinds)}{by}"
        if self.labels and not any(mark.kind == "label" and mark.text in self.labels for mark in counted):
            return f"not labelled {_listed(self.labels)}{by}"
        if self.authors and not counted and not (self.kinds or self.labels or self.without_kinds):
            return f"not marked{by}"
        return None

    def describe(self) -> str:
        """What is asked for, in words."""
        parts = [
            f"marked {_listed(self.kinds)}" if self.kinds else "",
            f"not marked {_listed(self.without_kinds)}" if self.without_kinds else "",
            f"labelled {_listed(self.labels)}" if self.labels else "",
        ]
        text = " and ".join(part for part in parts if part)
        return f"{text or 'marked'} by {_listed(self.authors) if self.authors else 'people'}" if self.is_given else ""


def _listed(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))


def make_mark_selection(
    kinds: Iterable[str] = (),
    without_kinds: Iterable[str] = (),
    labels: Iterable[str] = (),
    authors: Iterable[str] = (),
) -> MarkSelection:
    """A selection by kinds, labels and authors. Raises ConfigError for a kind that does not exist."""
    for kind in (*kinds, *without_kinds):
        if kind not in MARK_KINDS:
            raise ConfigError(
                f"mark: people set no marks of the kind {kind!r}; there are {', '.join(MARK_KINDS)}. "
                "(Remarks made during the run are chosen by --with-mark)"
            )
    return MarkSelection(frozenset(kinds), frozenset(without_kinds), frozenset(labels), frozenset(authors))


def person_score(marks: Iterable[PersonMark]) -> Score | None:
    """The verdicts on a whole trajectory as a score: their mean. None if there are none."""
    verdicts = [(mark, mark.value) for mark in marks if _is_verdict(mark) and mark.value is not None]
    if not verdicts:
        return None
    value = math.fsum(value for _, value in verdicts) / len(verdicts)
    reason = ", ".join(f"{mark.author}: {given:g}{f' ({mark.text})' if mark.text else ''}" for mark, given in verdicts)
    found = [{"author": mark.author, "value": given, "number": mark.number} for mark, given in verdicts]
    return Score(PERSON_SCORE, value, reason, evidence={"verdicts": found})


def is_person_record(score: JSON) -> bool:
    """Whether a recorded score is one of `person_score`, and not that of a scorer of the same name."""
    return score.get("name") == PERSON_SCORE and "verdicts" in (score.get("evidence") or ())


def _is_verdict(mark: PersonMark) -> bool:
    return mark.kind == "verdict" and mark.message is None


# ---- checking what a person gives --------------------------------------------------------------------------------


def read_kind(kind: str) -> MarkKind:
    """The kind of this name. Raises ConfigError."""
    for known in MARK_KINDS:
        if kind == known:
            return known
    raise ConfigError(f"mark: there is no kind {kind!r}; expected one of {', '.join(MARK_KINDS)}")


def read_value(kind: MarkKind, value: float | None) -> float | None:
    """The value of a mark of this kind. Raises ConfigError."""
    if kind != "verdict":
        if value is not None:
            raise ConfigError(f"mark: only a verdict has a value; leave it out for {kind}")
        return None
    if value is None or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"mark: a verdict is a number from 0 (not solved) to 1 (solved), not {value!r}")
    return float(value)


def read_text(kind: MarkKind, text: str | None) -> str | None:
    """The text of a mark of this kind. Raises ConfigError."""
    if kind == "label":
        return read_name("a label", text)
    words = "" if text is None else _encodable("the text of a mark", text).strip()
    if kind == "note" and not words:
        raise ConfigError("mark: a note needs a text")
    if len(words) > LONGEST_TEXT:
        raise ConfigError(f"mark: the text has {len(words)} characters; expected at most {LONGEST_TEXT}")
    return words or None


def read_name(what: str, name: str | None) -> str:
    """A label or an author's name. Raises ConfigError."""
    words = "" if name is None else _encodable(what, name).strip()
    if not words or len(words) > LONGEST_NAME or not words.isprintable():
        raise ConfigError(f"mark: {what} has 1 to {LONGEST_NAME} characters on one line, not {name!r}")
    return words


def read_message(message: int | None) -> int | None:
    """The place of a message, as far as it can be checked without the trajectory. Raises ConfigError."""
    if message is not None and (not isinstance(message, int) or isinstance(message, bool) or message < 0):
        raise ConfigError(f"mark: a message is named by its place in the trajectory, from 0, not {message!r}")
    return message


def _encodable(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"mark: {what} is a text, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"mark: {what} is not valid Unicode: {text!r}") from None
    return text
