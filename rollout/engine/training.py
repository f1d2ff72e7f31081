"""From finished runs to training data: who is compared with whom, what each step was worth, and the rows of it.

A file of trajectories is gone through twice. The first time only what groups need is kept: rewards, steps, where each
line begins; advantages and values come of that. The second time the attempts at one task at a time are read whole, with
the token ids that the journal has, and made into records; so memory holds one task, and rows of a task stand together.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.exchanges import count_opening, exchanges_of
from rollout.engine.exporting import Tally, refuse_nothing
from rollout.engine.filter_marks import Marks, marks_of
from rollout.engine.filtering import Records
from rollout.engine.reader import JournalReader, open_reader
from rollout.engine.sources import Prompts, Source
from rollout.errors import ConfigError, JournalError
from rollout.messages import JSON
from rollout.trajectories.advantages import Attempt, attempts_of_lines, forest_of, leaf_mean, leaf_rows, step_advantages
from rollout.trajectories.exports.parquet import Columns, ParquetFile
from rollout.trajectories.exports.writing import JsonLines, Writer, replaced_together
from rollout.trajectories.generation import Generation
from rollout.trajectories.labels import NoPrompt, make_example
from rollout.trajectories.line import Head
from rollout.trajectories.merging import Splits
from rollout.trajectories.rewards import UNREWARDED
from rollout.trajectories.rows.exchange import Attempted, StepKey, ids_of_path
from rollout.trajectories.rows.pt import RowsPt
from rollout.trajectories.rows.records import Maker
from rollout.trajectories.saved import BadLine, SavedLine, read_saved_at, read_saved_places
from rollout.trajectories.selection import Selection

ABOUT = "about.json"
"""How the name of what is told about a form's files ends."""


class DataWish(msgspec.Struct, frozen=True):
    """What training data is to be."""

    name: str
    """How files are called."""
    make: Callable[[bool], Maker]
    """Makes the form, told whether any of the trajectories has token ids on record."""
    selection: Selection = Selection()
    splits: Splits | None = None
    formats: tuple[str, ...] = ("parquet",)
    reward: str = "success"
    advantage: str | None = "grpo"
    """The name of an estimator; None: no advantages."""
    params: dict[str, Any] = {}
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


class _Surveyed(msgspec.Struct):
    """A trajectory after the first pass."""

    source: Source
    begin: int
    where: str
    id: str
    group: str
    attempt: Attempt
    marks: Marks
    refusal: str | None
    """Why it is left out; None where it is not."""
    advantages: list[float] | None = None
    values: list[float] | None = None


def write_training_data(sources: Sequence[Source], prompts: Prompts, wish: DataWish, out: Path) -> Tally:
    """Write the files of `wish` into the folder `out`, and beside them what they are, as JSON."""
    tally = Tally()
    with contextlib.ExitStack() as stack:
        readers = _Readers(stack)
        survey = _Survey(wish, tally, readers)
        for source in sources:
            survey.add(source)
        maker = wish.make(survey.has_ids)
        files = wish.files(out)
        written, about = list(files), out / f"{wish.name}.{ABOUT}"
        with replaced_together([*files.values(), about]) as temporary:
            with contextlib.ExitStack() as open_files:
                writers = {
                    key: open_files.enter_context(contextlib.closing(_open(key[1], path, maker.columns)))
                    for key, path in zip(written, temporary, strict=False)
                }
                counts = _write(survey, maker, prompts, readers, wish, tally, writers)
            tally.kept = tally.read - tally.dropped.total()
            refuse_nothing(tally, counts.total())
            tally.files = {path: counts[split] for (split, _), path in files.items()}
            temporary[-1].write_bytes(msgspec.json.format(msgspec.json.encode(_about(wish, maker, tally)), indent=1))
    return tally


