"""The paths of a command line: the files of trajectories, and the blobs of what their models were sent.

A path is a run directory or the name of a run below `runs`, the output folder of a batch (`<folder>/run` is its run),
any other folder of JSONL files, or such a file. A trajectory names the blobs of its prompt and its images by a hash of
their content, so whichever run has a blob of that name has the right one. Blobs are looked for in the run itself, in
`run` beside the file, in `--run` folders, and in the usual places of run directories.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.environments.domains.offering import Offering
from rollout.pipelines.runs.listing import RUNS, find_named_run
from rollout.store.blobs import image_path, name_of, read_blob
from rollout.store.files.output_repair import holds_lines
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.run_dir import FAILED, find_run
from rollout.trajectories.labels import NoPrompt, Prompt, read_prompt
from rollout.trajectories.line import Head
from rollout.trajectories.saved import BadLine, SavedLine, read_saved_file

USUAL_PLACES = ("runs", "checkpoints")


class Source(msgspec.Struct, frozen=True):
    """A file of trajectories."""

    path: Path
    run: str
    """A name for its run, for telling equal ids apart."""
    run_dir: Path | None = None
    grown_on: frozenset[str] = frozenset()
    """Corrections from which attempts were grown on, which begin with them."""

    def reason_against(self, line: SavedLine) -> str | None:
        """Why a trajectory of it is left out whatever is chosen; None where it is not."""
        return "a correction that was grown on" if line.id in self.grown_on else None

    def read(self) -> Iterator[tuple[str, SavedLine | BadLine]]:
        """Its trajectories, each with its place."""
        return read_saved_file(self.path)


def find_input_run(path: Path) -> Path | None:
    """The run directory that a path means, or, where nothing is there, the name of a run below `runs`."""
    return find_run(path) if path.exists() else find_named_run(path)


def find_sources(paths: Sequence[Path], *, with_failed: bool = False, leave_out: Sequence[Path] = ()) -> list[Source]:
    """The files that these paths mean, each once. `leave_out`: files that are about to be written."""
    found: dict[Path, Source] = {}
    for path in paths:
        for source in _sources_at(path, with_failed, {place.resolve() for place in leave_out}):
            found.setdefault(source.path.resolve(), source)
    for place in leave_out:
        if place.resolve() in found:
            raise ConfigError(f"{place}: would be read and written at once; choose another name for what is written")
    return list(found.values())


def _sources_at(path: Path, with_failed: bool, leave_out: set[Path]) -> list[Source]:
    run_dir = find_input_run(path)
    if run_dir is not None:
        return _run_sources(run_dir, with_failed)
    if path.is_dir():
        files = [file for file in sorted(path.glob("*.jsonl")) if file.resolve() not in leave_out]
        if not files:
            raise ConfigError(f"{path}: neither a run directory nor a folder with JSONL files")
        return [Source(file, path.resolve().name) for file in files]
    if not path.is_file():
        raise ConfigError(
            f"{path}: is not there; expected a run directory, the name of a run below {RUNS}, a folder of JSONL "
            "files, or such a file"
        )
    return [Source(path, path.resolve().parent.name)]


def _run_sources(run_dir: Path, with_failed: bool) -> list[Source]:
    place = run_dir.resolve()
    # All batches call their run directory `run`; the folder around it is what tells them apart.
    name = place.parent.name if place.name == "run" else place.name
    with open_reader(run_dir) as reader:
        sources = [
            Source(file, name, run_dir, frozenset(reader.grown_on(dataset)))
            for dataset, file in _outputs(run_dir, reader)
        ]
    if with_failed and (run_dir / FAILED).is_file():
        sources.append(Source(run_dir / FAILED, name, run_dir))
    return sources


def _outputs(run_dir: Path, reader: JournalReader) -> Iterator[tuple[str, Path]]:
    """The output files that the journal knows, by dataset; where they were moved together with the run, beside it."""
    outputs = reader.outputs()
    if not outputs:
        raise ConfigError(f"{run_dir}: this run has no output yet")
    for name, known in outputs.items():
        file = next((file for file in (known, run_dir.resolve().parent / known.name) if file.is_file()), None)
        if file is None:
            raise ConfigError(
                f"{run_dir}: {known}, the output of {name!r}, is not there; name the file "
                "itself, or let `rollout run … --resume` write it again"
            )
        if not holds_lines(reader, name, file):
            raise ConfigError(
                f"{run_dir}: {file}, the output of {name!r}, was written by another run or program since; name the "
                "file itself to read what it holds, or let `rollout run … --resume` write this run's lines again, "
                "with an output_path of its own for each run"
            )
        yield name, file


class Prompts:
    """System prompts, tools and images that models were sent, from the blobs of their runs. Where no run of ours made
    a trajectory, its prompt comes from policy and tool lists."""

    def __init__(self, runs: Sequence[Path] = (), offering: Offering | None = None) -> None:
        self._runs = tuple(runs)
        self._offering = offering
        self._found: dict[tuple[Path, str | None], Prompt | NoPrompt] = {}
        self._pictured: dict[Path, Path] = {}
        """For each file of trajectories the run directory that had its last image."""

    def image_paths(self, source: Source) -> Callable[[str], str]:
        """Finds the files of a source's images by their names. It raises BadLine where an image is in no run."""
        return lambda name: str(self._image(name, source))

    def _image(self, name: str, source: Source) -> Path:
        known = self._pictured.get(source.path)
        for run_dir in self._run_dirs(source) if known is None else (known, *self._run_dirs(source)):
            path = image_path(run_dir.absolute(), name)
            if path.is_file():
                self._pictured[source.path] = run_dir
                return path
        raise BadLine(f"its image blobs/{name} is in no run that is found; name it with --run DIR")

    def of(self, head: Head, source: Source) -> Prompt:
        """The prompt of a trajectory that has no label yet. Raises NoPrompt."""
        return self.named(head.prompt_name, source)

    def offers(self, head: Head, source: Source) -> dict[int, list[JSON]]:
        """The tools by turn of a trajectory in which they changed. Raises NoPrompt."""
        return {turn: self.named(name, source).tools for turn, name in head.prompt_names}

    def named(self, name: str | None, source: Source) -> Prompt:
        """A prompt by its name, looked for once for each file. Raises NoPrompt."""
        key = (source.path, name)
        if key not in self._found:
            try:
                self._found[key] = self._look_for(name, source)
            except NoPrompt as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, NoPrompt):
            raise found
        return found

    def _look_for(self, name: str | None, source: Source) -> Prompt:
        if name is not None:
            return self._read_blob(name, source)
        if self._offering is None:
            raise NoPrompt(
                "no run of ours recorded what its model was sent; label it first, from policy and tool list: "
                "rollout label … --policy-root DIR --tools-list DIR"
            )
        return self._offering.prompt_of(source.path, _called(source))

    def _read_blob(self, name: str, source: Source) -> Prompt:
        for run_dir in self._run_dirs(source):
            with contextlib.suppress(OSError):
                blob = read_blob(run_dir, name)
                if name_of(blob) != name:
                    raise NoPrompt(f"{run_dir}: blobs/{name}.json was changed after the run wrote it")
                return read_prompt(blob)
        raise NoPrompt(
            f"what its model was sent (blobs/{name}.json) is in no run that is found; name it with --run DIR"
        )

    def _run_dirs(self, source: Source) -> Iterator[Path]:
        folder = source.path.resolve().parent
        yield from self._runs
        if source.run_dir is not None:
            yield source.run_dir
        yield folder / "run"
        for above in dict.fromkeys((Path(), folder, folder.parent)):
            for place in USUAL_PLACES:
                yield from sorted((above / place).glob("*/"))


def _called(source: Source) -> set[str]:
    """The names of the tools that are called in a file."""
    names: set[str] = set()
    for _, line in source.read():
        if isinstance(line, SavedLine):
            with contextlib.suppress(BadLine):
                names.update(call.name for message in line.read_messages() for call in message.tool_calls)
    return names
