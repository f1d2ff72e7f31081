"""The first pass over the trajectories of training data: groups them by task, and notes what they have on record.

Only the place of each line is kept, so that files of any size can be grouped by task.
"""

from __future__ import annotations

import msgspec

from rollout.agents.viewing import viewing_of
from rollout.core.errors import ConfigError
from rollout.pipelines.export import ExportTally
from rollout.pipelines.filter import Records
from rollout.pipelines.inputs import Source
from rollout.pipelines.people.marked import MarkedSources
from rollout.pipelines.training.filter_marks import Marks, marks_of
from rollout.trajectories.line import UNREWARDED
from rollout.trajectories.merging import UniqueNames
from rollout.trajectories.saved import BadLine, SavedLine, read_saved_places
from rollout.trajectories.selection import Selection


class OnRecord(msgspec.Struct, frozen=True):
    """What the trajectories that are learnt from have on record, any of them."""

    ids: bool = False
    """Token ids."""
    images: bool = False
    """Images that were sent to the model."""


class LinePlace(msgspec.Struct, frozen=True, gc=False):
    """Where a trajectory lies in its file."""

    begin: int
    where: str
    """`file:line`, for messages."""
    id: str
    """Its name in the training data."""


class AttemptGroup(msgspec.Struct, frozen=True):
    """The attempts at one task in one file. Attempts of different runs are not compared with each other."""

    source: Source
    name: str
    places: list[LinePlace]


class Survey:
    """The first pass: which attempts belong together, and where each of them lies."""

    def __init__(
        self, selection: Selection, tally: ExportTally, records: Records | None, marked: MarkedSources
    ) -> None:
        self._selection = selection
        self._tally = tally
        self._records = records
        self._marked = marked
        self._ids = UniqueNames()
        self._names = UniqueNames()
        self.groups: list[AttemptGroup] = []
        """In the order in which their first attempts came."""
        self._has_ids = self._has_images = False

    @property
    def found(self) -> OnRecord:
        """What the attempts have on record."""
        return OnRecord(self._has_ids, self._has_images)

    def add(self, source: Source) -> None:
        """Go through a file."""
        groups: dict[str, list[LinePlace]] = {}
        for where, begin, line in read_saved_places(source.path):
            self._tally.read += 1
            if isinstance(line, BadLine):
                self._tally.blame(source, where, line)
            elif line.status in UNREWARDED:
                self._tally.drop(f"status {line.status}")
            else:
                self._tally.saw_agent(line.model)
                places = groups.setdefault(line.group, [])
                places.append(LinePlace(begin, where, self._ids.take(line.id, source.run)))
                self._has_ids = self._has_ids or (line.is_exact and self._is_learnt(line, source))
                self._has_images = self._has_images or (_has_images(line) and self._is_learnt(line, source))
        self.groups += [
            AttemptGroup(source, self._names.take(name, source.run), places) for name, places in groups.items()
        ]

    def _is_learnt(self, line: SavedLine, source: Source) -> bool:
        try:
            marks = Marks() if self._records is None else marks_of(self._records.of(line, source))
        except BadLine:
            return False
        reason = self._selection.reason_against(self._marked.add_to(line, source))
        return reason is None and marks.refusal is None


def _has_images(line: SavedLine) -> bool:
    """Whether the model of a trajectory was sent images."""
    try:
        return viewing_of(line).images is not None and any(message.images for message in line.read_messages())
    except (BadLine, ConfigError):
        return False  # The second pass says what is wrong with it.
