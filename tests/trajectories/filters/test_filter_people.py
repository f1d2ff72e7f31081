"""The filter `person`: what people marked as bad is not learnt."""

from __future__ import annotations

from typing import Any

from rollout.core.messages import Message
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.line import with_person_marks
from rollout.trajectories.person_marks import MarkKind, PersonMark, person_score
from rollout.trajectories.rewards import reward_rule
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.filters.attempts import ASK, THANKS, attempt, call, filter_all, result, say

MESSAGES = (ASK, call(), result(), say("Book 7 is due on Friday."), THANKS, say("You are welcome, have a nice day."))


def mark(number: int, kind: MarkKind, author: str = "ann", **more: Any) -> PersonMark:
    return PersonMark(number=number, dataset="data", id="a", kind=kind, author=author, at=1.0, **more)


def marked(*marks: PersonMark, messages: tuple[Message, ...] = MESSAGES, **metadata: Any) -> Trajectory:
    return with_person_marks(attempt(*messages, **metadata), marks)


def filtered(trajectory: Trajectory, **keys: Any) -> Filtered:
    others = ("void_turns", "premature_end", "repetition", "unknown_tools")
    (record,) = filter_all(trajectory, **dict.fromkeys(others, False), person=keys).values()
    return record


def test_a_trajectory_that_is_marked_bad_is_dropped_with_who_said_so_and_why() -> None:
    record = filtered(marked(mark(1, "good", "bob"), mark(2, "bad", text="invents a date")))
    assert (record.verdict, record.why) == ("drop", ("person",))
    (found,) = record.marks
    assert (found.reason, found.evidence, found.turn) == ("ann marked it bad", "invents a date", None)


def test_a_step_that_is_marked_bad_is_masked_also_by_a_mark_on_the_result_of_its_call() -> None:
    record = filtered(marked(mark(1, "bad", message=2), mark(2, "bad", message=3)))
    assert (record.verdict, record.masked, record.masked_messages) == ("mask", (0, 1), (1, 3))


def test_marks_on_the_user_or_beyond_the_end_are_about_no_step() -> None:
    record = filtered(marked(mark(1, "bad", message=4), mark(2, "bad", message=77), mark(3, "note", text="hm")))
    assert (record.verdict, record.marks) == ("keep", ())


def test_policies_say_what_becomes_of_a_marked_step() -> None:
    step = marked(mark(1, "bad", message=3))
    assert filtered(step, policy="truncate_before").end == 3
    assert filtered(step, policy="drop_trajectory").verdict == "drop"
    assert filtered(marked(mark(1, "bad")), policy="keep").verdict == "keep"


def test_labels_low_verdicts_and_authors_can_be_chosen() -> None:
    label, verdict = marked(mark(1, "label", text="odd")), marked(mark(1, "verdict", value=0.4))
    assert filtered(label).verdict == filtered(verdict).verdict == "keep"
    assert filtered(label, labels=["odd"]).verdict == "drop"
    assert filtered(verdict, verdict_below=0.5).verdict == "drop"
    assert filtered(verdict, verdict_below=0.4).verdict == "keep"
    assert filtered(marked(mark(1, "bad", "bob")), authors=["ann"]).verdict == "keep"


# ---- the view that filters and rewards read ----------------------------------------------------------------------


def test_verdicts_on_the_whole_are_a_score_beside_the_others_that_decides_nothing() -> None:
    state = {"name": "state", "value": 1.0, "decides": True, "of_another_tool": 7}
    recorded = attempt(*MESSAGES, success=True, scores=[state], scored=True)
    marks = (mark(1, "verdict", value=0.0, text="rude"), mark(2, "verdict", "bob", value=0.5), mark(3, "good"))
    read = with_person_marks(recorded, (*marks, mark(4, "verdict", value=0.9, message=1)))
    score = read.score("person")
    assert score is not None
    assert (score.value, score.reason, score.decides) == (0.25, "ann: 0 (rude), bob: 0.5", False)
    assert read.metadata["scores"][0] == state, "what is on record stays as it is"
    assert (read.success, read.reward) == (recorded.success, recorded.reward)
    assert reward_rule("score:person")(read) == 0.25
    assert reward_rule("scores")(read) == 1.0
    assert reward_rule("score:person")(recorded) is None, "nobody has judged it"
    assert recorded.score("person") is None


def test_the_view_of_a_view_has_each_mark_once() -> None:
    first = marked(mark(1, "verdict", value=0.0))
    again = with_person_marks(first, (mark(2, "verdict", value=1.0),))
    assert [score.value for score in again.scores if score.name == "person"] == [1.0]
    assert [one.number for one in again.person_marks] == [2]


def test_a_trajectory_without_marks_is_the_same_object_and_has_no_verdict() -> None:
    plain = attempt(*MESSAGES)
    assert with_person_marks(plain, ()) is plain
    assert plain.person_marks == ()
    assert person_score([mark(1, "good")]) is None
