"""Sampling: chooses the tasks of a file to roll out.

`WebTaskFile` reads a file of web tasks and keeps of each task only what choosing needs. `draw_train` draws without
replacement among *unique* tasks (rows with the same subdomain, site, difficulty and instruction are one task), so n
tasks come out whenever there are n. Everything random derives from the seed and the iteration's number. `draw_test`
takes the first rows. Both put the hardest tasks first: they take longest, and a run should not end with them.
"""

from __future__ import annotations

import itertools
import random
from array import array
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from rollout.core import seeds
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.core.shares import share_out
from rollout.tasks.benchmarks import ordinary_entry
from rollout.tasks.blocklist import domain_of
from rollout.tasks.jsonl import TaskFile, parse_task
from rollout.tasks.web import WebLine, full_url, task_id_of


class Range(msgspec.Struct, frozen=True):
    """Tasks of some difficulties, and how large their share of a sample is."""

    name: str
    lowest: int
    highest: int
    weight: float


class Drawn(msgspec.Struct, frozen=True):
    """The places of the chosen tasks in their file, hardest first, and notes on the choice for people."""

    places: list[int]
    notes: list[str]


class _Seen(msgspec.Struct, frozen=True):
    """What is kept of a line."""

    id: str
    difficulty: int
    domains: tuple[str, ...]
    key: int


class _ScannedLine(WebLine, frozen=True):
    """A line whose rubric is left as it stands: any is good, and reading it would take longest."""

    evaluator_reference: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_line = msgspec.json.Decoder(_ScannedLine).decode
_decode_any = msgspec.json.Decoder().decode


class WebTaskFile(TaskFile):
    """A file of web tasks: lines of a benchmark (`rollout.tasks.benchmarks`), or ordinary ones with
    `task_info.website`."""

    def __init__(self, *paths: Path) -> None:
        self.difficulties = array("L")
        self.domains: list[tuple[str, ...]] = []
        """The domains that each task begins at, as the block list names them."""
        self.keys = array("q")
        """Equal for rows that are the same task. They mean nothing in another process."""
        self._domains_of: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        super().__init__(*paths)

    def entry(self, index: int) -> JSON:
        """The task at this place, as an ordinary task line."""
        return ordinary_entry(super().entry(index))

    def _look(self, number: int, line: bytes) -> _Seen:
        try:
            found = _decode_line(line)
        except msgspec.ValidationError:
            entry = self._decode(number, line)
            if isinstance(entry, dict) and "task_name" not in entry and "messages" in (made := ordinary_entry(entry)):
                return self._look_at_ordinary(made)
            raise
        task_id = found.task_id
        name = str(task_id) if task_id not in (None, "") else task_id_of(None, _decode_any(line))
        key = hash((found.subdomain, full_url(found.website), found.difficulty, found.task_name))
        return _Seen(name, found.difficulty, self._site(found.website, found.start_url), key)

    def _look_at_ordinary(self, entry: JSON) -> _Seen:
        task = parse_task(entry)
        info = task.info
        website, difficulty = info.get("website", info.get("start_url")), info.get("difficulty", 1)
        if not isinstance(website, str):
            raise TypeError("task_info.website: expected the address that it begins at")
        if not isinstance(difficulty, int) or isinstance(difficulty, bool) or difficulty < 1:
            raise TypeError(f"task_info.difficulty: expected a whole number of at least 1, got {difficulty!r}")
        said = task.messages[0].content if task.messages else None
        key = hash((info.get("subdomain"), full_url(website), difficulty, said))
        return _Seen(task.id, difficulty, self._site(website, info.get("start_url")), key)

    def _site(self, *urls: str | None) -> tuple[str, ...]:
        # Many tasks share a site: each is taken apart once, and its name is kept once.
        if urls not in self._domains_of:
            self._domains_of[urls] = tuple({domain_of(full_url(url)): None for url in urls if url is not None})
        return self._domains_of[urls]

    def _keep(self, found: _Seen) -> None:
        self.difficulties.append(found.difficulty)
        self.domains.append(found.domains)
        self.keys.append(found.key)


