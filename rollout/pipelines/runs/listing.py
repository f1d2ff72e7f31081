"""The runs below a folder, with configuration, progress, and whether a process writes them.

Everything is read from `run.json` and from sums over the journal's columns. Nothing is locked, so a run that is going
on can be listed, too.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

import msgspec

from rollout.core.errors import ConfigError, JournalError, RolloutError
from rollout.core.spelling import suggest
from rollout.store.files.run_file import read_run_file
from rollout.store.reading.counting import StatusCounts
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.run_dir import BLOBS, JOURNAL, LOGS, RUN_FILE, find_run
from rollout.store.running import is_running
from rollout.trajectories.stop import Status

RUNS = Path("runs")
"""Where runs are, unless a configuration says otherwise."""
DEEPEST = 4
"""How deep below the listed folder runs are looked for."""
RunState = Literal["running", "finished", "unfinished", "damaged"]
_STAMP = re.compile(r"\.\d{8}-\d{6}(-\d+)?$")


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as a list shows it."""

    path: Path
    name: str
    """Its path below the folder that is listed."""
    state: RunState
    problem: str | None = None
    """Why it cannot be read, where it is damaged."""
    started: str | None = None
    """When its first command began (ISO 8601); None where `run.json` does not say it."""
    config: str | None = None
    """The name of its configuration."""
    models: tuple[str, ...] = ()
    """The models of its agents."""
    user_models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    planned: int | None = None
    """Trajectories that were planned and are needed; None where that is not on record."""
    finished: int = 0
    failed: int = 0
    scored: int = 0
    solved: int = 0
    mean_reward: float | None = None
    cost: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    """What all its commands took."""
    updated: float | None = None
    """When its last trajectory ended, in seconds since 1970."""

    @property
    def solved_rate(self) -> float | None:
        return self.solved / self.scored if self.scored else None


class RunList(msgspec.Struct, frozen=True):
    """The runs below a folder, newest first."""

    folder: Path
    runs: tuple[ListedRun, ...]
    moved_aside: tuple[Path, ...]
    """Old runs that `--no-resume` has moved aside (`rollout.pipelines.runs.old`)."""


