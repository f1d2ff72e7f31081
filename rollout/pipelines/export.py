"""From saved trajectories to labelled files and to what trainers read.

One pass over each file, one line at a time: read, choose, label, tell apart, convert, write. What is left out is
counted with its reason, so that the numbers add up. Files take their names when all of them are whole.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.agents.turns import split_steps, split_turns, was_sent_whole, whole
from rollout.core.errors import ConfigError
from rollout.models.builtin.oracle import ORACLE
from rollout.pipelines.filter import Records
from rollout.pipelines.inputs import Prompts, Source
from rollout.pipelines.people.marked import MarkedSources
from rollout.trajectories.exports.exporter import MASKED, NO_ANSWER, Exporter, Unfit, can_mask
from rollout.trajectories.exports.masking import filtered
from rollout.trajectories.exports.writing import JsonLines, Writer, replaced_together
from rollout.trajectories.labels import Example, NoPrompt, add_label, make_example
from rollout.trajectories.merging import Merged, Splits
from rollout.trajectories.saved import BadLine, SavedLine
from rollout.trajectories.selection import Selection

MOST_PROBLEMS = 20


class ExportTally:
    """What became of every trajectory that was read."""

    def __init__(self) -> None:
        self.read = 0
        self.kept = 0
        self.dropped: Counter[str] = Counter()
        self._problems: dict[tuple[Path, str], str] = {}
        self.notes: Counter[str] = Counter()
        self.files: dict[Path, int] = {}
        """The files that were written, with their records."""
        self.outdated: list[Path] = []
        """Runs in which people set or removed marks after `rollout filter`, whose marks were applied."""
        self.builtin = 0
        """Trajectories whose agent was no language model."""

    def saw_agent(self, model: str | None) -> None:
        """Note who made a trajectory that was written."""
        self.builtin += model == ORACLE

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1

    def note(self, text: str) -> None:
        self.notes[text] += 1

    def blame(self, source: Source, where: str, error: NoPrompt | BadLine) -> None:
        """Leave a trajectory out for something that should be fixed."""
        self.drop("no system prompt and tools" if isinstance(error, NoPrompt) else "cannot be read")
        self._problems.setdefault((source.path, str(error)), where)

    @property
    def problems(self) -> list[str]:
        """What a person should fix, each once for a file, with the place where it first showed; not too many."""
        told = [f"{where}: {text}" for (_, text), where in self._problems.items()]
        more = len(told) - MOST_PROBLEMS
        return told if more <= 0 else [*told[:MOST_PROBLEMS], f"and {more} more"]


class Wish(msgspec.Struct, frozen=True):
    """What an export is to be."""

    exporter: Exporter
    selection: Selection = Selection()
    splits: Splits | None = None
    per_turn: bool = False
    drop_reasoning: bool = False
    fields: dict[str, Any] = {}
    """Put into every record, over what the format has there."""
    filters: bool = False
    """Do as the marks of `rollout filter` say."""

    def files(self, out: Path) -> dict[str, Path]:
        """The file of each split; of "" where there are none."""
        suffix = self.exporter.suffix
        if self.splits is None:
            return {"": out if out.suffix else out.with_name(out.name + suffix)}
        name = out.name.removesuffix(suffix)
        return {split: out.with_name(f"{name}.{split}{suffix}") for split in self.splits.names}


def label_sources(sources: Sequence[Source], prompts: Prompts, out: Path) -> ExportTally:
    """Write the finished trajectories with their labels into one file, in order."""
    tally = ExportTally()
    with replaced_together([out]) as (temporary,), contextlib.closing(JsonLines(temporary)) as file:
        for source in sources:
            for where, line in _chosen(source, Selection(), tally):
                try:
                    file.write_line(_labelled(line, source, prompts, tally))
                    tally.kept += 1
                except (NoPrompt, BadLine) as error:
                    tally.blame(source, where, error)
        refuse_nothing(tally, tally.kept)
    tally.files[out] = tally.kept
    return tally


def _labelled(line: SavedLine, source: Source, prompts: Prompts, tally: ExportTally) -> bytes:
    if line.is_labelled:
        tally.notes["had their label already"] += 1
        return msgspec.json.encode(line.fields) + b"\n"
    return add_label(line, prompts.of(line, source))


def export_sources(sources: Sequence[Source], prompts: Prompts, wish: Wish, out: Path) -> ExportTally:
    """Write the chosen trajectories in the wished format."""
    tally = ExportTally()
    write_examples(_examples(sources, prompts, wish, tally), wish, out, tally)
    return tally


def write_examples(examples: Iterable[Example], wish: Wish, out: Path, tally: ExportTally) -> None:
    """Write examples in the wished format. Files take their names when all of them are whole."""
    files = wish.files(out)
    with replaced_together(list(files.values())) as temporary, contextlib.ExitStack() as stack:
        writers: dict[str, Writer] = {}
        for split, path in zip(files, temporary, strict=True):
            writers[split] = stack.enter_context(contextlib.closing(wish.exporter.open(path)))
        counts: Counter[str] = Counter()
        for example in examples:
            split = "" if wish.splits is None else wish.splits.of(example.task_id)
            try:
                parts = _parts(example, wish)
                records = [{**wish.exporter.convert(part), **wish.fields} for part in parts]
            except (Unfit, BadLine) as error:
                tally.drop(str(error))
                continue
            if not wish.per_turn and parts[0].context is not None:
                tally.notes["written step by step: no request had the whole conversation"] += 1
            tally.kept += 1
            counts[split] += len(records)
            if example.has_reasoning and not wish.exporter.holds_reasoning and not wish.drop_reasoning:
                tally.notes["reasoning left out: the format has no place for it"] += 1
            for record in records:
                writers[split].write(record)
        refuse_nothing(tally, tally.kept)
    tally.files = {path: counts[split] for split, path in files.items()}


def _examples(sources: Sequence[Source], prompts: Prompts, wish: Wish, tally: ExportTally) -> Iterator[Example]:
    merged = Merged()
    records = Records() if wish.filters else None
    marked = MarkedSources(wish.selection.people)
    for source in sources:
        for where, line in _chosen(source, wish.selection, tally, marked):
            try:
                record = None if records is None else records.of(line, source)
                if record is not None and record.verdict == "drop":
                    tally.drop(f"filter {', '.join(record.why)}")
                    continue
                if line.is_labelled:
                    example = make_example(line, None, image_path=prompts.image_paths(source))
                else:
                    offers = prompts.offers(line, source)
                    example = make_example(line, prompts.of(line, source), offers, prompts.image_paths(source))
            except (NoPrompt, BadLine) as error:
                tally.blame(source, where, error)
                continue
            if record is not None and record.verdict != "keep":
                example = filtered(example, record)
                tally.notes[f"filtered: {record.verdict}"] += 1
            admitted = merged.admit(example, source.run)
            if admitted is None:
                tally.drop("duplicate")
                continue
            if admitted.id != example.id:
                tally.notes["id was there already: its run's name was put behind it"] += 1
            before = tally.kept
            yield admitted  # the writer decides whether it is kept
            if tally.kept > before:
                tally.saw_agent(line.model)
    if records is not None:
        tally.outdated += records.outdated


def _chosen(
    source: Source, selection: Selection, tally: ExportTally, marked: MarkedSources | None = None
) -> Iterator[tuple[str, SavedLine]]:
    for where, line in source.read():
        tally.read += 1
        if isinstance(line, BadLine):
            tally.blame(source, where, line)
            continue
        if marked is not None:
            line = marked.add_to(line, source)
        reason = selection.reason_against(line) or source.reason_against(line)
        if reason is None:
            yield where, line
        else:
            tally.drop(reason)


def _parts(example: Example, wish: Wish) -> list[Example]:
    # Only prompts have images, so a turn with images has to be divided, too.
    by_step = not was_sent_whole(example) or (wish.per_turn and example.has_images)
    if example.masked and not can_mask(wish.exporter, per_turn=wish.per_turn or by_step):
        raise Unfit(MASKED)
    split = split_steps if by_step else split_turns
    parts = list(split(example)) if wish.per_turn or by_step else [whole(example)]
    if not parts:
        raise Unfit(NO_ANSWER)
    if not wish.drop_reasoning:
        return parts
    return [
        msgspec.structs.replace(part, messages=tuple(message.without_reasoning() for message in part.messages))
        for part in parts
    ]


def refuse_nothing(tally: ExportTally, records: int) -> None:
    """An empty file never takes the place of one that is there."""
    if records:
        return
    why = ", ".join(f"{reason} {number}" for reason, number in tally.dropped.most_common())
    text = f"nothing was written: of {tally.read} trajectories none is left ({why or 'none found'})"
    raise ConfigError("\n".join([text, *tally.problems]))
