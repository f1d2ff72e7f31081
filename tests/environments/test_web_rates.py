"""WebGym-compatible rates against an oracle that goes about it the slow way; and the rates from statuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.environments.web.rates import WebRates, calculate_rollout_metrics, difficulty_group
from rollout.trajectories.pt import PtFile
from rollout.trajectories.saved import SavedLine
from tests.trajectories.web_lines import answered, page, says, web_line

Step = dict[str, Any]


def step(key: str | None, reward: float | None = 0, blocked: bool | None = False, said: str | None = "ab") -> Step:
    told = None if reward is None else {"reward": reward} | ({} if blocked is None else {"is_blocked": blocked})
    return {
        "action": None if key is None else {"action": {"key": key}},
        "response": None if said is None else {"raw_response": said},
        "reward": told,
    }


EXAMPLE = [
    [step("click"), step("answer", 1)],
    [step("click"), step("goback"), step("answer", 0)],
    [step("click"), step("answer", 0, True)],
    [step("click"), step("click")],
    [],
]


def rates(trajectories: Any, chunk_size: int | None = None) -> dict[str, float]:
    found = calculate_rollout_metrics("nowhere", "train", chunk_size, True, trajectories)
    assert found is not None
    return found


def test_the_worked_example_comes_out_as_in_the_seed() -> None:
    found = rates(EXAMPLE)
    assert found == {
        "crashed_rate": 0.4,
        "blocked_rate": pytest.approx(1 / 3),
        "success_rate": 0.5,
        "avg_steps": 2.5,
        "goback_rate": 0.2,
        "avg_chars_per_response": 2.0,
        "total_trajectories": 5,
    }


@pytest.mark.parametrize(
    ("steps", "crashed"),
    [
        ([], True),
        ([step("invalid_url")] * 12, True),
        ([step("click"), step("invalid_url"), step("answer")], False),
        ([step("click"), step(None), step("answer", 1)], True),
        ([step("click")] * 9, True),
        ([step("click")] * 10, False),
        ([step("click")] * 3 + [step("click", 0, True)], False),
        ([step("goback")] * 3, True),
        ([step("click")] * 14 + [step("invalid_step")], False),
        ([step("answer", -1)], False),
    ],
)
def test_a_crash_is_what_the_seed_calls_one(steps: list[Step], crashed: bool) -> None:
    assert rates([steps])["crashed_rate"] == crashed


# ---- the oracle: the definitions as they are written, over copies, with no sums kept ---------------------------------

keys = st.sampled_from(["click", "goback", "answer", "invalid_step", "invalid_url", "none", "error", None])
any_step = st.builds(
    step, keys, st.sampled_from([0, 1, -1, 1.0, 0.5, None]), st.sampled_from([True, False, None]),
    st.sampled_from(["", "x", "a longer reply", None]),
)  # fmt: skip
runs = st.lists(
    st.none()
    | st.lists(any_step, max_size=12)
    | st.builds(lambda n, end: [step("click")] * n + [end], st.integers(6, 12), any_step),
    max_size=12,
)


def oracle(trajectories: list[Any], chunk_size: int | None) -> dict[str, float]:
    def key(one: Step) -> str:
        return "none" if one["action"] is None else one["action"]["action"]["key"]

    def blocked(trajectory: list[Step]) -> bool:
        return bool((trajectory[-1]["reward"] or {}).get("is_blocked"))

    def crashed(trajectory: list[Step]) -> bool:
        if len(trajectory) == 0:
            return True
        if key(trajectory[0]) == "invalid_url":
            return True
        if any(key(one) == "none" for one in trajectory):
            return True
        return len(trajectory) < 10 and key(trajectory[-1]) != "answer" and not blocked(trajectory)

    there = [trajectory for trajectory in trajectories if trajectory is not None]
    last = there[-chunk_size:] if chunk_size else there
    valid = [trajectory for trajectory in last if not crashed(trajectory)]
    unblocked = [trajectory for trajectory in valid if not blocked(trajectory)]
    steps = [one for trajectory in unblocked for one in trajectory]
    solved = [t for t in unblocked if t[-1]["reward"] is not None and t[-1]["reward"]["reward"] == 1]
    replies = [(one["response"] or {"raw_response": ""})["raw_response"] for one in steps]
    return {
        "total_trajectories": len(there),
        "crashed_rate": (len(last) - len(valid)) / len(last) if last else 0,
        "blocked_rate": (len(valid) - len(unblocked)) / len(valid) if valid else 0,
        "success_rate": len(solved) / len(unblocked) if unblocked else 0,
        "avg_steps": len(steps) / len(unblocked) if unblocked else 0,
        "avg_chars_per_response": len("".join(replies)) / len(steps) if steps else 0,
        "goback_rate": [key(one) for one in steps].count("goback") / len(steps) if steps else 0,
    }


@given(runs, st.none() | st.integers(0, 14))
def test_rates_are_those_of_the_definitions(trajectories: list[Any], chunk_size: int | None) -> None:
    assert rates(trajectories, chunk_size) == oracle(trajectories, chunk_size)


def as_object(value: Any) -> Any:
    return SimpleNamespace(**value) if isinstance(value, dict) else value


@given(runs)
def test_objects_with_the_seeds_names_count_like_plain_steps(trajectories: list[Any]) -> None:
    """WebGym's own trajectories hold objects; a stand-in of its cleaning has a reward without `is_blocked`."""
    objects = [
        trajectory and [{name: as_object(part) for name, part in one.items()} for one in trajectory]
        for trajectory in trajectories
    ]
    assert rates(objects) == oracle(trajectories, None)


