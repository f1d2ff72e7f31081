"""Filtering what a run has on record, and keeping the marks beside it.

Trajectories come from the journal, with all that is known of each answer; or from JSONL files, where less is known:
finish reasons and token counts are not in a line. Whether a call could be read is found out again in both cases by the
rules that the run itself uses. Nothing that was written before is changed: the marks are a file of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, ToolResult, Toolset, ToolSpec
from rollout.pipelines.inputs import Prompts, Source, find_input_run, find_sources
from rollout.pipelines.people.marked import MarkedRun
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.store.files.filter_file import RecordFile
from rollout.store.marks import MarksFile
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.run_dir import FILTERS
from rollout.trajectories.filters.filtering import Filtering
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.filters.summary import FilterSummary
from rollout.trajectories.labels import NoPrompt, Prompt
from rollout.trajectories.line import with_dataset
from rollout.trajectories.saved import BadLine, SavedLine
from rollout.trajectories.trajectory import Trajectory

_encode = msgspec.json.Encoder().encode


# ---- the trajectories -----------------------------------------------------------------------------------------------


class FilteredInput:
    """The trajectories of a run or of files, each with what its model was sent."""

    def __init__(self, path: Path, runs: Sequence[Path] = ()) -> None:
        """`path`: a run directory or a run's name, a batch's output folder, a folder of JSONL files, or such a file.
        `runs`: where to look for system prompts and tools besides."""
        self.run_dir = find_input_run(path)
        self._path = path
        self._prompts = Prompts(runs)
        self._readers: dict[bytes, CallReader] = {}
        self.unreadable: list[str] = []
        """Lines that hold no trajectory, each with its place and what is wrong."""
        self.without_prompt = 0
        """Trajectories whose request is unknown: no system prompt is looked for in them."""

    def read(self) -> Iterator[Trajectory]:
        """One at a time."""
        if self.run_dir is None:
            for source in find_sources([self._path]):
                yield from self._of_file(source)
            return
        marked = MarkedRun(self.run_dir)
        with open_reader(self.run_dir) as reader:
            for dataset in reader.datasets():
                yield from self._of_journal(reader, dataset, self.run_dir, marked)

    def _of_journal(
        self, reader: JournalReader, dataset: str, run_dir: Path, marked: MarkedRun
    ) -> Iterator[Trajectory]:
        source = Source(run_dir / FILTERS, run_dir.name, run_dir)
        for trajectory in reader.trajectories(dataset):
            try:
                yield self._with_prompt(marked.add_to(with_dataset(trajectory, dataset)), source)
            except BadLine as error:
                self.unreadable.append(f"{source.run_dir}: {trajectory.id}: {error}")

    def _of_file(self, source: Source) -> Iterator[Trajectory]:
        for where, line in source.read():
            try:
                if isinstance(line, BadLine):
                    raise line
                yield self._with_prompt(with_dataset(line, line.dataset or source.path.stem), source)
            except BadLine as error:
                self.unreadable.append(f"{where}: {error}")

    def _with_prompt(self, trajectory: Trajectory, source: Source) -> Trajectory:
        """The trajectory with what its model was sent, and with the errors of its calls where only a line tells of
        them. Raises BadLine."""
        tools: list[JSON] | None = None
        if isinstance(trajectory, SavedLine) and trajectory.is_labelled:
            with contextlib.suppress(msgspec.MsgspecError):
                tools = msgspec.json.decode(trajectory.fields["tools"], type=list[JSON])
            system = next((message.content for message in trajectory.messages if message.role == "system"), None)
        else:
            prompt = self._prompt(trajectory, source)
            system, tools = (None, None) if prompt is None else (prompt.system, prompt.tools)
        if trajectory.prompt_names:
            tools = None  # where tools were handed out by turn, the last ones are not all of them
        sent = (system, tools or [])
        if trajectory.nodes is not None:
            return msgspec.structs.replace(trajectory, prompt=lambda: sent)
        errors = {} if tools is None else self._errors(trajectory.messages, tools)
        return msgspec.structs.replace(trajectory, prompt=lambda: sent, given=trajectory.messages, given_errors=errors)

    def _errors(self, messages: Sequence[Message], tools: list[JSON]) -> dict[int, str]:
        """The errors in the calls of a conversation, by the places of their results: read as a run reads them."""
        reader = self._reader(tools)
        kinds: dict[int, str] = {}
        waiting: dict[str, str] = {}
        for place, message in enumerate(messages if reader is not None else ()):
            for call in message.tool_calls:
                read = reader.read(call) if reader is not None else None
                if isinstance(read, ToolResult) and read.error_kind is not None:
                    waiting[call.id] = read.error_kind
            if message.role == "tool" and message.tool_call_id in waiting:
                kinds[place] = waiting.pop(message.tool_call_id)
        return kinds

    def _reader(self, tools: list[JSON]) -> CallReader | None:
        """The reader of a list of tools, made once; None for a list that is none of ours."""
        key = _encode(tools)
        if key not in self._readers:
            try:
                self._readers[key] = CallReader(Toolset(tuple(map(ToolSpec.from_json, tools))))
            except (KeyError, TypeError, AttributeError, ValueError):
                return None
        return self._readers[key]

    def _prompt(self, trajectory: Trajectory, source: Source) -> Prompt | None:
        try:
            return self._prompts.of(trajectory, source)
        except NoPrompt:
            self.without_prompt += 1
            return None


# ---- the records ----------------------------------------------------------------------------------------------------


def filter_trajectories(
    found: FilteredInput, filters: FiltersByDataset, summary: FilterSummary, folder: Path | None = None
) -> Iterator[Filtered]:
    """Filter everything that is there: read all of it, then give the records one at a time and count each.

    `folder`: where to store what does not fit into memory; see `Filtering`.
    """
    filtering = Filtering(filters.of, folder)
    for trajectory in found.read():
        filtering.add(trajectory)
    for record in filtering.records():
        summary.add(record)
        yield record


class Records:
    """What `rollout filter` found in runs, for those who use it."""

    def __init__(self) -> None:
        self._files: dict[Path, RecordFile] = {}
        self.outdated: list[Path] = []
        """Runs in which people set or removed marks since they were filtered."""

    def of(self, line: SavedLine, source: Source) -> Filtered:
        """The record of a trajectory. Raises ConfigError where its run was not filtered, BadLine where it is newer."""
        if source.run_dir is None:
            raise ConfigError(f"{source.path}: --filters needs run directories, whose marks `rollout filter` keeps")
        path = source.run_dir / FILTERS
        if path not in self._files:
            self._files[path] = RecordFile(path)
            marked = MarksFile(source.run_dir).last_changed
            if marked is not None and marked > path.stat().st_mtime:
                self.outdated.append(source.run_dir)
        record = self._files[path].get(line.dataset, line.id, line.messages)
        if record is None:
            raise BadLine(f"{path} does not know it as it is now; `rollout filter {source.run_dir}` makes it again")
        return record
