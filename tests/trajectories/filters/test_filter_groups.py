"""Filters that compare: groups by their rewards, trajectories by what they say."""

from __future__ import annotations

import random

from rollout.core.messages import Message
from rollout.trajectories.filters.minhash import BINS, jaccard, sign
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.filters.attempts import ASK, attempt, call, filter_all, result, say

WORDS = [f"word{number}" for number in range(400)]


def attempts(*outcomes: bool | None, task: str = "t") -> list[Trajectory]:
    """Attempts at one task; None was not scored."""
    return [
        attempt(
            ASK,
            say(f"Answer number {number} is quite unlike the others, {' '.join(WORDS[number * 9 : number * 9 + 9])}."),
            id=f"{task}~{number}",
            task=task,
            success=bool(outcome),
            scored=outcome is not None,
        )
        for number, outcome in enumerate(outcomes)
    ]


def marked(name: str, *trajectories: Trajectory, **filters: object) -> list[str]:
    records = filter_all(*trajectories, **filters)
    return [record.id for record in records.values() if any(mark.filter == name for mark in record.marks)]


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_groups_without_a_difference_are_constant() -> None:
    assert len(marked("constant_groups", *attempts(True, True))) == 2
    assert len(marked("constant_groups", *attempts(False, False, None))) == 3, "the group is what is judged"
    assert marked("constant_groups", *attempts(True, False)) == []


def test_group_of_one_says_nothing() -> None:
    assert marked("constant_groups", *attempts(True)) == marked("constant_groups", *attempts(True, None, None)) == []


def test_groups_outside_the_band_are_marked() -> None:
    assert len(marked("accuracy_band", *attempts(*[False] * 15, True))) == 16, "1 of 16 is below 0.1"
    assert marked("accuracy_band", *attempts(*[False] * 9, True)) == [], "0.1 is within"
    assert marked("accuracy_band", *attempts(True, True, True)) == [], "too few to know"
    assert len(marked("accuracy_band", *attempts(True, True, True), accuracy_band={"min_attempts": 3})) == 3


def test_groups_of_two_datasets_are_not_mixed() -> None:
    solved, failed = attempts(True)[0], attempt(id="t~9", task="t", dataset="other")
    assert marked("constant_groups", solved, failed) == []


def test_reward_can_be_a_score() -> None:
    scores = [[{"name": "state", "value": value, "decides": True}] for value in (0.2, 0.7)]
    both = [attempt(ASK, say(f"Number {n}."), id=f"a{n}", scores=score) for n, score in enumerate(scores)]
    assert len(marked("constant_groups", *both)) == 2, "neither succeeded"
    assert marked("constant_groups", *both, constant_groups={"reward": "score:state"}) == []


def test_what_broke_is_no_part_of_its_group() -> None:
    broken = attempt(id="t~9", reason=StopReason.ERROR, scored=False)
    assert "t~9" not in marked("constant_groups", *attempts(True, True), broken)


def test_dropped_trajectory_counts_in_its_group_unless_it_leaves_it() -> None:
    void = attempt(ASK, say(""), id="t~9", success=False)
    assert marked("constant_groups", *attempts(True, True), void) == []
    left = filter_all(*attempts(True, True), void, counts_in_group=False)
    assert [record.counts_in_group for record in left.values()] == [True, True, False]
    assert len(marked("constant_groups", *attempts(True, True), void, counts_in_group=False)) == 3
    assert filter_all(*attempts(True, True), void)["t~9"].counts_in_group


# ---- near-duplicates -------------------------------------------------------------------------------------------------


def story(seed: int, changed: int = 0, length: int = 120) -> str:
    chance = random.Random(seed)
    told = [chance.choice(WORDS) for _ in range(length)]
    for place in range(changed):
        told[place * (length // max(changed, 1))] = f"changed{place}"
    return " ".join(told)


def test_attempt_that_is_nearly_another_one_is_marked_and_the_first_stays() -> None:
    same = [attempt(ASK, say(story(1, changed)), id=f"a{changed}") for changed in (0, 1)]
    records = filter_all(*reversed(same), constant_groups=False)
    assert [mark.reason for mark in records["a1"].marks] == ["nearly the same as a0"]
    assert records["a0"].marks == ()


def test_attempts_that_differ_enough_are_no_duplicates() -> None:
    assert marked("near_duplicates", *(attempt(ASK, say(story(1, n)), id=f"a{n}") for n in (0, 12))) == []
    assert marked("near_duplicates", *(attempt(ASK, say(story(n)), id=f"a{n}") for n in (0, 1))) == []


def test_same_answer_to_different_questions_is_no_duplicate() -> None:
    asked = [
        attempt(Message(role="user", content=story(n, length=40)), say("Book 7 is due."), id=f"a{n}", task=f"t{n}")
        for n in (1, 2)
    ]
    assert marked("near_duplicates", *asked) == []
    equal = [attempt(ASK, say(story(1)), id=f"a{n}", task=f"t{n}") for n in (1, 2)]
    assert marked("near_duplicates", *equal) == ["a2"]
    assert marked("near_duplicates", *equal, near_duplicates={"across_tasks": False}) == []


def test_ids_of_calls_make_no_difference() -> None:
    def called(number: int) -> Trajectory:
        asked = Message(role="assistant", tool_calls=(call().tool_calls[0].__class__(f"id{number}", "find", "{}"),))
        told = Message(role="tool", content=story(3), tool_call_id=f"id{number}")
        return attempt(ASK, asked, told, say("Book 7."), id=f"a{number}")

    assert marked("near_duplicates", called(0), called(1)) == ["a1"]


def test_leaves_of_a_tree_are_compared_by_what_they_do_not_share() -> None:
    long = [ASK, call(content=story(1)), result(story(2))]
    ends = [attempt(*long, say(f"{story(n, length=15)}."), id=f"a{n}") for n in (0, 1)]
    assert marked("near_duplicates", *ends) == ["a1"], "as independent attempts they are nearly the same"
    branched = attempt(
        *long, say(story(1, length=15)), id="a1", branch={"number": 1, "parent": 0, "shared_messages": 3}
    )
    assert marked("near_duplicates", ends[0], branched) == []
    again = attempt(
        *long, say(f"{story(0, length=15)}."), id="a1", branch={"number": 1, "parent": 0, "shared_messages": 3}
    )
    assert marked("near_duplicates", ends[0], again) == ["a1"], "it said the same once more"


def test_nothing_is_a_duplicate_of_what_is_gone() -> None:
    void = attempt(ASK, say(story(1)), say(""), id="a0")
    assert marked("near_duplicates", void, attempt(ASK, say(story(1)), id="a1")) == []


def test_signatures_agree_as_often_as_sets_are_similar() -> None:
    chance = random.Random(3)
    for size in (8, 60, 900):
        agreed = expected = 0.0
        for _ in range(60):
            base = [chance.getrandbits(64) for _ in range(size)]
            one, other = frozenset(base[: size * 3 // 4]), frozenset(base[size // 4 :])
            same = sum(a == b for a, b in zip(sign(one), sign(other), strict=True))
            agreed += same / BINS
            expected += jaccard(one, other)
        assert abs(agreed - expected) / 60 < 0.08
