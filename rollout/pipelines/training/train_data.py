"""From finished runs to training data: groups, advantages, and the rows of each.

A file of trajectories is read twice. The first pass (`rollout.pipelines.training.survey`) only finds out which attempts
belong together and where each line begins. The second reads the attempts of some tasks at a time, whole, with the token
ids that the journal has, works out their advantages and writes their rows. So memory holds a batch of tasks, and the
rows of a task stand together.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rollout.agents.exchanges import count_opening, exchanges_of
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.pipelines.export import ExportTally, refuse_nothing
from rollout.pipelines.filter import Records
from rollout.pipelines.inputs import Prompts, Source
from rollout.pipelines.people.marked import MarkedSources
from rollout.pipelines.training.filter_marks import Marks, marks_of
from rollout.pipelines.training.survey import AttemptGroup, LinePlace, OnRecord, Survey
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.trajectories.advantages import (
    Attempt,
    LineReader,
    forest_of,
    leaf_mean,
    leaf_rows,
    step_advantages,
)
from rollout.trajectories.exports.parquet import Columns, ParquetFile
from rollout.trajectories.exports.writing import JsonLines, Writer, replaced_together
from rollout.trajectories.generation import Generation
from rollout.trajectories.labels import NoPrompt, make_example
from rollout.trajectories.merging import Splits
from rollout.trajectories.rewards import RECORDED, reward_rule
from rollout.trajectories.rows.exchange import Attempted, StepKey, ids_of_path
from rollout.trajectories.rows.form import RecordMaker
from rollout.trajectories.rows.pt import RowsPt
from rollout.trajectories.saved import BadLine, SavedLine, read_saved_at
from rollout.trajectories.selection import Selection
from rollout.trajectories.tree import NodeBody

ABOUT = "about.json"
"""Suffix of the sidecar file that describes a form's files."""
BATCH = 512
"""Attempts that are read, and whose advantages are worked out, together. A larger group is a batch of its own."""


class DataWish(msgspec.Struct, frozen=True):
    """What training data is to be."""

    name: str
    """How files are called."""
    make: Callable[[OnRecord], RecordMaker]
    """Makes the form, told what the trajectories have on record."""
    selection: Selection = Selection()
    splits: Splits | None = None
    formats: tuple[str, ...] = ("parquet",)
    reward: str = RECORDED
    advantage: str | None = "grpo"
    """The name of an estimator; None: no advantages."""
    params: dict[str, Any] = {}
    keeps_grown_on: bool = False
    """Whether corrections are kept from which attempts were grown on."""
    filters: bool = False
    """Whether the marks of `rollout filter` are kept to. They say, too, whether what is dropped counts in the
    statistics of its group."""

    def files(self, out: Path) -> dict[tuple[str, str], Path]:
        """The file of each split and format."""
        names = [""] if self.splits is None else self.splits.names
        return {
            (split, kind): out / ".".join(filter(None, (self.name, split, kind)))
            for split in names
            for kind in self.formats
        }


class _ReadAttempt(msgspec.Struct):
    """An attempt of a group that was read."""

    place: LinePlace
    line: SavedLine
    attempt: Attempt
    generations: list[Generation]
    marks: Marks
    refusal: str | None
    """Why it is left out; None where it is not."""
    advantages: list[float] | None = None
    values: list[float] | None = None


def write_training_data(sources: Sequence[Source], prompts: Prompts, wish: DataWish, out: Path) -> ExportTally:
    """Write the files of `wish` into the folder `out`, and beside them what they are, as JSON."""
    tally = ExportTally()
    records = Records() if wish.filters else None
    marked = MarkedSources(wish.selection.people)
    survey = Survey(wish.selection, tally, records, marked)
    for source in sources:
        survey.add(source)
    maker = wish.make(survey.found)
    files = wish.files(out)
    written, about = list(files), out / f"{wish.name}.{ABOUT}"
    with replaced_together([*files.values(), about]) as temporary, contextlib.ExitStack() as stack:
        reading = _Reading(wish, tally, records, marked, stack)
        with contextlib.ExitStack() as open_files:
            writers = {
                key: open_files.enter_context(contextlib.closing(_open(key[1], path, maker.columns)))
                for key, path in zip(written, temporary, strict=False)
            }
            counts = _write(survey.groups, maker, prompts, reading, wish, tally, writers)
        tally.kept = tally.read - tally.dropped.total()
        tally.outdated = [] if records is None else records.outdated
        refuse_nothing(tally, counts.total())
        tally.files = {path: counts[split] for (split, _), path in files.items()}
        temporary[-1].write_bytes(msgspec.json.format(msgspec.json.encode(_about(wish, maker, tally)), indent=1))
    return tally


