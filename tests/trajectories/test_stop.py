"""Stop reasons in words."""

from __future__ import annotations

from rollout.trajectories.stop import StopReason, stop_words


def test_every_stop_reason_has_words_of_its_own() -> None:
    words = [reason.words for reason in StopReason]
    assert all(words)
    assert len(set(words)) == len(words)
    assert stop_words("user_stop") == "the user said that everything is done"


def test_a_stop_reason_that_this_version_does_not_know_stands_for_itself() -> None:
    assert stop_words("gave_up") == "gave_up"