def draw_train(
    tasks: WebTaskFile,
    size: int,
    *,
    seed: int,
    iteration: int,
    ranges: Sequence[Range] = (),
    blocked: Collection[str] = (),
    used: Collection[int] = (),
) -> Drawn:
    """Draw `size` tasks: uniformly, or, where there are `ranges`, in the proportion of their weights.

    `blocked`: domains whose tasks are left out. `used`: `keys` of tasks that were had before and are left out too.
    """
    notes: list[str] = []
    places = _unique(tasks)
    if blocked:
        free = [place for place in places if not any(domain in blocked for domain in tasks.domains[place])]
        if len(free) < len(places):
            notes.append(f"{len(places) - len(free)} tasks are left out: their sites are on the block list")
        places = free
    if used:
        fresh = [place for place in places if tasks.keys[place] not in used]
        if len(fresh) < len(places):
            notes.append(f"{len(places) - len(fresh)} tasks are left out: earlier iterations had them")
        places = fresh
    chance = seeds.stream(seed, "train sample", iteration)
    if ranges:
        chosen = _by_ratio(tasks, places, size, ranges, chance, notes)
    else:
        chosen = chance.sample(places, min(size, len(places)))
    if len(chosen) < size:
        repeated = len(tasks.keys) - len(set(tasks.keys))
        why = (
            f"; rows that repeat another task (subdomain, site, difficulty, instruction): {repeated}"
            if repeated
            else ""
        )
        notes.append(f"tasks: only {len(chosen)} instead of {size}, there are no more to draw from{why}")
    return Drawn(hardest_first(tasks, chosen), notes)


def draw_test(tasks: WebTaskFile, size: int) -> Drawn:
    """The first `size` tasks of the file; all of them where it is 0 or less."""
    count = min(size, len(tasks)) if size > 0 else len(tasks)
    notes = [f"only {count} tasks instead of {size}: the file has no more"] if count < size else []
    return Drawn(hardest_first(tasks, range(count)), notes)


def hardest_first(tasks: WebTaskFile, places: Sequence[int]) -> list[int]:
    """The places by falling difficulty; those of equal difficulty stay in the order they are in."""
    return sorted(places, key=lambda place: -tasks.difficulties[place])


def check_ranges(ranges: Sequence[Range]) -> None:
    """Raise ConfigError where two ranges hold the same difficulty: a task would belong to both."""
    by_start = sorted(ranges, key=lambda one: one.lowest)
    for one, other in itertools.pairwise(by_start):
        if other.lowest <= one.highest:
            raise ConfigError(
                f"the ranges {one.name!r} ({one.lowest} to {one.highest}) and {other.name!r} ({other.lowest} to "
                f"{other.highest}) overlap; a difficulty belongs to one range"
            )


def _by_ratio(
    tasks: WebTaskFile,
    places: Sequence[int],
    size: int,
    ranges: Sequence[Range],
    chance: random.Random,
    notes: list[str],
) -> list[int]:
    check_ranges(ranges)
    held = [[place for place in places if one.lowest <= tasks.difficulties[place] <= one.highest] for one in ranges]
    weights = [one.weight for one in ranges]
    counts = share_out(size, weights, list(map(len, held)))
    wanted = share_out(size, weights, [size] * len(ranges))
    for one, room, want in zip(ranges, held, wanted, strict=True):
        if len(room) < want:
            notes.append(
                f"range {one.name!r} (difficulty {one.lowest} to {one.highest}) has {len(room)} of {want} tasks; "
                "the others make up for it as far as they can"
            )
    return [place for room, count in zip(held, counts, strict=True) for place in chance.sample(room, count)]


def _unique(tasks: WebTaskFile) -> list[int]:
    """The places of tasks, each task once: its first row."""
    first: dict[int, int] = {}
    for place, key in enumerate(tasks.keys):
        first.setdefault(key, place)
    return list(first.values())