def _write(
    survey: _Survey,
    maker: Maker,
    prompts: Prompts,
    readers: _Readers,
    wish: DataWish,
    tally: Tally,
    writers: dict[tuple[str, str], Writer],
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, members in survey.groups.items():
        group = []
        for surveyed in members:
            try:
                group.append(_read(surveyed, prompts, readers))
            except (NoPrompt, BadLine) as error:
                tally.blame(surveyed.source, surveyed.where, error)
        if not group:
            continue
        for surveyed in survey.counted.get(name, ()) if maker.compares else ():
            with contextlib.suppress(NoPrompt, BadLine):
                group.append(msgspec.structs.replace(_read(surveyed, prompts, readers), is_learnt=False))
        split = "" if wish.splits is None else wish.splits.of(group[0].head.task_id)
        for record in maker.records(group, tally):
            counts[split] += 1
            for kind in wish.formats:
                writers[split, kind].write(record)
    return counts


class _Readers:
    """The journals of runs, each opened once."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._found: dict[Path, JournalReader] = {}

    def generations(self, line: SavedLine, source: Source) -> list[Generation]:
        """The agent's answers on a trajectory's path, with all that is on record of each; none where nothing is."""
        if source.run_dir is None:
            return []
        if source.run_dir not in self._found:
            self._found[source.run_dir] = self._stack.enter_context(open_reader(source.run_dir))
        try:
            nodes = self._found[source.run_dir].whole_path(str(line.metadata.get("dataset")), line.id)
        except JournalError:
            return []
        return [body.generation for body in nodes if body.kind == "generation" and body.generation is not None]


class _Survey:
    """The first pass."""

    def __init__(self, wish: DataWish, tally: Tally, readers: _Readers) -> None:
        self._wish = wish
        self._tally = tally
        self._readers = readers
        self._records = Records() if wish.filters else None
        self._ids: set[str] = set()
        self._groups: set[str] = set()
        self.groups: dict[str, list[_Surveyed]] = {}
        """What is to be read whole, by group, in the order in which groups came."""
        self.counted: dict[str, list[_Surveyed]] = {}
        """What is left out and counts in its group all the same."""
        self.has_ids = False

    def add(self, source: Source) -> None:
        """Go through a file. Its groups are its own: attempts of different runs are not compared with each other."""
        places: list[tuple[str, int, SavedLine, Marks]] = []

        def lines() -> Iterator[SavedLine]:
            for where, begin, line in read_saved_places(source.path):
                self._tally.read += 1
                try:
                    if isinstance(line, BadLine):
                        raise line
                    if line.status in UNREWARDED:
                        self._tally.drop(f"status {line.status}")
                        continue
                    line.read_messages()
                    marks = Marks() if self._records is None else marks_of(self._records.of(line, source))
                except BadLine as error:
                    self._tally.blame(source, where, error)
                    continue
                # What the second pass reads again need not be held until then.
                places.append((where, begin, msgspec.structs.replace(line, fields={}), marks))
                yield line

        try:
            attempts = attempts_of_lines(lines(), self._wish.reward)
        except ValueError as error:
            raise ConfigError(f"{source.path}: {error}") from error
        names = {group: _apart(group, source.run, self._groups) for group in dict.fromkeys(a.group for a in attempts)}
        members = []
        for (where, begin, line, found), attempt in zip(places, attempts, strict=True):
            refusal = self._wish.selection.reason_against(line) or found.refusal
            if not found.counts_in_group:
                attempt = msgspec.structs.replace(attempt, reward=None)
            if self._wish.advantage == "at2po":
                attempt = self._with_surprisal(attempt, source, line)
            name = _apart(line.id, source.run, self._ids)
            members.append(_Surveyed(source, begin, where, name, names[attempt.group], attempt, found, refusal))
            if refusal is None and (line.metadata.get("tokens") or line.metadata).get("exact"):
                self.has_ids = True
        self._estimate(members)
        for member in members:
            if member.refusal is None:
                self.groups.setdefault(member.group, []).append(member)
            else:
                self._tally.drop(member.refusal)
                if member.attempt.reward is not None:
                    self.counted.setdefault(member.group, []).append(member)

    def _estimate(self, members: Sequence[_Surveyed]) -> None:
        attempts = [member.attempt for member in members]
        if not attempts:
            return
        wish = self._wish
        forest, _, paths = forest_of(attempts)
        values = leaf_mean(forest, leaf_rows(attempts)[0])
        try:
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

    def _with_surprisal(self, attempt: Attempt, source: Source, line: SavedLine) -> Attempt:
        generations = self._readers.generations(line, source)
        if len(generations) != len(attempt.steps):
            return attempt
        pairs = zip(attempt.steps, generations, strict=True)
        steps = tuple(msgspec.structs.replace(step, surprisal=made.surprisal) for step, made in pairs)
        return msgspec.structs.replace(attempt, steps=steps)


def _apart(name: str, run: str, taken: set[str]) -> str:
    """The name, with its run's behind it where another file has it already."""
    chosen, number = name, 1
    while chosen in taken:
        chosen = f"{name}@{run}" if number == 1 else f"{name}@{run}.{number}"
        number += 1
    taken.add(chosen)
    return chosen


def _read(surveyed: _Surveyed, prompts: Prompts, readers: _Readers) -> Attempted:
    """A trajectory, whole. Raises BadLine and NoPrompt."""
    source = surveyed.source
    line = read_saved_at(source.path, surveyed.begin)
    if line.is_labelled:
        example = make_example(line, None)
    else:
        example = make_example(line, prompts.of(line, source), prompts.offers(line, source))
    steps = surveyed.attempt.steps
    exchanges = list(exchanges_of(example))
    if len(exchanges) != len(steps):
        raise BadLine(f"it has {len(exchanges)} answers, but its metadata tells of {len(steps)}")
    generations = readers.generations(line, source)
    if generations and len(generations) != len(steps):
        raise BadLine(f"it has {len(steps)} answers, but the journal has {len(generations)}")
    ids = ids_of_path(generations) or [None] * len(steps)
    given = _given(line)
    marks = surveyed.marks
    exchanges = [
        msgspec.structs.replace(
            exchange,
            key=step.key,
            ids=known,
            given=given.get(place),
            is_learnt=place not in marks.masked,
            finish_reason=generations[place].finish_reason if generations else None,
            weight_version=generations[place].weight_version if generations else None,
        )
        for place, (exchange, step, known) in enumerate(zip(exchanges, steps, ids, strict=True))
    ]
    return Attempted(
        surveyed.id,
        surveyed.group,
        surveyed.attempt.number,
        Head(line.id, line.task_id, line.success, line.metadata),
        example.messages,
        count_opening(example),
        exchanges[: marks.end],
        surveyed.attempt.reward,
        surveyed.advantages,
        surveyed.values,
    )


def _given(line: SavedLine) -> dict[int, tuple[StepKey, int]]:
    """By its place, the step that was given the first tokens of another: that one, and how many."""
    branch = line.metadata.get("branch") or {}
    if not branch.get("token_offset"):
        return {}
    place = sum(count for _, count in branch["lineage"])
    return {place: ((branch["lineage"][-1][0], place), branch["token_offset"])}


def _open(kind: str, path: Path, columns: Columns) -> Writer:
    if kind == "parquet":
        return ParquetFile(path, columns, needed_by="--format parquet")
    return RowsPt(path, columns) if kind == "pt" else JsonLines(path)


def _about(wish: DataWish, maker: Maker, tally: Tally) -> JSON:
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
