"""Failures by cause: the same reason is counted together, whatever ids and times its text holds."""

from __future__ import annotations

from rollout.trajectories.causes import MOST_KEPT, OTHERS, Causes
from rollout.trajectories.line import Failed


def counted(*texts: str) -> list[tuple[str, int]]:
    return [(cause.text, cause.count) for cause in Causes(Failed("model", text) for text in texts).listed()]


def test_errors_of_one_cause_are_counted_together() -> None:
    first = "my-agent: HTTP 500 after 3.2 s: request 3f2b1c9d8e7f failed"
    again = "my-agent: HTTP 500 after 0.4 s: request aa11bb22cc33 failed\nand more"
    assert counted(first, again) == [(first, 2)]


def test_errors_of_different_causes_are_told_apart() -> None:
    texts = ("my-agent: HTTP 401 Unauthorized", "my-agent: HTTP 429 Too Many Requests")
    assert counted(*texts) == [(text, 1) for text in texts]


def test_the_same_text_of_another_kind_is_another_cause() -> None:
    assert len(Causes([Failed("model", "gone"), Failed("world", "gone")]).listed()) == 2


def test_an_attempt_without_a_reason_is_counted() -> None:
    assert [cause.text for cause in Causes([None]).listed()] == ["no reason is on record"]


def test_only_the_first_of_a_cause_is_reported() -> None:
    causes = Causes()
    assert causes.add(Failed("model", "gone")) is not None
    assert causes.add(Failed("model", "gone")) is None


def test_causes_of_several_datasets_add_up_and_leave_theirs_alone() -> None:
    one, other, both = Causes([Failed("model", "gone")]), Causes([Failed("model", "gone"), None]), Causes()
    both.include(one)
    both.include(other)
    assert [cause.count for cause in both.listed()] == [2, 1]
    assert [cause.count for cause in one.listed()] == [1]


def test_endless_causes_are_bounded() -> None:
    words = [f"{chr(97 + number // 26 % 26)}{chr(97 + number % 26)} is wrong" for number in range(MOST_KEPT + 50)]
    found = dict(counted(*words))
    assert found[OTHERS] == 50
    assert len(found) == MOST_KEPT + 1
