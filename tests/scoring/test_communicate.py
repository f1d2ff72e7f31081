"""What the user was told: found however it is written, and not where it only looks so."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.scoring.wording import is_said
from tests.scoring.desk import Desk, write_library


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("2,318.00", "you owe $2,318.00."),
        ("2,318.00", "You owe **2318** dollars"),
        ("2318", "You owe $2,318.00"),
        ("1,286", "That is 1,286 in all."),
        ("412.50", "412.5 is due"),
        ("$6.00", "It costs 6 dollars"),
        ("1,234,567.50", "1234567.5"),
        ("January 31", "by Jan. 31st, 2025"),
        ("January 31", "by 31 January"),
        ("January 31", "until 2025-01-31 at noon"),
        ("Jan 31, 2025", "on 1/31/2025"),
        ("31 January 2025", "on the 31st of January, 2025"),
        ("2025-02-03", "February 3, 2025"),
        ("September 5", "Sept 5"),
        ("May 7", "on May 7th."),
        ("Desmond Clarke", "with\n  desmond   CLARKE, your adviser"),
        ("Registrar's Office", "the Registrar’s Office"),
        ("CHEM201-01", "section chem201‑01 (Tue)"),
        ("C+", "a C+ or better"),
        ("10", "10 credits"),
        ("10", "(10)"),
        ("12", "a 12-credit load"),
        ("in person", "in-person? No: in person."),
    ],
)
def test_said_however_it_is_written(wanted: str, text: str) -> None:
    assert is_said(wanted, text)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("12", "in 2012"),
        ("12", "12.50"),
        ("12", "12:30"),
        ("12", "1,012"),
        ("12", "January 12"),
        ("12", "2025-12-01"),
        ("412.50", "412.05"),
        ("412.50", "1,412.50"),
        ("2,318.00", "2,318.10"),
        ("January 31", "January 3"),
        ("January 3", "January 31"),
        ("January 31, 2025", "January 31, 2026"),
        ("January 31", "February 31"),
        ("2025-02-03", "3/2/2025"),
        ("C", "a C+"),
        ("A", "an A- in total"),
        ("Ada", "Adam"),
        ("check", "checking"),
        ("", "anything"),
        ("  ", "anything"),
    ],
)
def test_not_said_where_it_only_looks_so(wanted: str, text: str) -> None:
    assert not is_said(wanted, text)


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_an_amount_is_found_in_every_spelling_and_no_other_amount_is(whole: int, cents: int) -> None:
    spellings = [f"{whole}.{cents:02}", f"{whole:,}.{cents:02}", f"${whole:,}.{cents:02}"]
    if cents == 0:
        spellings += [str(whole), f"{whole:,}"]
    other = f"{whole + 1:,}.{cents:02}"
    for wanted in spellings:
        assert all(is_said(wanted, f"The total is {written}.") for written in spellings)
        assert not is_said(wanted, f"The total is {other}.")


@given(st.dates(datetime.date(2000, 1, 1), datetime.date(2099, 12, 30)))
def test_a_day_is_found_in_every_spelling_and_no_other_day_is(day: datetime.date) -> None:
    spellings = [f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%b} {day.year}", day.isoformat()]
    spellings.append(f"{day.month}/{day.day}/{day.year}")
    other = day + datetime.timedelta(days=1)
    for wanted in (*spellings, f"{day:%B} {day.day}"):
        assert all(is_said(wanted, f"Due on {written}, as agreed.") for written in spellings)
        assert not is_said(wanted, f"Due on {other:%B} {other.day}, {other.year}.")


@given(st.text(), st.text())
def test_nothing_breaks_on_odd_texts(wanted: str, text: str) -> None:
    assert isinstance(is_said(wanted, text), bool)


@given(st.lists(st.text("abcXYZ", min_size=1), min_size=1, max_size=4).map(" ".join), st.text("\n .;(", min_size=1))
def test_words_are_found_between_any_others_and_not_inside_them(wanted: str, around: str) -> None:
    assert is_said(wanted, f"so{around}{wanted}{around}then")
    assert not is_said(wanted, f"{wanted}q")


async def test_evidence_says_what_was_told_and_where(tmp_path: Path) -> None:
    desk = Desk(write_library(tmp_path))
    task = desk.task([("list_loans", {})], communicate=["Atlas", "February 1"])
    verdict = await desk.verdict(task, [("list_loans", {})], "Your Atlas is due soon.")
    score = verdict.scores[-1]
    assert (score.name, score.value, score.partial) == ("communicate", 0.0, 0.5)
    assert score.evidence == {"told": {"Atlas": 3}, "untold": ["February 1"]}
    assert verdict.solved is False, "the state is right, but the user was not told"
    told = await desk.verdict(task, [("list_loans", {})], "Atlas: 2025-02-01.")
    assert told.solved is True


async def test_only_the_agents_words_to_the_user_count(tmp_path: Path) -> None:
    desk = Desk(write_library(tmp_path))
    task = desk.task([("list_loans", {})], communicate=["Atlas"])
    score = await desk.score("communicate", task, [("list_loans", {})], "Have a look yourself.")
    assert score.value == 0.0, "that a tool told the agent is not enough"
