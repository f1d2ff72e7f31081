"""Web trajectories in Parquet: one row for each, its steps in a column of structs with the names of the `.pt` file.

What has no fixed shape is JSON text: the arguments of actions, the task, the trajectory's metadata. Rows are written in
groups, so that memory does not grow with the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rollout.messages import JSON
from rollout.trajectories.line import Head

GROUP_BYTES = 8 << 20
"""Rows are collected up to about so much text."""


class WebParquet:
    """A Parquet file of web trajectories that is being written. Needs pyarrow."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self._schema = _schema()
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[JSON] = []
        self._size = 0

    def write(self, head: Head, steps: list[JSON]) -> None:
        """Add a trajectory."""
        row = _row(head, steps)
        self._rows.append(row)
        self._size += len(msgspec.json.encode(row))
        if self._size >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size = [], 0


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


def _schema() -> Any:
    import pyarrow as pa

    text, flag, number = pa.string(), pa.bool_(), pa.float64()

    def struct(**fields: Any) -> Any:
        return pa.struct(list(fields.items()))

    tokens = ("thought", "action", "tool_call", "thinking", "observation", "memory")
    step = struct(
        observation=struct(image_path=text, ac_tree=text, page_metadata=struct(title=text, url=text)),
        action=struct(action=struct(key=text, arguments=text), action_string=text, calls=text),
        response=struct(raw_response=text, answering_tokens=struct(**dict.fromkeys(tokens, text)), raw_prompt=text),
        reward=struct(reward=number, evaluation=text, is_blocked=flag, submit=flag, submission_judgment=text),
        same_as_next_screenshot=flag,
    )
    return pa.schema(
        {
            "id": text,
            "task_id": text,
            "status": text,
            "stop_reason": text,
            "success": flag,
            "reward": number,
            "is_blocked": flag,
            "steps": pa.list_(step),
            "task": text,
            "metadata": text,
        }
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
