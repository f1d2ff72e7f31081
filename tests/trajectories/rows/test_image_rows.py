"""Images in rows: which rows have them, and what forms cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollout.core.messages import JSON, Message, ToolCall
from rollout.pipelines.export import ExportTally
from rollout.trajectories.rows.exchange import Attempted, Exchange, Ids, pack
from rollout.trajectories.rows.row_maker import RowMaker
from rollout.trajectories.rows.verl_steps import VerlStepMaker
from tests.trajectories.rows.made import attempted, exchange, said


def shown(text: str, *urls: str) -> JSON:
    """A message of a request as a model is sent it."""
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": "user", "content": [{"type": "text", "text": text}, *images] if urls else text}


def looked(*steps: tuple[JSON, str], has_ids: bool = False) -> Attempted:
    """An attempt whose model was always sent everything: what it was shown before each answer, and the answer."""
    request: list[JSON] = []
    exchanges: list[Exchange] = []
    ids = pack([])
    for step, (seen, text) in enumerate(steps):
        request = [*request, seen]
        answer = Message(role="assistant", content=text)
        ids = ids + pack([step])
        known = Ids(ids, pack([100 + step])) if has_ids else None
        shown_again = {"role": "assistant", "content": text}
        exchanges.append(Exchange(list(request), answer, shown_again, ids=known, key=(0, step)))
        request.append(shown_again)
        ids = ids + pack([100 + step])
    made = attempted("a", [Message(role="user", content="x"), said("y")])
    return Attempted(made.id, made.group, 0, made.head, made.messages, 1, exchanges, 1.0, [1.0] * len(steps))


STEPS = [(shown("Look.", "a.png"), "One."), (shown("And now?"), "Two."), (shown("Here.", "b.png"), "Three.")]


def test_a_row_of_text_ends_before_an_observation_with_an_image() -> None:
    rows = list(RowMaker(False, None, "image").records([looked(*STEPS)], ExportTally()))
    assert [(row["begins"], row["first_step"], row["last_step"]) for row in rows] == [
        ("start", 0, 1),
        ("new_image", 2, 2),
    ]
    assert [row["images"] for row in rows] == [["a.png"], ["a.png", "b.png"]]
    assert rows[0]["prompt"] == [{"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image"}]}]
    assert [message["content"] for message in rows[0]["completion"]] == [
        [{"type": "text", "text": text}] for text in ("One.", "And now?", "Two.")
    ], "all contents have one form: TRL puts images into a message that is a bare text"


def test_a_row_of_ids_has_all_images_of_its_sequence() -> None:
    (row,) = RowMaker(True, None, "image").records([looked(*STEPS, has_ids=True)], ExportTally())
    assert row["input_ids"] == [0, 100, 1, 101, 2, 102]
    assert row["images"] == ["a.png", "b.png"]


def test_a_batch_of_verl_has_the_images_of_each_row() -> None:
    pytest.importorskip("numpy")
    from rollout.trajectories.rows.verl import verl_batch

    rows = list(RowMaker(True, None, "image").records([looked(*STEPS, has_ids=True)], ExportTally()))
    assert verl_batch(rows, 0)["multi_modal_data"].tolist() == [{"images": ["a.png", "b.png"]}]
    text_rows = list(RowMaker(True, None).records([looked((shown("Look."), "One."), has_ids=True)], ExportTally()))
    assert "multi_modal_data" not in verl_batch(text_rows, 0)


def test_rows_without_images_have_no_column_of_them() -> None:
    maker = RowMaker(False, None)
    assert "images" not in maker.columns
    (row,) = maker.records([looked((shown("Look."), "One."))], ExportTally())
    assert row["prompt"] == [{"role": "user", "content": "Look."}]


def _unfit() -> Iterator[tuple[Attempted, str]]:
    yield looked((shown("An <image> tag.", "a.png"), "One.")), "takes for the place of one"
    calling = Message(role="assistant", tool_calls=(ToolCall("c", "click", "{}"),))
    made = attempted("a", [Message(role="user", content="x"), said("y")])
    exchanges = [exchange([Message(role="user", content="x")], calling)]
    yield Attempted(made.id, made.group, 0, made.head, made.messages, 1, exchanges, 1.0), "tool_format: text"


@pytest.mark.parametrize(("one", "reason"), list(_unfit()))
def test_what_verl_would_misread_is_left_out_and_counted(one: Attempted, reason: str) -> None:
    tally = ExportTally()
    assert list(VerlStepMaker("image").records([one], tally)) == []
    (told,) = tally.dropped
    assert reason in told
