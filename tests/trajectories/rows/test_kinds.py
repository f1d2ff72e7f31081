"""Memory prompts, best attempts, preference pairs, process rewards, batches of verl."""

from __future__ import annotations

import msgspec
import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import Message, message_to_json
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.best import best_of
from rollout.trajectories.rows.memory import Memory, find_builder, last_steps, remember
from rollout.trajectories.rows.preferences import pairs_of
from rollout.trajectories.rows.process import process_row
from tests.trajectories.rows.made import asked, attempted, said, told

SYSTEM = Message(role="system", content="Be kind.")


def long_one(steps: int = 5, name: str = "a") -> list[Message]:
    messages = [SYSTEM, asked("Count to three.")]
    for step in range(steps):
        messages += [said(f"I do {step}.", call=f"c{step}", thought=f"secret {step}"), told(f"c{step}", f"saw {step}")]
    return [*messages, said("Done.", thought="secret end")]


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_a_memory_prompt_has_the_task_the_last_steps_and_what_is_seen_and_no_reasoning() -> None:
    made = list(remember(attempted("a", long_one(), opening=2), last_steps, 2))
    assert len(made) == 6
    system, prompt = made[-1].request
    assert system["content"] == "Be kind."
    text = prompt["content"]
    assert text.startswith("Count to three.")
    assert "You have taken 5 steps. The last 2 of them:" in text
    assert "Step 4\nSeen: saw 2\nDone: I do 3.\ncount" in text
    assert text.endswith("Now you see:\nsaw 4")
    assert "I do 2." not in text
    assert "secret" not in text
    assert made[-1].answer.reasoning == "secret end", "what is learnt is the whole answer"
    assert made[0].request[1]["content"] == "Count to three."
    assert all(exchange.ids is None for exchange in made)


def test_memory_prompts_stay_short_however_long_the_episode_is() -> None:
    made = list(remember(attempted("a", long_one(60), opening=2), last_steps, 3))
    lengths = [len(exchange.request[1]["content"]) for exchange in made]
    assert max(lengths[10:]) - min(lengths[10:]) < 20


def only_what_is_seen(memory: Memory) -> list[Message]:
    return list(memory.observation) or list(memory.task)


def test_a_builder_of_ones_own_writes_the_prompts() -> None:
    builder = find_builder("tests.trajectories.rows.test_kinds:only_what_is_seen")
    made = list(remember(attempted("a", long_one(2), opening=2), builder))
    assert [exchange.request[0]["content"] for exchange in made] == ["Count to three.", "saw 0", "saw 1"]
    with pytest.raises(ConfigError, match="no memory builder"):
        find_builder("nobody")
    with pytest.raises(ConfigError, match=r"expected rollout\.core\.messages\.Message"):
        list(remember(attempted("a", long_one(1)), lambda memory: ["text"]))  # type: ignore[list-item]


def test_a_memory_of_images_is_refused() -> None:
    page = Message(role="tool", content="a page", tool_call_id="c", images=("a.png",))
    with pytest.raises(Unfit, match="images"):
        list(remember(attempted("a", [asked(), said(call="c"), page, said("Done.")]), last_steps))


# ---- best ------------------------------------------------------------------------------------------------------------


def test_the_best_attempt_is_solved_then_worth_most_then_shortest() -> None:
    group = [
        attempted("a~0", long_one(1), 0.0),
        attempted("a~1", long_one(3), 0.5),
        attempted("a~2", long_one(3), 1.0),
        attempted("a~3", long_one(2), 1.0),
        attempted("a~4", long_one(2), 1.0),
    ]
    assert [one.id for one in best_of(group)] == ["a~3"]
    assert [one.id for one in best_of(group, "all")] == ["a~3", "a~4", "a~2", "a~1"]
    assert best_of(group[:1]) == []


# ---- pairs -----------------------------------------------------------------------------------------------------------


def sibling(name: str, reward: float | None, second: str, call: str) -> list[Message]:
    return [asked(), said("I count.", call=call), told(call, "1"), said(second)]


def test_siblings_are_answers_to_the_same_request_whatever_the_ids_of_calls() -> None:
    group = [
        attempted("a~0", sibling("a~0", 1, "Good.", "x"), 1.0),
        attempted("a~1", sibling("a~1", 0, "Bad.", "y"), 0.0),
        attempted("a~2", sibling("a~2", 1, "Good.", "z"), 0.0),
        attempted("a~3", sibling("a~3", None, "Unknown.", "w"), None),
    ]
    (pair,) = pairs_of(group)
    assert (pair.chosen.value, pair.rejected.value) == (0.5, 0.0), "an answer is worth the mean of those who gave it"
    record = pair.to_json()
    assert record["chosen"] == [{"role": "assistant", "content": "Good."}]
    assert record["rejected"] == [{"role": "assistant", "content": "Bad."}]
    assert [message["role"] for message in record["prompt"]] == ["user", "assistant", "tool"]
    assert (record["chosen_id"], record["rejected_id"], record["step"]) == ("a~0", "a~1", 1)
    assert (record["chosen_attempts"], record["rejected_attempts"]) == (2, 1)
    assert list(pairs_of(group, margin=0.5)) == []


