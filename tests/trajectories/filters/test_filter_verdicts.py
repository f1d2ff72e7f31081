"""What is said of each turn, and what becomes of a trajectory with its marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout.config.filters import Filters, read_filters
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.pipelines.wiring.active_filters import FiltersByDataset, make_filters
from rollout.trajectories.filters.filter import Filter
from rollout.trajectories.filters.marks import Filtered, Mark, Policy, Settled, settle
from rollout.trajectories.filters.turns import Turn, read_turns
from rollout.trajectories.stop import StopReason
from tests.trajectories.filters.attempts import ASK, THANKS, attempt, call, filter_all, result, say
from tests.trajectories.lines import trajectory


def turns(number: int = 3) -> list[Turn]:
    messages = [ASK, *(message for _ in range(number - 1) for message in (call(), result())), say("Book 7.")]
    return read_turns(attempt(*messages))


def mark(policy: Policy, turn: int | None, name: str = "f") -> Mark:
    return Mark(name, policy, "because", turn=turn)


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_facts_of_a_turn_are_kept_apart() -> None:
    told = attempt(
        ASK,
        call(arguments='{"member"'),
        result(),
        call("nope"),
        result(),
        call(arguments="{}"),
        result(),
        call(),
        result(),
        say("Which one?"),
        THANKS,
        say("again and again and again and again and"),
        THANKS,
        kinds={2: "bad_arguments", 4: "unknown_tool", 6: "bad_arguments"},
        finish={11: "length"},
        tokens={9: 4, 11: 64},
        logprobs={9: (-0.5, -1.5, -1.0)},
    )
    found = read_turns(told)
    statuses = [turn.parse_status for turn in found]
    assert statuses == ["malformed", "unknown_tool", "bad_args", "ok", "none", "none"]
    assert [turn.message for turn in found] == [1, 3, 5, 7, 9, 11]
    asked, cut = found[4:]
    assert (asked.speaks_to_user, asked.is_final_answer, asked.finish_reason) == (True, False, "stop")
    assert (asked.mean_logprob, asked.min_logprob, asked.tokens) == (-1.0, -1.5, 4)
    assert (cut.finish_reason, cut.is_final_answer, cut.speaks_to_user, cut.premature) == (
        "length",
        False,
        False,
        False,
    )
    assert cut.repetition > 0.5
    assert cut.mean_logprob is None


def test_last_word_is_the_final_answer_also_where_the_user_says_goodbye() -> None:
    assert [turn.is_final_answer for turn in read_turns(attempt(ASK, say("Which?"), THANKS, say("7."), THANKS))] == [
        False,
        True,
    ]


def test_call_that_ends_the_work_is_a_final_answer() -> None:
    answered = attempt(ASK, call("answer"), result("noted"), reason=StopReason.ANSWERED)
    assert read_turns(answered)[0].is_final_answer
    stopped = attempt(ASK, call("answer"), result("noted"), reason=StopReason.MAX_STEPS)
    assert not read_turns(stopped)[0].is_final_answer


def test_answers_of_the_opening_are_not_the_agents() -> None:
    assert read_turns(trajectory(ASK, say("Book 7."), opening=2)) == []


# ---- verdicts --------------------------------------------------------------------------------------------------------


def test_one_mark_that_drops_is_enough() -> None:
    settled = settle([mark("mask_turn", 0), mark("drop_trajectory", 1, "g"), mark("keep", None)], turns())
    assert settled == Settled("drop", ("g",))


def test_masked_turns_stay_as_context() -> None:
    assert settle([mark("mask_turn", 1), mark("mask_turn", 1, "g")], turns()) == Settled("mask", ("f", "g"), (1,))


def test_first_turn_to_truncate_before_decides_where_it_ends() -> None:
    marks = [mark("truncate_before", 2), mark("truncate_before", 1, "g"), mark("mask_turn", 2, "h")]
    assert settle(marks, turns()) == Settled("truncate", ("g",), (), 3)


def test_masks_before_the_end_stay() -> None:
    assert settle([mark("truncate_before", 2), mark("mask_turn", 0, "g")], turns()) == Settled(
        "truncate", ("f", "g"), (0,), 5
    )


@pytest.mark.parametrize(
    "marks",
    [
        [mark("truncate_before", 0)],
        [mark("mask_turn", turn) for turn in range(3)],
        [mark("truncate_before", 1), mark("mask_turn", 0)],
        [mark("mask_turn", None)],
    ],
)
def test_where_nothing_is_left_to_learn_the_trajectory_is_dropped(marks: list[Mark]) -> None:
    assert settle(marks, turns()).verdict == "drop"


def test_keep_only_counts() -> None:
    assert settle([mark("keep", 0), mark("keep", None)], turns()) == Settled()


def test_policy_of_a_filter_decides() -> None:
    repeated = attempt(ASK, call(), result(), call(), result(), say("Book 7."))
    assert filter_all(repeated)["a"].masked == (1,)
    assert filter_all(repeated, repetition="truncate_before")["a"].end == 3
    assert filter_all(repeated, repetition="drop_trajectory")["a"].verdict == "drop"
    kept = filter_all(repeated, repetition="keep")["a"]
    assert (kept.verdict, [entry.filter for entry in kept.marks]) == ("keep", ["repetition"])
    assert filter_all(repeated, repetition=False)["a"].marks == ()


# ---- configuration ---------------------------------------------------------------------------------------------------


def test_dataset_says_what_differs_from_the_whole() -> None:
    config = Config.model_validate(
        {
            "filters": {"void_turns": "mask_turn", "repetition": {"n": 3, "policy": "keep"}},
            "datasets": {"d": {"filters": {"repetition": {"ratio": 0.9}, "overlong": False}}},
        }
    )
    saved = Config.model_validate(config.model_dump(mode="json"))
    for read in (config, saved):
        filters = FiltersByDataset(read)
        own = {active.name: active for active in filters.of("d").own}
        assert (own["void_turns"].policy, own["repetition"].policy) == ("mask_turn", "keep")
        assert (own["repetition"].filter.n, own["repetition"].filter.ratio) == (3, 0.9)  # type: ignore[attr-defined]
        assert "overlong" not in own
        assert "overlong" in {active.name for active in filters.of("other").own}


def test_whole_trajectories_cannot_be_masked_turn_by_turn() -> None:
    with pytest.raises(ConfigError, match=r"filters\.overlong\.policy: input should be 'drop_trajectory' or 'keep'"):
        make_filters(Filters.model_validate({"overlong": "mask_turn"}))


def test_unknown_reward_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"filters\.accuracy_band\.reward: .*'wins'"):
        make_filters(Filters.model_validate({"accuracy_band": {"reward": "wins"}}))


def test_page_names_every_filter_with_its_policy_and_parameters() -> None:
    docs = Path(__file__).parents[3] / "docs"
    guide, page = ((docs / folder / "filters.md").read_text() for folder in ("how-to", "reference"))
    table = guide[guide.index("## The filters") : guide.index("## Marks by people")]
    rows = {row.split("|")[1].strip(" `"): row for row in table.splitlines() if row.startswith("| `")}
    for name, section in read_filters(Filters()).items():
        assert isinstance(section, Filter)
        assert f"| `{section.policy}` |" in rows[name]
        assert all(f"`{key}" in rows[name] for key in type(section).model_fields if key not in ("enabled", "policy"))
    assert all(f"`{field}`" in page for field in (*Filtered.__struct_fields__, *Turn.__struct_fields__[2:]))
