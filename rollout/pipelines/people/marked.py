"""Trajectories with the marks of people, as commands and programs read them.

The record of a trajectory never changes. Readers that show, filter or export trajectories pass them through here, which
adds `person_marks` and the score `person` (`rollout.trajectories.line.with_person_marks`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from rollout.core.errors import ConfigError
from rollout.pipelines.inputs import Source
from rollout.store.marks import MarksFile
from rollout.trajectories.line import Head, with_person_marks
from rollout.trajectories.person_marks import MarkSelection, PersonMark

H = TypeVar("H", bound=Head)


class MarkedRun:
    """Adds the marks of one run, as they are when it is made, to trajectories of that run. One query reads them all."""

    def __init__(self, run_dir: Path) -> None:
        self._marks = MarksFile(run_dir).by_trajectory()

    def of(self, dataset: str, trajectory: str) -> tuple[PersonMark, ...]:
        """The marks of one trajectory."""
        return self._marks.get((dataset, trajectory), ())

    def add_to(self, head: H, dataset: str | None = None) -> H:
        """The trajectory with its marks. `dataset`: the one it belongs to, where its record may not name it."""
        return with_person_marks(head, self.of(head.dataset if dataset is None else dataset, head.id))


class MarkedSources:
    """Adds marks to the trajectories of several run directories. Trajectories of other files are left as they are."""

    def __init__(self, wanted: MarkSelection | None = None) -> None:
        """`wanted`: a selection that these trajectories are to be compared with."""
        self._wanted = wanted or MarkSelection()
        self._runs: dict[Path, MarkedRun] = {}

    def add_to(self, head: H, source: Source) -> H:
        """The trajectory with its marks. Raises ConfigError if marks are wanted and the source cannot have any."""
        if source.run_dir is None:
            if self._wanted.is_given and "person_marks" not in head.metadata:
                raise ConfigError(
                    f"{source.path}: marks of people are kept in run directories; name the run directory instead of "
                    "the file"
                )
            return head
        if source.run_dir not in self._runs:
            self._runs[source.run_dir] = MarkedRun(source.run_dir)
        return self._runs[source.run_dir].add_to(head)


def with_marks(head: H, run_dir: Path, dataset: str) -> H:
    """One trajectory with its marks as they are now."""
    return with_person_marks(head, MarksFile(run_dir).of(dataset, head.id))
