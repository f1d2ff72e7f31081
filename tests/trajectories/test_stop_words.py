"""Every status and stop reason has words."""

from __future__ import annotations

from rollout.trajectories.stop import Status, StopReason
from rollout.trajectories.stop_words import STATUS_WORDS, STOP_WORDS, status_words, stop_words


def test_every_status_and_stop_reason_has_words() -> None:
    assert set(STOP_WORDS) == set(StopReason)
    assert set(STATUS_WORDS) == set(Status)


def test_what_is_none_of_ours_stands_for_itself() -> None:
    assert stop_words("gave_up") == "gave_up"
    assert status_words("lost") == "lost"
    assert stop_words("user_stop") == "the user said that everything is done"