# ---- from files ------------------------------------------------------------------------------------------------------


def save(path: Path, trajectories: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = PtFile(path, {})
    for trajectory in trajectories:
        file.write(trajectory)
    file.close()


def test_iterations_are_read_in_their_order_and_the_window_is_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / "train_trajectories"
    save(folder / "train_trajectories.pt.iteration10", [[step("answer", 1)]] * 2)
    save(folder / "train_trajectories.pt.iteration9", EXAMPLE)
    save(folder / "train_trajectories.pt.iteration9_rank_0", EXAMPLE)
    save(folder / "train_trajectories.pt.iteration11.checkpoint", EXAMPLE)
    everything = calculate_rollout_metrics(str(tmp_path), "train", 1000)
    newest = calculate_rollout_metrics(tmp_path, "train", 2, is_train=False)
    assert everything is not None
    assert newest is not None
    assert everything["total_trajectories"] == 7
    assert everything["crashed_rate"] == pytest.approx(2 / 7)
    assert newest["success_rate"] == 1
    assert newest["total_trajectories"] == 7


def test_no_folder_is_no_metrics_and_an_empty_one_is_all_zero(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="test_trajectories"):
        assert calculate_rollout_metrics(tmp_path, "test", 10) is None
    (tmp_path / "test_trajectories").mkdir()
    found = calculate_rollout_metrics(tmp_path, "test", 10)
    assert found is not None
    assert set(found.values()) == {0}
    assert len(found) == 7


def test_a_window_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="chunk_size"):
        rates(EXAMPLE, -1)


# ---- from statuses ---------------------------------------------------------------------------------------------------


def measure(*lines: SavedLine, info: dict[str, Any] | None = None) -> dict[str, Any]:
    measured = WebRates()
    for line in lines:
        measured.take(line, info)
    return measured.result()


BROKEN = {"status": "failed", "stop_reason": "error", "scored": False, "error": {"kind": "model", "text": "gone"}}


def test_statuses_say_what_lengths_only_guess() -> None:
    clicks: list[Message] = []
    for number in range(11):
        clicks += [says("click", f"c{number}", element=1), page(f"p{number}", call=f"c{number}")]
    short = {"status": "truncated", "stop_reason": "max_steps"}
    found = measure(
        answered(True, 1),
        answered(False, 1, scores=[{"name": "blocked", "value": 1.0}]),
        web_line(*clicks, **BROKEN),  # long and broken: WebGym's rules take it for a sound one
        web_line(says("goback", "a"), page("", call="a"), **short),  # short and sound: they take it for a crash
        web_line(status="cut", stop_reason="cut", scored=False),
    )
    status = found["by_status"]
    assert [status[name] for name in ("trajectories", "completed", "truncated", "cut", "failed")] == [5, 2, 1, 1, 1]
    assert (status["scored"], status["solved"], status["success_rate"]) == (3, 1, pytest.approx(1 / 3))
    assert status["crashed_rate"] == status["cut_rate"] == status["truncated_rate"] == 0.2
    assert (status["blocked"], status["blocked_rate"]) == (1, 1.0)
    assert (status["steps"], status["avg_steps"]) == (5, 1.25)
    assert status["goback_rate"] == 0.2
    assert status["answered_rate"] == 0.5
    assert found["seed"]["crashed_rate"] == 0.4  # the short one and the one that was cut
    assert found["seed"]["total_trajectories"] == 5
    assert found["seed_differences"] == {
        "crashed_without_failure": 2,
        "failed_without_crash": 1,
        "unscored_as_unsolved": 0,
        "blocked_left_out": 1,
    }


def test_nothing_is_behind_a_rate_of_nothing() -> None:
    found = measure()
    assert found["by_status"]["success_rate"] is None
    assert found["by_status"]["trajectories"] == 0
    assert found["by_difficulty"] == {}
    assert found["pass_k"] == []
    assert set(found["seed"].values()) == {0}


def test_difficulty_groups_and_attempts_are_told_apart() -> None:
    measured = WebRates()
    for number, (difficulty, success) in enumerate([(3, True), (3, False), (6, True), (7, False), (None, True)]):
        info = {"difficulty": difficulty}
        line = answered(success, id=f"t{number}", task_id=f"task{difficulty}")
        measured.take(line, info)
    found = measured.result()
    rates = {name: group["success_rate"] for name, group in found["by_difficulty"].items()}
    assert rates == {"easy": 0.5, "medium": 1.0, "hard": 0.0, "unknown": 1.0}
    assert [(entry["k"], entry["tasks"], entry["at"]) for entry in found["pass_k"]] == [(1, 4, 0.625), (2, 1, 1.0)]
    assert difficulty_group(True) == "unknown"


def test_every_figure_is_defined_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "web-metrics.md").read_text(encoding="utf-8")
    found = measure()
    assert [name for name in (*found, *found["by_status"], *found["seed"]) if f"`{name}`" not in page] == []
