"""Facts about a run: the key-value table `meta` of the journal, and which datasets the journal holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.messages import JSON
from rollout.store.damage import missing, reads_journal


@reads_journal
class FactsReader:
    """Reads facts about a run from its journal."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    def meta(self, key: str) -> str | None:
        """The value saved under a key; None if there is none."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        (value,) = row
        return str(value)

    def number(self, key: str) -> int:
        """The number saved under a key; 0 if there is none."""
        return int(self.meta(key) or 0)

    def document(self, key: str) -> JSON | None:
        """The JSON object saved under a key."""
        text = self.meta(key)
        return None if text is None else msgspec.json.decode(text, type=JSON)

    def identity(self, dataset: str) -> JSON:
        """The settings that shape a dataset's trajectories, as the run was started with; empty if none are saved."""
        found = self.meta(f"identity:{dataset}")
        return {} if found is None else msgspec.json.decode(found, type=dict[str, Any])

    def seconds(self) -> float:
        """Total duration of all commands that added to this run, each up to its last commit."""
        return float(self.meta("seconds") or 0)

    def outputs(self) -> dict[str, Path]:
        """The output file of each dataset, under the path that the run wrote to."""
        rows = self._db.execute("SELECT key, value FROM meta WHERE key LIKE 'output:%' ORDER BY rowid")
        found = {key.removeprefix("output:"): Path(value) for key, value in rows}
        unknown = [dataset for dataset in self.datasets() if dataset not in found]
        if unknown:
            raise missing(f"the output file of {', '.join(unknown)}")
        return found

    def needed(self) -> int | None:
        """How many trajectories there are to be, in all datasets; None where no command has recorded it yet."""
        rows = self._db.execute("SELECT key, value FROM meta WHERE key LIKE 'planned:%'")
        planned = {key.removeprefix("planned:"): int(value) for key, value in rows}
        if not planned or not set(self.datasets()) <= set(planned):
            return None
        return sum(planned.values()) - sum(self.number(f"not_needed:{name}") for name in planned)

    def datasets(self) -> list[str]:
        """The names of the datasets in this journal."""
        rows = self._db.execute("SELECT DISTINCT dataset FROM trees ORDER BY dataset")
        return msgspec.convert([dataset for (dataset,) in rows], list[str])
