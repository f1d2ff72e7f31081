"""The block list: learnt once, kept through crashes and other writers, forgotten after a while."""

from __future__ import annotations

import json
import multiprocessing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.tasks.blocklist import Blocklist, domain_of, found_blocked

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
PATH = Path("blocklist.jsonl")


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://www.Example.com/a?b", "example.com"),
        ("example.com", "example.com"),
        ("http://user:pw@shop.example.co.uk.", "shop.example.co.uk"),
        ("https://example.com:443/", "example.com"),
        ("http://localhost:8080/", "localhost:8080"),
        ("http://shop.test/cart", "shop.test"),
    ],
)
def test_site_is_named_by_its_host(url: str, domain: str) -> None:
    assert domain_of(url) == domain


def test_finding_is_written_as_the_seed_writes_it() -> None:
    Blocklist(PATH).add([found_blocked("https://www.a.com/x", NOON, "t1", "blobs/ab/cd.png")])
    assert json.loads(PATH.read_text()) == {
        "domain": "a.com",
        "url": "https://www.a.com/x",
        "blocked_at": "2026-05-04T12:00:00Z",
        "task_id": "t1",
        "screenshot_path": "blobs/ab/cd.png",
    }


def test_learning_again_writes_nothing() -> None:
    blocklist, finding = Blocklist(PATH), found_blocked("https://a.com", NOON, "t1")
    assert blocklist.add([finding, finding]) == [finding]
    before = PATH.read_bytes()
    assert blocklist.add([finding]) == []
    assert PATH.read_bytes() == before


def test_entry_expires_and_a_later_one_renews_it() -> None:
    blocklist = Blocklist(PATH, hours=12)
    blocklist.add([found_blocked("https://a.com", NOON, "t1")])
    assert set(blocklist.blocked(NOON + timedelta(hours=11, minutes=59))) == {"a.com"}
    assert blocklist.blocked(NOON + timedelta(hours=12)) == {}
    assert set(Blocklist(PATH, hours=48).blocked(NOON + timedelta(hours=12))) == {"a.com"}
    blocklist.add([found_blocked("https://a.com", NOON + timedelta(hours=10), "t1")])
    assert set(blocklist.blocked(NOON + timedelta(hours=12))) == {"a.com"}


@given(st.integers(1, 120))
def test_torn_line_costs_only_itself(cut: int) -> None:
    PATH.unlink(missing_ok=True)
    blocklist = Blocklist(PATH)
    blocklist.add([found_blocked("https://a.com", NOON, "t1")])
    blocklist.add([found_blocked("https://b.com", NOON, "t2")])
    whole = PATH.read_bytes()
    first = whole.index(b"\n") + 1
    PATH.write_bytes(whole[: min(len(whole) - 1, first + cut)])
    blocklist.add([found_blocked("https://c.com", NOON, "t3")])
    assert {"a.com", "c.com"} <= set(blocklist.blocked(NOON))


def test_seeds_own_file_with_times_without_a_zone_is_read() -> None:
    at = datetime.now().replace(microsecond=123456)
    PATH.write_text(
        json.dumps({"domain": "a.com", "url": "https://a.com", "blocked_at": at.isoformat()}) + "\nnonsense\n"
    )
    assert set(Blocklist(PATH).blocked(datetime.now(UTC))) == {"a.com"}


def test_no_file_blocks_nothing() -> None:
    assert Blocklist(PATH).blocked(NOON) == {}
    assert Blocklist(PATH).add([]) == []
    assert not PATH.exists()


def _add_many(name: str) -> None:
    for number in range(50):
        Blocklist(PATH).add([found_blocked(f"https://{name}{number % 25}.com", NOON, name)])


def test_several_processes_write_whole_lines_each_finding_once() -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(name,)) for name in ("a", "b", "a")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    domains = [json.loads(line)["domain"] for line in PATH.read_text().splitlines()]
    assert sorted(domains) == sorted(f"{name}{number}.com" for name in "ab" for number in range(25))
