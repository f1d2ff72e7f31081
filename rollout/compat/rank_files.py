"""WebGym-compatible files of single ranks, beside the file of all: `<split>_trajectories.pt.iteration<N>_rank_<R>`.

Like the file of all they are views of the journal, which knows the rank of every trajectory: they can be made again at
any time, and the same run makes the same files. The file of all is compared with them, trajectory by trajectory, before
they may go.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import JSON
from rollout.pipelines.web_saving import saved_steps
from rollout.store.reading.reader import open_reader
from rollout.trajectories.exports.writing import replaced_together
from rollout.trajectories.pt import PtFile, read_pt


class RankFiles(msgspec.Struct, frozen=True):
    """What was saved."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    """What a person should know: ranks without a trajectory, trajectories without a rank."""


def ranks_of_run(run_dir: Path) -> dict[tuple[str, str], int]:
    """The rank of each trajectory of a run, by dataset and id; empty where it was never on a cluster."""
    with open_reader(run_dir) as reader:
        return {
            (dataset, trajectory): rank
            for dataset in reader.datasets()
            for trajectory, rank in reader.ranks(dataset).items()
        }


def save_rank_files(
    run_dir: Path, whole: Path, ranks: Mapping[tuple[str, str], int], metadata: Mapping[str, Any], expected: int
) -> RankFiles:
    """Write the file of each rank beside `whole`, the file of all, and check that it holds all of them. `expected`: so
    many ranks there were. Raises JournalError where the file of all lacks something."""
    numbers = sorted(set(ranks.values()))
    notes = [
        f"rank {rank} made no trajectory that is on record, so it has no file"
        for rank in range(expected)
        if rank not in numbers
    ]
    paths = [whole.with_name(f"{whole.name}_rank_{rank}") for rank in numbers]
    about: dict[int, JSON] = {rank: {**metadata, "rank": rank} for rank in numbers}
    counts: Counter[int] = Counter()
    without = 0
    with open_reader(run_dir) as reader, replaced_together(paths) as made, contextlib.ExitStack() as held:
        files = {
            rank: held.enter_context(contextlib.closing(PtFile(path, about[rank])))
            for rank, path in zip(numbers, made, strict=True)
        }
        for dataset, line, steps in saved_steps(reader, run_dir):
            rank = ranks.get((dataset, line.id))
            if rank is None:
                without += 1
                continue
            files[rank].write(steps)
            counts[rank] += 1
        for rank in numbers:
            about[rank]["trajectories"] = counts[rank]
    if without:
        notes.append(f"{without} trajectories were made without a cluster: they are in {whole.name} alone")
    _check(whole, paths)
    return RankFiles(tuple(paths), tuple(notes))


def _check(whole: Path, parts: list[Path]) -> None:
    """Raise JournalError where a trajectory of the parts is not in the whole."""
    left = Counter(_fingerprints(whole))
    for part in parts:
        for fingerprint in _fingerprints(part):
            if not left[fingerprint]:
                raise JournalError(
                    f"{whole}: lacks a trajectory of {part.name}; the files of the ranks are kept, and the same "
                    "command makes all of them again"
                )
            left[fingerprint] -= 1


def _fingerprints(path: Path) -> list[bytes]:
    return [hashlib.sha256(msgspec.msgpack.encode(steps)).digest() for steps in read_pt(path)]
