"""Rows as a batch of verl: padded arrays under its names.

A row is cut in two where its first sampled id stands: `prompts` are filled up on the left, `responses` on the right.
`response_mask` is 1 on sampled ids alone, so observations within a response have none. Nothing is cut off: a row that
does not fit is refused, because a response that lost its end would get its reward on another token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def verl_batch(
    rows: Sequence[Mapping[str, Any]],
    pad_id: int,
    *,
    prompt_length: int | None = None,
    response_length: int | None = None,
) -> dict[str, Array]:
    """The arrays that `DataProto.from_dict(tensors=…, non_tensors=…)` takes, made of records of `rollout train-data`.

    The lengths are those of the longest row where they are not given. `uid` and `trajectory_id` are arrays of texts,
    for `non_tensors`. The reward stands on the last sampled id of each row, as verl's rule-based rewards do; each row
    of a trajectory has the trajectory's own, so take `advantages` as they are here and compute none again by row.
    Where rows have `images`, `multi_modal_data` holds them, also for `non_tensors`; the ids of their places are those
    that the model was given. `rollout_log_probs` and `advantages` are left out where no row has them. Raises ValueError
    for rows without token ids, for those that do not fit, and where only some rows have such a column.
    """
    for row in rows:
        if row.get("input_ids") is None:
            raise ValueError(
                f"row {row.get('id')}: has no token ids (input_ids); roll out with a server that reports them, or make "
                "them of the text with rollout train-data --tokenizer DIR"
            )
    prompts = [row["input_ids"][: row["prompt_length"]] for row in rows]
    responses = [row["input_ids"][row["prompt_length"] :] for row in rows]
    left = _fitting(rows, prompts, prompt_length, "prompt_length")
    right = _fitting(rows, responses, response_length, "response_length")
    shape = (len(rows), left + right)
    ids: Array = np.full(shape, pad_id, dtype=np.int64)
    attention: Array = np.zeros(shape, dtype=np.int64)
    mask, scores = np.zeros((len(rows), right), dtype=np.float32), np.zeros((len(rows), right), dtype=np.float32)
    known = {name: np.zeros((len(rows), right), dtype=np.float32) for name in ("logprobs", "advantages")}
    known = {name: array for name, array in known.items() if _has_column(rows, name)}
    for place, row in enumerate(rows):
        begin, end = left - len(prompts[place]), left + len(responses[place])
        ids[place, begin:end] = row["input_ids"]
        attention[place, begin:end] = 1
        length = len(responses[place])
        for column, array in {"loss_mask": mask, **known}.items():
            array[place, :length] = row[column][row["prompt_length"] :]
        sampled = np.flatnonzero(mask[place])
        if sampled.size and row.get("reward") is not None:
            scores[place, sampled[-1]] = row["reward"]
    batch = {
        "prompts": ids[:, :left],
        "responses": ids[:, left:],
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": np.clip(np.cumsum(attention, axis=1) - 1, 0, None),
        "response_mask": mask.astype(np.int64),
        "token_level_scores": scores,
        "uid": np.array([row["group_id"] for row in rows], dtype=object),
        "trajectory_id": np.array([row["trajectory_id"] for row in rows], dtype=object),
    }
    if "logprobs" in known:
        batch["rollout_log_probs"] = known["logprobs"]
    if "advantages" in known:
        batch["advantages"] = known["advantages"]
    if any("images" in row for row in rows):
        batch["multi_modal_data"] = np.array([{"images": list(row.get("images") or ())} for row in rows], dtype=object)
    return batch


def _has_column(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether rows have a column. All must, or none: a 0 in its place would be another number."""
    without = [row for row in rows if row.get(name) is None]
    if without and len(without) < len(rows):
        row = without[0]["id"]
        raise ValueError(f"row {row}: has no {name}, and others have; leave it out, or drop {name} from all")
    return not without


def _fitting(rows: Sequence[Mapping[str, Any]], parts: Sequence[Sequence[int]], given: int | None, name: str) -> int:
    longest = max(map(len, parts), default=0)
    if given is not None and longest > given:
        row = rows[max(range(len(parts)), key=lambda place: len(parts[place]))]
        raise ValueError(f"{name}: row {row['id']} needs {longest}, {given} are given; leave it out or give more")
    return longest if given is None else given
