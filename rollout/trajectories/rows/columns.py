"""The columns of each form of training data, with their types (`rollout.trajectories.exports.parquet.Column`)."""

from __future__ import annotations

from rollout.trajectories.exports.parquet import Columns

_OWNER: Columns = {"task_id": "text", "group_id": "text"}
_ROW: Columns = {
    "id": "text",
    "trajectory_id": "text",
    **_OWNER,
    "row": "int",
    "rows": "int",
    "first_step": "int",
    "last_step": "int",
    "begins": "text",
    "reward": "float",
    "success": "bool",
    "status": "text",
    "finish_reasons": ["text"],
    "weight_versions": ["text"],
}
TOKEN_COLUMNS: Columns = {
    **_ROW,
    "input_ids": ["id"],
    "attention_mask": ["bit"],
    "loss_mask": ["bit"],
    "labels": ["id"],
    "logprobs": ["number"],
    "advantages": ["number"],
    "prompt_length": "int",
    "exact": "bool",
}
TEXT_COLUMNS: Columns = {
    **_ROW,
    "prompt": ["json"],
    "completion": ["json"],
    "tools": "json",
    "advantages": ["number"],
}
TREE_COLUMNS: Columns = {
    **_OWNER,
    "trajectory_ids": ["text"],
    "rewards": ["float"],
    "input_ids": ["id"],
    "loss_mask": ["bit"],
    "logprobs": ["number"],
    "advantages": ["number"],
    "node_lengths": ["int"],
    "node_parents": ["int"],
    "node_positions": ["int"],
    "node_weights": ["float"],
    "node_attempts": ["int"],
    "node_steps": ["int"],
    "row_trajectories": ["int"],
    "row_ends": ["int"],
    "exact": "bool",
}
PAIR_COLUMNS: Columns = {
    **_OWNER,
    "prompt": ["json"],
    "chosen": ["json"],
    "rejected": ["json"],
    "tools": "json",
    "chosen_value": "float",
    "rejected_value": "float",
    "chosen_attempts": "int",
    "rejected_attempts": "int",
    "chosen_id": "text",
    "rejected_id": "text",
    "step": "int",
}
PROCESS_COLUMNS: Columns = {
    "trajectory_id": "text",
    **_OWNER,
    "prompt": "text",
    "completions": ["text"],
    "labels": ["bool"],
    "values": ["float"],
    "reward": "float",
}
VERL_COLUMNS: Columns = {
    "data_source": "text",
    "prompt": [{"role": "text", "content": "text"}],
    "ability": "text",
    "reward_model": {"style": "text", "ground_truth": "text"},
    "extra_info": {"index": "int", "split": "text", "task_id": "text", "attempts": "int", "mean_reward": "float"},
}