def list_runs(folder: Path) -> RunList:
    """The runs below a folder. Raises ConfigError where there is no such folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is not a folder; `rollout run default` makes the first run in {RUNS}")
    aside, runs = [], []
    for path in find_runs(folder):
        if is_moved_aside(path):
            aside.append(path)
        else:
            runs.append(describe_run(path, folder))
    runs.sort(key=lambda run: (_time_of(run.started), run.name), reverse=True)
    return RunList(folder, tuple(runs), tuple(aside))


def find_runs(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """The run directories below a folder, the folder itself included."""
    if any((folder / name).is_file() for name in (JOURNAL, RUN_FILE)):
        yield folder
        return
    if depth == 0:
        return
    try:
        below = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in below:
        if name not in (BLOBS, LOGS) and not name.startswith("."):
            yield from find_runs(folder / name, depth - 1)


def find_named_run(path: Path) -> Path | None:
    """The run directory that a path or the name of a run below `runs` means, if there is one."""
    return find_run(path) or find_run(RUNS / path)


def locate_run(name: str) -> Path:
    """The run directory that a path or the name of a run below `runs` means. Raises ConfigError where there is none."""
    if (found := find_named_run(Path(name))) is not None:
        return found
    if not RUNS.is_dir():
        raise ConfigError(f"{name}: is not a run directory, and there is no folder {RUNS} here to look for one")
    known = [str(path.relative_to(RUNS)) for path in find_runs(RUNS) if not is_moved_aside(path)]
    advice = f"; {suggest(name, known)}" if known else ""
    raise ConfigError(f"{name}: is not a run directory, and there is no run of this name in {RUNS}{advice}")


def is_moved_aside(path: Path) -> bool:
    """Whether a run directory has been moved aside by a new start: its name ends with a time, and it was not begun
    under that name."""
    if not _STAMP.search(path.name):
        return False
    try:
        document = read_run_file(path)
    except ConfigError:
        # Nothing shows what it is, so it is left alone.
        return False
    if (begun_in := document.get("run_dir")) is not None:
        return PurePath(str(begun_in)).name != path.name
    # Earlier versions recorded only the configuration and the command.
    begun_as = [(document.get("config") or {}).get("run_dir"), *_words_of(document, last=True)]
    return all(path.name not in (PurePath(word).name, PurePath(word).stem) for word in begun_as if word)


def describe_run(path: Path, folder: Path = RUNS) -> ListedRun:
    """One run, whatever state it is in."""
    facts: dict[str, Any] = {"path": path, "name": _name_below(path, folder)}
    try:
        facts |= _recorded(path)
        if not (path / JOURNAL).exists():
            raise JournalError(f"{path}: its {JOURNAL} is gone")
        with open_reader(path) as journal:
            facts |= _counted(journal)
    except RolloutError as error:
        return ListedRun(**facts, state="damaged", problem=str(error))
    return ListedRun(**facts, state=_state_of(path, facts))


def _state_of(path: Path, facts: Mapping[str, Any]) -> RunState:
    if is_running(path):
        return "running"
    planned = facts["planned"]
    return "finished" if planned is not None and facts["finished"] + facts["failed"] >= planned else "unfinished"


def _recorded(path: Path) -> dict[str, Any]:
    """The contents of `run.json`."""
    if not (path / RUN_FILE).is_file():
        return {}
    document = read_run_file(path)
    starts = [start for start in document.get("starts") or () if isinstance(start, dict)]
    datasets = (document.get("config") or {}).get("datasets") or {}
    # With `--dataset`, not all of the configuration were rolled out.
    if begun := document.get("datasets"):
        datasets = {name: dataset for name, dataset in datasets.items() if name in begun}
    found = [dataset for dataset in datasets.values() if isinstance(dataset, dict)]
    names = [PurePath(word).stem for word in _words_of(document) if word.endswith((".yml", ".yaml"))]
    return {
        "started": str(starts[0].get("at")) if starts else None,
        "config": names[0] if names else None,
        "models": _models(found, "agent"),
        "user_models": _models(found, "user"),
        "datasets": tuple(map(str, datasets)),
    }


def _words_of(document: Mapping[str, Any], *, last: bool = False) -> list[str]:
    """The command line of the first or the last start, without the program."""
    starts = [start for start in document.get("starts") or () if isinstance(start, dict)]
    return [str(word) for word in (starts[-1 if last else 0].get("command") or ())[1:]] if starts else []


def _models(datasets: list[dict[str, Any]], role: str) -> tuple[str, ...]:
    parts = [dataset.get(role) for dataset in datasets]
    names = [part.get("model") for part in parts if isinstance(part, dict)]
    return tuple(dict.fromkeys(str(name) for name in names if name))


def _counted(journal: JournalReader) -> dict[str, Any]:
    """The totals of the journal."""
    counts = journal.counts()
    sound = [count for count in counts if count.status != Status.FAILED]
    failed = sum(count.trajectories for count in counts if count.status == Status.FAILED)
    return {
        "planned": journal.needed(),
        "finished": sum(count.trajectories for count in sound),
        "failed": failed,
        "scored": sum(count.sums.scored for count in sound),
        "solved": sum(count.solved for count in sound),
        "mean_reward": journal.mean_reward(),
        "cost": sum(count.sums.cost for count in counts),
        "tokens": sum(map(_tokens_of, counts)),
        "seconds": journal.seconds(),
        "updated": journal.last_written(),
    }


def _tokens_of(count: StatusCounts) -> int:
    return count.sums.prompt_tokens + count.sums.completion_tokens


def _name_below(path: Path, folder: Path) -> str:
    try:
        name = str(path.relative_to(folder))
    except ValueError:
        name = str(path)
    return path.resolve().name if name == "." else name


def _time_of(started: str | None) -> float:
    try:
        return datetime.datetime.fromisoformat(started).timestamp() if started else 0.0
    except ValueError:
        return 0.0
