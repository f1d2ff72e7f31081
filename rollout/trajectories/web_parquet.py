"""Web trajectories in Parquet: one row for each, its steps in a column of structs with the names of the `.pt` file.

What has no fixed shape is JSON text: the arguments of actions, the task, the trajectory's metadata. Rows are written in
groups, so that memory does not grow with the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.exports.parquet import Column, Columns, ParquetFile
from rollout.trajectories.line import Head

_TOKENS = ("thought", "action", "tool_call", "thinking", "observation", "memory")
_STEP: Column = {
    "observation": {"image_path": "text", "ac_tree": "text", "page_metadata": {"title": "text", "url": "text"}},
    "action": {"action": {"key": "text", "arguments": "text"}, "action_string": "text", "calls": "text"},
    "response": {
        "raw_response": "text",
        "answering_tokens": dict.fromkeys(_TOKENS, "text"),
        "raw_prompt": "text",
    },
    "reward": {
        "reward": "float",
        "evaluation": "text",
        "is_blocked": "bool",
        "submit": "bool",
        "submission_judgment": "text",
    },
    "same_as_next_screenshot": "bool",
}
_COLUMNS: Columns = {
    "id": "text",
    "task_id": "text",
    "status": "text",
    "stop_reason": "text",
    "success": "bool",
    "reward": "float",
    "is_blocked": "bool",
    "steps": [_STEP],
    "task": "text",
    "metadata": "text",
}


class WebParquet:
    """A Parquet file of web trajectories that is being written. Needs pyarrow."""

    def __init__(self, path: Path) -> None:
        self._file = ParquetFile(path, _COLUMNS)

    def write(self, head: Head, steps: list[JSON]) -> None:
        """Add a trajectory."""
        self._file.write(_row(head, steps))

    def close(self) -> None:
        self._file.close()


def _row(head: Head, steps: list[JSON]) -> JSON:
    last = steps[-1]["reward"] if steps else {}
    return {
        "id": head.id,
        "task_id": head.task_id,
        "status": head.status,
        "stop_reason": head.stop_reason,
        "success": head.success,
        "reward": last.get("reward"),
        "is_blocked": last.get("is_blocked"),
        "steps": [_cell(step) for step in steps],
        "task": _json(steps[0]["observation"]["task"]) if steps else None,
        "metadata": _json(head.metadata),
    }


def _cell(step: JSON) -> JSON:
    action = step["action"]
    done = action["action"]
    return {
        **step,
        "action": {
            "action": {"key": done["key"], "arguments": _json(done["arguments"])},
            "action_string": action["action_string"],
            "calls": _json(action["calls"]) if "calls" in action else None,
        },
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