def _write(
    groups: Iterable[AttemptGroup],
    maker: RecordMaker,
    prompts: Prompts,
    reading: _Reading,
    wish: DataWish,
    tally: ExportTally,
    writers: dict[tuple[str, str], Writer],
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for group, members in reading.read(groups):
        attempted = []
        for member in members:
            if member.refusal is not None:
                tally.drop(member.refusal)
                continue
            try:
                attempted.append(_attempted(group, member, prompts))
            except (NoPrompt, BadLine) as error:
                tally.blame(group.source, member.place.where, error)
        if not attempted:
            continue
        for member in members if maker.compares else ():
            if member.refusal is not None and member.attempt.reward is not None:
                with contextlib.suppress(NoPrompt, BadLine):
                    compared = _attempted(group, member, prompts)
                    attempted.append(msgspec.structs.replace(compared, is_learnt=False))
        split = "" if wish.splits is None else wish.splits.of(attempted[0].head.task_id)
        for record in maker.records(attempted, tally):
            counts[split] += 1
            for kind in wish.formats:
                writers[split, kind].write(record)
    return counts


class _Reading:
    """The second pass: reads groups whole, some at a time, and says what each of their steps was worth.

    Advantages are worked out for a batch of groups at once: array operations cost much the same for one as for many.
    """

    def __init__(
        self,
        wish: DataWish,
        tally: ExportTally,
        records: Records | None,
        marked: MarkedSources,
        stack: contextlib.ExitStack,
    ) -> None:
        self._wish = wish
        self._tally = tally
        self._records = records
        self._marked = marked
        self._stack = stack
        self._rule = reward_rule(wish.reward)
        self._journals: dict[Path, JournalReader] = {}

    def read(self, groups: Iterable[AttemptGroup]) -> Iterator[tuple[AttemptGroup, list[_ReadAttempt]]]:
        """The groups with their members, in order."""
        for source, its_groups in itertools.groupby(groups, key=lambda group: group.source):
            try:
                file = self._stack.enter_context(source.path.open("rb"))
            except OSError as error:
                raise ConfigError(f"{source.path}: cannot read the trajectories: {error.strerror or error}") from error
            batch: list[AttemptGroup] = []
            size = 0
            for group in its_groups:
                batch.append(group)
                size += len(group.places)
                if size >= BATCH:
                    yield from self._read_batch(source, file, batch)
                    batch, size = [], 0
            yield from self._read_batch(source, file, batch)

    def _read_batch(
        self, source: Source, file: BinaryIO, groups: Sequence[AttemptGroup]
    ) -> Iterator[tuple[AttemptGroup, list[_ReadAttempt]]]:
        lines = LineReader(self._rule)
        read = [
            (
                group,
                [
                    member
                    for place in group.places
                    if (member := self._read_member(source, file, place, lines)) is not None
                ],
            )
            for group in groups
        ]
        self._estimate([member for _, members in read for member in members])
        yield from read

    def _read_member(self, source: Source, file: BinaryIO, place: LinePlace, lines: LineReader) -> _ReadAttempt | None:
        try:
            line = self._marked.add_to(read_saved_at(file, place.begin), source)
            nodes = self._nodes(line, source)
            if nodes and not line.is_labelled:
                line = msgspec.structs.replace(line, nodes=nodes)
            attempt = lines.attempt_of(line)
            marks = Marks() if self._records is None else marks_of(self._records.of(line, source))
        except BadLine as error:
            self._tally.blame(source, place.where, error)
            return None
        except ValueError as error:
            raise ConfigError(f"{source.path}: {error}") from error
        generations = [body.generation for body in nodes if body.kind == "generation" and body.generation is not None]
        if not marks.counts_in_group:
            attempt = msgspec.structs.replace(attempt, reward=None)
        if self._wish.advantage == "at2po":
            attempt = _with_surprisal(attempt, generations)
        refusal = self._wish.selection.reason_against(line) or marks.refusal
        if not self._wish.keeps_grown_on:
            refusal = refusal or source.reason_against(line)
        return _ReadAttempt(place, line, attempt, generations, marks, refusal)

    def _nodes(self, line: SavedLine, source: Source) -> list[NodeBody]:
        """The nodes that the run's journal has of a trajectory; none where there is no journal."""
        if source.run_dir is None:
            return []
        if source.run_dir not in self._journals:
            self._journals[source.run_dir] = self._stack.enter_context(open_reader(source.run_dir))
        return self._journals[source.run_dir].kept_path(line.dataset, line.id)

    def _estimate(self, members: Sequence[_ReadAttempt]) -> None:
        attempts = [member.attempt for member in members]
        if not attempts:
            return
        wish = self._wish
        try:
            forest, _, paths = forest_of(attempts)
            values = leaf_mean(forest, leaf_rows(attempts)[0])
            estimated = None if wish.advantage is None else step_advantages(attempts, wish.advantage, **wish.params)
        except ValueError as error:
            raise ConfigError(f"--advantage {wish.advantage}: {error}") from error
        for place, member in enumerate(members):
            if member.attempt.reward is not None:
                member.values = values[paths[place]].tolist()
            if estimated is None:
                continue
            numbers = estimated[place].tolist()
            if any(map(math.isnan, numbers)):
                member.refusal = member.refusal or "no reward"
            else:
                member.advantages = numbers


def _with_surprisal(attempt: Attempt, generations: Sequence[Generation]) -> Attempt:
    if len(generations) != len(attempt.steps):
        return attempt
    pairs = zip(attempt.steps, generations, strict=True)
    steps = tuple(msgspec.structs.replace(step, surprisal=made.surprisal) for step, made in pairs)
    return msgspec.structs.replace(attempt, steps=steps)


def _unsampled(generations: Sequence[Generation], place: int) -> str | None:
    """Why an answer is not what its model sampled; None where it is, or where the journal is not there to tell."""
    if not generations:
        return None
    if generations[place].is_scripted:
        return "messages that the agent's program wrote"
    return "answers with a masked secret" if generations[place].is_masked else None


def _attempted(group: AttemptGroup, member: _ReadAttempt, prompts: Prompts) -> Attempted:
    """A trajectory as rows are made of it. Raises BadLine and NoPrompt."""
    line, source, steps, generations = member.line, group.source, member.attempt.steps, member.generations
    if line.is_labelled:
        example = make_example(line, None, image_path=prompts.image_paths(source))
    else:
        offers = prompts.offers(line, source)
        example = make_example(line, prompts.of(line, source), offers, prompts.image_paths(source))
    exchanges = list(exchanges_of(example))
    if len(exchanges) != len(steps):
        raise BadLine(f"it has {len(exchanges)} answers, but its metadata tells of {len(steps)}")
    if generations and len(generations) != len(steps):
        raise BadLine(f"it has {len(steps)} answers, but the journal has {len(generations)}")
    ids = ids_of_path(generations) or [None] * len(steps)
    given = _given(line)
    marks = member.marks
    exchanges = [
        msgspec.structs.replace(
            exchange,
            key=step.key,
            ids=known,
            given=given.get(place),
            is_learnt=place not in marks.masked and _unsampled(generations, place) is None,
            is_masked=place in marks.masked,
            unsampled=_unsampled(generations, place),
            finish_reason=generations[place].finish_reason if generations else None,
            weight_version=generations[place].weight_version if generations else None,
        )
        for place, (exchange, step, known) in enumerate(zip(exchanges, steps, ids, strict=True))
    ]
    return Attempted(
        member.place.id,
        group.name,
        member.attempt.number,
        line,
        example.messages,
        count_opening(example),
        exchanges[: marks.end],
        member.attempt.reward,
        member.advantages,
        member.values,
    )


def _given(line: SavedLine) -> dict[int, tuple[StepKey, int]]:
    """By its place, the step that was given the first tokens of another: that one, and how many."""
    branch = line.branch
    if branch is None or not branch.token_offset or not branch.lineage:
        return {}
    place = sum(count for _, count in branch.lineage)
    return {place: ((branch.lineage[-1][0], place), branch.token_offset)}


def _open(kind: str, path: Path, columns: Columns) -> Writer:
    if kind == "parquet":
        return ParquetFile(path, columns, needed_by="--format parquet")
    return RowsPt(path, columns) if kind == "pt" else JsonLines(path)


def _about(wish: DataWish, maker: RecordMaker, tally: ExportTally) -> JSON:
    return {
        "form": wish.name,
        "reward": wish.reward,
        "advantage": wish.advantage,
        "params": wish.params,
        "filters": wish.filters,
        "columns": dict(maker.columns),
        "read": tally.read,
        "kept": tally.kept,
        "left_out": dict(tally.dropped),
        "notes": dict(tally.notes),
        "files": {path.name: count for path, count in tally.files.items()},
    }
