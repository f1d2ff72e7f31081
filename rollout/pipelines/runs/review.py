"""The review queue: which trajectories of a run a person should look at next.

A queue is drawn from what is on record, without reading any messages. The same seed draws the same trajectories from
the same run.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from rollout.core.errors import ConfigError
from rollout.store.figures import JudgedAttempt
from rollout.store.marks import MarksFile
from rollout.store.reader import JournalReader, open_reader
from rollout.trajectories.person_marks import PersonMark
from rollout.trajectories.stop import Status

QueueKind = Literal["sample", "disagree", "unmarked"]
QUEUE_KINDS: tuple[QueueKind, ...] = get_args(QueueKind)
TrajectoryName = tuple[str, str]
"""Dataset and id."""


class QueuedTrajectory(msgspec.Struct, frozen=True):
    """A trajectory to be looked at."""

    dataset: str
    id: str
    why: str


def review_queue(
    run_dir: Path,
    kind: str,
    *,
    most: int | None = 50,
    seed: int = 0,
    datasets: Sequence[str] = (),
    among: Collection[TrajectoryName] | None = None,
) -> list[QueuedTrajectory]:
    """At most `most` trajectories of a run, drawn at random, in the order in which they were drawn.

    `sample`: any. `unmarked`: those that no person has marked. `disagree`: those whose deciding scorers gave different
    values, or to which a person's verdict says other than `success`. `among`: only these; without it, attempts that
    failed are left out, because they say nothing about the agent. Raises ConfigError for another kind.
    """
    if kind not in QUEUE_KINDS:
        raise ConfigError(f"queue: there is no kind {kind!r}; expected one of {', '.join(QUEUE_KINDS)}")
    marks = MarksFile(run_dir).by_trajectory() if kind != "sample" else {}
    with open_reader(run_dir) as journal:
        if kind == "disagree":
            found = list(_disputed(journal, marks))
        else:
            why = "drawn at random" if kind == "sample" else "without a mark"
            keys = journal.keys()
            found = [
                QueuedTrajectory(key.dataset, key.id, why)
                for key in keys
                if (key.dataset, key.id) not in marks and (among is not None or key.status != Status.FAILED)
            ]
    if datasets:
        found = [one for one in found if one.dataset in datasets]
    if among is not None:
        wanted = among if isinstance(among, set | frozenset) else set(among)
        found = [one for one in found if (one.dataset, one.id) in wanted]
    # The order of the journal depends on what ended first.
    found.sort(key=lambda one: (one.dataset, one.id))
    return random.Random(seed).sample(found, len(found) if most is None else min(max(most, 0), len(found)))


def _disputed(
    journal: JournalReader, marks: dict[TrajectoryName, tuple[PersonMark, ...]]
) -> Iterator[QueuedTrajectory]:
    for attempt in journal.judged_attempts():
        why = [
            *_against_each_other(attempt),
            *_against_success(attempt, marks.get((attempt.dataset, attempt.id), ())),
        ]
        if why:
            yield QueuedTrajectory(attempt.dataset, attempt.id, "; ".join(why))


def _against_each_other(attempt: JudgedAttempt) -> Iterator[str]:
    if len({value for _, value in attempt.values}) > 1:
        yield f"scorers differ: {', '.join(f'{name} {value:g}' for name, value in attempt.values)}"


def _against_success(attempt: JudgedAttempt, marks: Sequence[PersonMark]) -> Iterator[str]:
    for mark in marks:
        is_verdict = mark.kind == "verdict" and mark.message is None and mark.value is not None
        if is_verdict and (mark.value == 1) != attempt.success:
            yield f"{mark.author} gave {mark.value:g}, but it was scored as {'' if attempt.success else 'not '}solved"
