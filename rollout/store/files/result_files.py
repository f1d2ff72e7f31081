"""Files that are views of the whole journal: the summary (`metrics.json`) and failed trajectories (`failed.jsonl`).

Each command that adds to a run writes them again at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rollout.core.messages import JSON
from rollout.store.blobs import write_atomic
from rollout.store.reading.reader import JournalReader
from rollout.store.run_dir import FAILED, METRICS


def write_metrics(run_dir: Path, metrics: JSON) -> None:
    """Write the summary of a run."""
    text = msgspec.json.format(msgspec.json.encode(metrics), indent=2)
    write_atomic(run_dir / METRICS, text, is_private=True)


def write_failed(run_dir: Path, reader: JournalReader, datasets: Iterable[str]) -> None:
    """Write the lines of the failed trajectories of these datasets."""
    lines = b"".join(line for dataset in datasets for line in reader.failed_lines(dataset))
    write_atomic(run_dir / FAILED, lines, is_private=True)