def test_answers_of_equal_worth_and_answers_that_are_not_learnt_make_no_pair() -> None:
    good, bad = (
        attempted(f"a~{n}", [asked(), said(text)], reward) for n, (text, reward) in enumerate([("A", 1.0), ("B", 0.0)])
    )
    also = attempted("a~2", [asked(), said("C")], 1.0)
    assert list(pairs_of([good, also])) == []
    assert len(list(pairs_of([good, bad, also], "all"))) == 2
    masked = msgspec.structs.replace(bad, exchanges=[msgspec.structs.replace(bad.exchanges[0], is_learnt=False)])
    assert list(pairs_of([good, masked])) == []


def test_an_answer_that_was_cut_off_is_neither_chosen_nor_rejected() -> None:
    whole, other, cut = (attempted(f"a~{n}", [asked(), said(f"{n}")], reward) for n, reward in enumerate((1.0, 0.5, 0)))
    broken = msgspec.structs.replace(cut.exchanges[0], finish_reason="length")
    (pair,) = pairs_of([whole, other, msgspec.structs.replace(cut, exchanges=[broken])], "all")
    assert (pair.chosen.trajectory, pair.rejected.trajectory) == ("a~0", "a~1")


# ---- process rewards -------------------------------------------------------------------------------------------------


def test_process_rows_label_each_step_by_what_became_of_it() -> None:
    one = attempted("a", long_one(2), 1.0, opening=2, values=[0.75, 0.5, 0.0])
    record = process_row(one)
    assert record["prompt"] == "system: Be kind.\nuser: Count to three.\n"
    assert record["labels"] == [True, True, False]
    assert record["values"] == [0.75, 0.5, 0.0]
    assert record["completions"][1] == 'tool: saw 0\nassistant: secret 1\nI do 1.\ncount {"to": 3}\n'
    assert process_row(one, above=0.5)["labels"] == [True, False, False]
    with pytest.raises(Unfit, match="no reward"):
        process_row(attempted("a", long_one(), None))


def test_process_rows_hold_every_word_of_the_path_up_to_its_last_answer() -> None:
    messages = [*long_one(3), asked("Thanks.")]
    record = process_row(attempted("a", messages, opening=2))
    whole = record["prompt"] + "".join(record["completions"])
    assert all(message.content in whole for message in messages[:-1] if message.content)
    assert "Thanks." not in whole
    assert message_to_json(messages[-1])["content"] == "Thanks."


# ---- verl ------------------------------------------------------------------------------------------------------------

ROWS = [
    {
        "id": "a#0", "group_id": "a", "trajectory_id": "a", "input_ids": [1, 2, 3, 4, 5], "prompt_length": 2,
        "loss_mask": [0, 0, 1, 0, 1], "logprobs": [0, 0, -1, 0, -2], "advantages": [0, 0, 0.5, 0, 0.5], "reward": 1.0,
    },
    {
        "id": "b#0", "group_id": "a", "trajectory_id": "b", "input_ids": [7, 8], "prompt_length": 1,
        "loss_mask": [0, 1], "logprobs": [0, -3], "advantages": [0, -0.5], "reward": None,
    },
]  # fmt: skip


def test_a_batch_of_verl_is_padded_on_both_sides_and_rewards_the_last_sampled_token() -> None:
    pytest.importorskip("numpy")
    from rollout.trajectories.rows.verl import verl_batch

    batch = {name: array.tolist() for name, array in verl_batch(ROWS, 0, response_length=4).items()}
    assert batch["prompts"] == [[1, 2], [0, 7]]
    assert batch["responses"] == [[3, 4, 5, 0], [8, 0, 0, 0]]
    assert batch["input_ids"] == [[1, 2, 3, 4, 5, 0], [0, 7, 8, 0, 0, 0]]
    assert batch["attention_mask"] == [[1, 1, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0]]
    assert batch["position_ids"] == [[0, 1, 2, 3, 4, 4], [0, 0, 1, 1, 1, 1]]
    assert batch["response_mask"] == [[1, 0, 1, 0], [1, 0, 0, 0]]
    assert batch["rollout_log_probs"] == [[-1, 0, -2, 0], [-3, 0, 0, 0]]
    assert batch["token_level_scores"] == [[0, 0, 1, 0], [0, 0, 0, 0]]
    assert batch["advantages"] == [[0.5, 0, 0.5, 0], [-0.5, 0, 0, 0]]
    assert batch["uid"] == ["a", "a"]
    with pytest.raises(ValueError, match="response_length: row a#0 needs 3, 2 are given"):
        verl_batch(ROWS, 0, response_length=2)


def test_a_batch_of_verl_makes_up_no_logprobs_and_no_advantages() -> None:
    pytest.importorskip("numpy")
    from rollout.trajectories.rows.verl import verl_batch

    without = [{**row, "logprobs": None, "advantages": None} for row in ROWS]
    assert {"rollout_log_probs", "advantages"}.isdisjoint(verl_batch(without, 0))
    with pytest.raises(ValueError, match="row b#0: has no logprobs, and others have"):
        verl_batch([ROWS[0], {**ROWS[1], "logprobs": None}], 0)
