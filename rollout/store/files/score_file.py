"""The file of scores (`scores.jsonl`) that `rollout score` writes beside a run: a JSON line for each trajectory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.store.run_dir import find_run
from rollout.trajectories.exports.writing import JsonLines, replaced_together


@contextlib.contextmanager
def replacing_scores(path: Path, datasets: Sequence[str]) -> Iterator[JsonLines]:
    """A new file of scores for these datasets, which replaces the old one when it is complete. The lines of other
    datasets are kept."""
    is_private = find_run(path.parent) == path.parent
    with (
        replaced_together([path], is_private=is_private) as (temporary,),
        contextlib.closing(JsonLines(temporary)) as file,
    ):
        for line in _lines_of_others(path, datasets):
            file.write_line(line)
        yield file


def _lines_of_others(path: Path, datasets: Sequence[str]) -> Iterator[bytes]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                if msgspec.json.decode(line)["dataset"] not in datasets:
                    yield line
            except (msgspec.MsgspecError, KeyError, TypeError):
                continue
