"""The form `verl`: one record for each task, as verl's datasets are: what to ask, not what was answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rollout.core.messages import JSON, Message
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RecordMaker, RowForm, TokenChoice

COLUMNS: Columns = {
    "data_source": "text",
    "prompt": [{"role": "text", "content": "text"}],
    "ability": "text",
    "reward_model": {"style": "text", "ground_truth": "text"},
    "extra_info": {"index": "int", "split": "text", "task_id": "text", "attempts": "int", "mean_reward": "float"},
}


class VerlPrompts(RowForm):
    """One record for each task, as verl's datasets have them."""

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        return VerlMaker()


class VerlMaker:
    """Numbers the records of one export."""

    compares = True
    columns = COLUMNS

    def __init__(self) -> None:
        self._count = 0

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        first = group[0]
        opening = first.messages[: first.opening]
        if any(message.role not in ("system", "user") or message.images for message in opening):
            for _ in filter(lambda attempted: attempted.is_learnt, group):
                account.drop("its opening is more than a system prompt and a user's words")
            return
        rewards = [attempted.reward for attempted in group if attempted.reward is not None]
        number, self._count = self._count, self._count + 1
        yield {
            "data_source": first.head.dataset or "rollout",
            "prompt": [_spoken(message) for message in opening],
            "ability": "agent",
            "reward_model": {"style": "rule", "ground_truth": first.head.task_id},
            "extra_info": {
                "index": number,
                "split": "",
                "task_id": first.head.task_id,
                "attempts": len(group),
                "mean_reward": sum(rewards) / len(rewards) if rewards else None,
            },
        }


def _spoken(message: Message) -> JSON:
    return {"role": message.role, "content": message.content or ""}
