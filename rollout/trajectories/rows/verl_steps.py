"""The form `verl_steps`: one record for each step, in the columns that verl reads.

`prompt` and `images` are those of verl's `RLHFDataset`, `messages` and `images` those of its `MultiTurnSFTDataset`.
verl finds images by the word `<image>` in a message's text. So a text of the trajectory that contains such a word
cannot be written, and neither can calls that are not in the text (`tool_format: native`): a message of verl has a role
and a text, nothing else. Reasoning is in `<think>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from rollout.core.messages import JSON, Message
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Column, Columns
from rollout.trajectories.rows.exchange import Attempted, Exchange
from rollout.trajectories.rows.form import Account, RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import NOTHING
from rollout.trajectories.rows.text_rows import images_of, read_request

PLACES = ("<image>", "<video>", "<audio>")
_MESSAGES: Column = [{"role": "text", "content": "text"}]


class VerlSteps(RowForm):
    """One step: the request as it was sent, and its answer, as verl's datasets have them."""

    has_advantages: ClassVar[bool] = True

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        return VerlStepMaker(tokens.image_column)


class VerlStepMaker(msgspec.Struct, frozen=True):
    """Makes a record of each step that is to be learnt."""

    compares: ClassVar[bool] = False
    image_column: Column | None

    @property
    def columns(self) -> Columns:
        return {
            "data_source": "text",
            "prompt": _MESSAGES,
            "messages": _MESSAGES,
            **({} if self.image_column is None else {"images": [self.image_column]}),
            "ability": "text",
            "reward_model": {"style": "text", "ground_truth": "text"},
            "extra_info": {
                "task_id": "text",
                "group_id": "text",
                "trajectory_id": "text",
                "step": "int",
                "reward": "float",
                "advantage": "float",
            },
        }

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            learnt = [step for step, exchange in enumerate(attempted.exchanges) if _is_learnt(exchange)]
            try:
                if not learnt:
                    raise Unfit(NOTHING)
                # All before the first is written: an attempt is left out as a whole.
                records = [self._record(attempted, step) for step in learnt]
            except Unfit as error:
                account.drop(str(error))
                continue
            yield from records

    def _record(self, attempted: Attempted, step: int) -> JSON:
        exchange = attempted.exchanges[step]
        prompt = [_spoken(message) for message in read_request(exchange.request)]
        advantages = attempted.advantages
        return {
            "data_source": attempted.head.dataset or "rollout",
            "prompt": prompt,
            "messages": [*prompt, _spoken(exchange.answer)],
            **({} if self.image_column is None else {"images": images_of(exchange.request)}),
            "ability": "agent",
            "reward_model": {"style": "rule", "ground_truth": attempted.head.task_id},
            "extra_info": {
                "task_id": attempted.head.task_id,
                "group_id": attempted.group,
                "trajectory_id": attempted.id,
                "step": step,
                "reward": attempted.reward,
                "advantage": None if advantages is None else advantages[step],
            },
        }


def _is_learnt(exchange: Exchange) -> bool:
    return exchange.is_learnt and exchange.finish_reason != "length"


def _spoken(message: Message) -> JSON:
    text = message.content or ""
    if message.reasoning is not None:
        text = f"<think>\n{message.reasoning}\n</think>\n\n{text}"
    if message.tool_calls:
        raise Unfit("calls are not in the text: verl's messages need tool_format: text")
    if any(place in text for place in PLACES):
        raise Unfit("a text contains <image>, <video> or <audio>, which verl takes for the place of one")
    return {"role": message.role, "content": text + "<image>" * len(message.images)}
