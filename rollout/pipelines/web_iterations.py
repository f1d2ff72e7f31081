"""The iterations of a web experiment on disk: which one is next, what it samples, what is learnt from it.

    <save_path>/
      <split>_trajectories/
        iteration<N>/                                  the run directory, and `tasks.jsonl`: the sample, drawn once
        <split>_trajectories.iteration<N>.jsonl        the trajectories
      blocklist.jsonl                                  sites that keep agents out
      navigation_error_websites.txt                    sites whose start page could not be shown
      hyperparameters.yaml                             the configuration of every start

Numbers continue by themselves from 0. An iteration is over when `iteration.json` in it says so; one whose run directory
is there and says nothing of the kind is gone on with, over the sample that it drew. Files of trajectories alone are
results of another program, and the next number is taken. What the block list learns comes from the journals, so a
killed run loses nothing of it: the next command, of either split, reads them again, and what is known already is not
written twice.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from rollout.config.web import Split, WebConfig
from rollout.config.web_run import Paths
from rollout.core.errors import ConfigError, JournalError
from rollout.environments.web.steps import blocked_verdict
from rollout.store.blobs import write_atomic
from rollout.store.private import make_private_folder
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import BLOBS, JOURNAL, wal_of
from rollout.tasks.blocklist import Blocked, Blocklist, found_blocked
from rollout.tasks.sampling import Drawn, Range, WebTaskFile, draw_test, draw_train
from rollout.tasks.source import Problem

_NUMBERED = re.compile(r"iteration(\d+)")
_RUN_DIR = re.compile(r"iteration(\d+)$")
SITES_FILE = "navigation_error_websites.txt"


class IterationRecord(msgspec.Struct, omit_defaults=True):
    """What `iteration.json` says of an iteration."""

    iteration: int
    split: Split
    tasks: int
    samples: int
    seed: int
    begun_at: str
    size: int | None = None
    """The tasks that were asked for."""
    notes: list[str] = []
    """What a person should know of its sample."""
    finished_at: str | None = None
    """When every trajectory was accounted for and the views were written; until then it is gone on with."""


class Iteration(msgspec.Struct, frozen=True):
    """One iteration of a split."""

    save_path: Path
    split: Split
    number: int

    @property
    def folder(self) -> Path:
        return self.save_path / f"{self.split}_trajectories"

    @property
    def paths(self) -> Paths:
        run_dir = self.folder / f"iteration{self.number}"
        output = self.folder / f"{self.split}_trajectories.iteration{self.number}.jsonl"
        return Paths(run_dir, run_dir / "tasks.jsonl", output)

    @property
    def is_drawn(self) -> bool:
        """Whether its sample has been drawn."""
        return self.paths.tasks.is_file()

    def mark(self) -> IterationRecord | None:
        """What its `iteration.json` says; None where there is none that can be read."""
        try:
            return msgspec.json.decode((self.paths.run_dir / "iteration.json").read_bytes(), type=IterationRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def begin(self, sample: Sample) -> None:
        """Write its sample down. From now on it is gone on with until it is finished."""
        make_private_folder(self.paths.run_dir)
        self._write_mark(sample.mark)
        write_atomic(self.paths.tasks, sample.lines, is_private=True)

    def withdraw(self) -> None:
        """Take its sample back, where nothing was rolled out of it: its run was refused."""
        if not (self.paths.run_dir / JOURNAL).exists():
            for path in (self.paths.tasks, self.paths.run_dir / "iteration.json"):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.paths.run_dir.rmdir()

    def finish(self, web: WebConfig) -> None:
        """Note that everything is accounted for: the next command begins the next iteration."""
        mark = self.mark()
        if mark is None:
            mark = _new_mark(web, self, len(self.paths.tasks.read_bytes().splitlines()), [])
        self._write_mark(msgspec.structs.replace(mark, finished_at=_timestamp()))

    def _write_mark(self, mark: IterationRecord) -> None:
        path = self.paths.run_dir / "iteration.json"
        write_atomic(path, msgspec.json.format(msgspec.json.encode(mark), indent=2), is_private=True)


class Sample(msgspec.Struct, frozen=True):
    """The tasks of an iteration, drawn and not written down yet."""

    mark: IterationRecord
    lines: bytes
    problems: list[Problem]
    """What is wrong in the task file."""


def choose_iteration(web: WebConfig) -> tuple[Iteration, bool]:
    """The iteration to work on, and whether it was begun before."""
    given = web.env_config.resume_checkpoint_path
    if given:
        found = _NUMBERED.findall(given)
        if not found or not (named := Iteration(web.save_path, web.split, int(found[-1]))).is_drawn:
            raise ConfigError(
                f"env_config.resume_checkpoint_path: {given!r} names no iteration of {web.save_path} in the split "
                f"{web.split}; expected something with iteration<N> in it, as {web.split}_trajectories/iteration0"
            )
        return named, True
    known = list_iterations(web.save_path, web.split)
    if known and web.resume:
        last = known[-1]
        mark = last.mark()
        if last.paths.run_dir.is_dir() and (mark is None or mark.finished_at is None):
            return last, last.is_drawn
    return Iteration(web.save_path, web.split, known[-1].number + 1 if known else 0), False


def describe_changes(web: WebConfig, mark: IterationRecord) -> list[str]:
    """What a command says otherwise than the one that began an iteration, and what becomes of it."""
    size_key, size = _asked_size(web)
    attempts_key = "samples" if web.split == "train" else "env_config.test_tasks_repeat_times"
    told = []
    for key, before, now in ((size_key, mark.size, size), ("seed", mark.seed, web.seed)):
        if before is not None and before != now:
            told.append(
                f"{key}: the sample of iteration {mark.iteration} was drawn with {before} and stays as it is; {now} "
                "counts from the next iteration on, which resume=false begins"
            )
    if mark.samples != web.attempts:
        told.append(
            f"{attempts_key}: iteration {mark.iteration} was begun with {mark.samples}, now it is {web.attempts}"
        )
    return told


def list_iterations(save_path: Path, split: Split) -> list[Iteration]:
    """The iterations that have left anything on disk, by number: run directories, or files of trajectories."""
    folder = save_path / f"{split}_trajectories"
    numbers = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _RUN_DIR.fullmatch(path.name) or re.fullmatch(
            rf"{split}_trajectories\.(?:pt\.)?iteration(\d+)(?:\.jsonl|\.parquet)?", path.name
        )
        if match:
            numbers.add(int(match.group(1)))
    return [Iteration(save_path, split, number) for number in sorted(numbers)]


def draw_sample(web: WebConfig, iteration: Iteration, now: datetime, chosen: Path | None = None) -> Sample:
    """Draw the tasks of a new iteration, hardest first. `chosen` is a file of tasks to take as they are instead.
    Raises ConfigError where there are none."""
    tasks = WebTaskFile(chosen or web.tasks_path)
    drawn = _draw(web, iteration, tasks, now) if chosen is None else draw_test(tasks, 0)
    if not drawn.places:
        why = [*drawn.notes, *map(str, tasks.problems[:1])]
        where = web.tasks_path if chosen is None else "tasks"
        raise ConfigError("\n  ".join([f"{where}: there is no task to roll out", *why]))
    lines = []
    for place in drawn.places:
        entry = tasks.entry(place)
        steps = web.max_steps_of(tasks.difficulties[place])
        if steps is not None and entry["task_info"].get("max_steps") is None:
            entry["task_info"]["max_steps"] = steps
        # The id is written out, so that it does not depend on what a later version hashes.
        lines.append(msgspec.json.encode({**entry, "id": tasks.ids[place]}) + b"\n")
    mark = _new_mark(web, iteration, len(lines), drawn.notes)
    return Sample(mark, b"".join(lines), tasks.problems)


def _new_mark(web: WebConfig, iteration: Iteration, tasks: int, notes: list[str]) -> IterationRecord:
    return IterationRecord(
        iteration=iteration.number,
        split=iteration.split,
        tasks=tasks,
        samples=web.attempts,
        seed=web.seed,
        begun_at=_timestamp(),
        size=_asked_size(web)[1],
        notes=notes,
    )


def _asked_size(web: WebConfig) -> tuple[str, int]:
    """The key that says how many tasks a sample has, and its value."""
    env = web.env_config
    if web.split == "train":
        return "env_config.train_tasks_rollout_size", env.train_tasks_rollout_size
    return "env_config.test_tasks_rollout_size", env.test_tasks_rollout_size


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _draw(web: WebConfig, iteration: Iteration, tasks: WebTaskFile, now: datetime) -> Drawn:
    env = web.env_config
    if web.split == "test":
        return draw_test(tasks, env.test_tasks_rollout_size)
    if env.train_tasks_rollout_size < 1:
        raise ConfigError(
            f"env_config.train_tasks_rollout_size: expected at least 1 task for training, got "
            f"{env.train_tasks_rollout_size}"
        )
    notes = []
    ranges: list[Range] = []
    if env.train_tasks_sampler == "ratio":
        ranges = [Range(name, *part.range, part.weight) for name, part in env.difficulty_ratio.items()]
        if not any(part.weight for part in ranges):
            notes.append("env_config.difficulty_ratio gives nothing any weight: sampling is uniform")
            ranges = []
    used: set[int] = set()
    if env.deduplicate_across_iterations:
        for earlier in list_iterations(web.save_path, web.split):
            if earlier.number < iteration.number and earlier.is_drawn:
                used |= set(WebTaskFile(earlier.paths.tasks).keys)
    drawn = draw_train(
        tasks,
        env.train_tasks_rollout_size,
        seed=web.seed,
        iteration=iteration.number,
        ranges=ranges,
        blocked=blocklist_of(web).blocked(now),
        used=used,
    )
    return Drawn(drawn.places, notes + drawn.notes)


def blocklist_of(web: WebConfig) -> Blocklist:
    """The block list of an experiment."""
    return Blocklist(web.save_path / "blocklist.jsonl", web.blocklist_hours)


def learn(web: WebConfig, now: datetime) -> list[Blocked]:
    """Put onto the block list what the journals of all iterations found blocked lately; returns what was not there.

    Sites whose start page could not be shown are noted too, in a file of their own, and filter nothing.
    """
    since = now - timedelta(hours=web.blocklist_hours)
    findings: list[Blocked] = []
    unreachable: set[str] = set()
    for split in ("train", "test"):
        for iteration in list_iterations(web.save_path, split):
            blocked, failed = _read_findings(iteration, since)
            findings += blocked
            unreachable |= failed
    _note_sites(web.save_path / SITES_FILE, unreachable)
    return blocklist_of(web).add(findings)


def _read_findings(iteration: Iteration, since: datetime) -> tuple[list[Blocked], set[str]]:
    """Sites in an iteration's journal that were blocked, and sites whose start page failed."""
    journal = iteration.paths.run_dir / JOURNAL
    recent = [path for path in (journal, wal_of(journal)) if path.is_file()]
    if not any(path.stat().st_mtime >= since.timestamp() for path in recent) or not iteration.is_drawn:
        return [], set()
    blocked: list[tuple[str, datetime, str | None]] = []
    failed: set[str] = set()
    try:
        with open_reader(iteration.paths.run_dir) as reader:
            for head, finished in reader.heads(iteration.split):
                at = datetime.fromtimestamp(finished, UTC)
                if at >= since and blocked_verdict(head):
                    line = reader.line(iteration.split, head.id)
                    blocked.append((head.task_id, at, _screenshot(iteration, line)))
                elif head.error is not None and head.error.kind == "navigation":
                    failed.add(head.task_id)
    except JournalError:
        # A journal that cannot be read does not prevent a rollout; the next resume reports it.
        return [], set()
    sites = _sites_of(iteration.paths.tasks, {task_id for task_id, _, _ in blocked} | failed)
    findings = [
        found_blocked(sites[task_id], at, task_id, screenshot)
        for task_id, at, screenshot in blocked
        if task_id in sites
    ]
    return findings, {_origin(sites[task_id]) for task_id in failed if task_id in sites}


def _screenshot(iteration: Iteration, line: bytes) -> str | None:
    """The last picture that a trajectory was shown, by its path below `save_path`."""
    messages = msgspec.json.decode(line)["messages"]
    names = [name for message in messages for name in message.get("images", ())]
    return str((iteration.paths.run_dir / BLOBS / names[-1]).relative_to(iteration.save_path)) if names else None


def _sites_of(tasks: Path, wanted: Iterable[str]) -> dict[str, str]:
    """The addresses that the tasks of a sample begin at, of those that are wanted."""
    left = set(wanted)
    if not left:
        return {}
    found = {}
    for line in tasks.read_bytes().splitlines():
        entry = msgspec.json.decode(line)
        if entry["id"] in left:
            info = entry["task_info"]
            found[entry["id"]] = info.get("start_url") or info["website"]
    return found


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _note_sites(path: Path, sites: set[str]) -> None:
    """Add what is not there yet."""
    known = path.read_text().splitlines() if path.is_file() else []
    fresh = sorted(sites - set(known))
    if fresh:
        write_atomic(path, "".join(f"{site}\n" for site in [*known, *fresh]).encode())


def sites_unreachable(iteration: Iteration) -> list[str]:
    """The sites whose start page could not be shown in this iteration."""
    return sorted(_read_findings(iteration, datetime.fromtimestamp(0, UTC))[1])
