"""Filters over runs that are larger than memory: what they find, what they compare, and what they keep."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.pipelines.filter import Records
from rollout.pipelines.inputs import Source
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.store.files.filter_file import read_records, write_records
from rollout.trajectories.filters import duplicates, spill
from rollout.trajectories.filters.filtering import Filtering
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.filters.minhash import MOST_MISSED, band_hashes, band_rows
from rollout.trajectories.line import encode_line
from rollout.trajectories.saved import read_saved
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.filters.attempts import ASK, attempt, call, result, say
from tests.trajectories.filters.exact_duplicates import exact_duplicates

WORDS = [f"word{number}" for number in range(300)]
PAIRS = 1000


def filtered(trajectories: Iterator[Trajectory] | list[Trajectory], **filters: object) -> list[Filtered]:
    filtering = Filtering(FiltersByDataset(Config.model_validate({"filters": filters})).of)
    for one in trajectories:
        filtering.add(one)
    return list(filtering.records())


def nearly(records: list[Filtered]) -> dict[str, str]:
    """The duplicates, each with what it is a duplicate of."""
    return {
        record.id: mark.reason.removeprefix("nearly the same as ")
        for record in records
        for mark in record.marks
        if mark.filter == "near_duplicates"
    }


def attempts(chance: random.Random, number: int, tasks: int, *, trees: bool = False) -> list[Trajectory]:
    """Attempts that repeat one another, more or less, within their task and across tasks."""
    texts: list[list[str]] = []
    made = []
    for at in range(number):
        told = list(chance.choice(texts)) if texts and chance.random() < 0.6 else chance.choices(WORDS, k=60)
        for _ in range(chance.choice((0, 0, 1, 2, 4, 9))):
            told[chance.randrange(len(told))] = f"new{chance.randrange(10**6)}"
        texts.append(told)
        steps = [call(content=" ".join(told[:20])), result(" ".join(told[20:35])), say(" ".join(told[35:]))]
        branch = {"number": at, "shared_messages": chance.choice((0, 0, 2, 3))} if trees else {"number": at}
        made.append(attempt(ASK, *steps, id=f"a{at:03}", task=f"t{chance.randrange(tasks)}", branch=branch))
    return made


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("all_pairs", [duplicates.ALL_PAIRS, 1])
def test_hashing_finds_the_duplicates_that_comparing_all_pairs_finds(
    monkeypatch: pytest.MonkeyPatch, similarity: float, trees: bool, all_pairs: int
) -> None:
    monkeypatch.setattr(duplicates, "ALL_PAIRS", all_pairs)
    for seed, tasks in ((1, 1), (2, 4), (3, 40)):
        made = attempts(random.Random(seed), 50, tasks, trees=trees)
        for across in (True, False):
            expected = exact_duplicates(made, similarity, across=across)
            wish = {"similarity": similarity, "across_tasks": across}
            assert nearly(filtered(made, near_duplicates=wish)) == expected
            assert expected or tasks == 40


@pytest.mark.parametrize(("similarity", "size"), [(0.5, 30), (0.7, 12), (0.9, 20), (0.9, 400), (0.95, 60)])
def test_pairs_at_the_threshold_share_a_band(similarity: float, size: int) -> None:
    chance = random.Random(11)
    rows = band_rows(similarity)
    apart = max(count for count in range(size) if size / (size + count) >= similarity)
    missed = 0
    for _ in range(PAIRS):
        members = [chance.getrandbits(64) - (1 << 63) for _ in range(size + apart)]
        one, other = set(members[apart // 2 :]), set(members[: size + apart // 2])
        missed += set(band_hashes(one, rows)).isdisjoint(band_hashes(other, rows))
    assert missed <= PAIRS * MOST_MISSED


def comparisons(monkeypatch: pytest.MonkeyPatch, trajectories: list[Trajectory]) -> int:
    counted = 0
    compare = duplicates.jaccard

    def counting(*args: object) -> float:
        nonlocal counted
        counted += 1
        return compare(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(duplicates, "jaccard", counting)
        filtered(trajectories)
    return counted


@pytest.mark.parametrize("tasks", [1, 400])
def test_comparisons_grow_with_the_number_of_attempts_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    chance = random.Random(5)

    def made(number: int) -> list[Trajectory]:
        texts = [" ".join(chance.choices(WORDS, k=40)) for _ in range(number * 9 // 10)]
        texts += [chance.choice(texts) for _ in range(number - len(texts))]
        return [attempt(ASK, say(text), id=f"a{at}", task=f"t{at % tasks}") for at, text in enumerate(texts)]

    assert comparisons(monkeypatch, made(400)) <= 400


def test_many_equal_attempts_are_each_compared_with_the_one_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    same = [attempt(ASK, say("Books seven and nine are due on Friday."), id=f"a{at}") for at in range(200)]
    assert comparisons(monkeypatch, same) == 199


def test_what_is_kept_of_a_trajectory_does_not_grow_with_its_length(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spill, "IN_MEMORY", 1000)

    def long(number: int) -> Trajectory:
        chance = random.Random(number)
        steps = [message for _ in range(6) for message in (call(content=text(chance)), result(text(chance)))]
        return attempt(ASK, *steps, say(text(chance)), id=f"a{number}", task=f"t{number // 4}")

    def text(chance: random.Random) -> str:
        return " ".join(chance.choices(WORDS, k=200))

    filtering = Filtering(FiltersByDataset(Config()).of, tmp_path)
    for number in range(40):
        filtering.add(long(number))
    tracemalloc.start()
    for number in range(40, 80):
        filtering.add(long(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / 40 < 4000, "the text of each is 17,000 bytes"
    assert list(tmp_path.iterdir()) == [], "what is put aside has no name that could stay behind"
    assert sum(1 for _ in filtering.records()) == 80


def test_records_come_one_at_a_time_in_the_order_in_which_trajectories_came() -> None:
    made = attempts(random.Random(4), 30, 5)
    filtering = Filtering(FiltersByDataset(Config()).of)
    for one in made:
        filtering.add(one)
    records = filtering.records()
    assert next(records).id == "a000"
    assert [record.id for record in records] == [one.id for one in made[1:]]


# ---- the file --------------------------------------------------------------------------------------------------------


def test_marks_of_a_trajectory_are_found_in_any_order(tmp_path: Path) -> None:
    made = attempts(random.Random(6), 300, 20)
    records = filtered(made)
    write_records(tmp_path / "filters.jsonl", records)
    assert list(read_records(tmp_path / "filters.jsonl").values()) == records
    lines = []
    for one in made:
        one.metadata["dataset"] = "data"
        lines.append((one.id, read_saved(encode_line(one, one.messages))))
    random.Random(7).shuffle(lines)
    source = Source(tmp_path / "out.jsonl", "run", tmp_path)
    by_id = {record.id: record for record in records}
    found = Records()
    assert all(found.of(line, source) == by_id[name] for name, line in lines)


def test_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "filters.jsonl"
    write_records(path, filtered([attempt()]))
    path.write_bytes(path.read_bytes() + b'{"id": 7}\n')
    one = attempt(dataset="data")
    one.metadata["dataset"] = "data"
    line = read_saved(encode_line(one, one.messages))
    with pytest.raises(ConfigError, match=r"filters\.jsonl:2: is not what"):
        Records().of(line, Source(tmp_path / "out.jsonl", "run", tmp_path))
    with pytest.raises(ConfigError, match=r"filters\.jsonl:2: is not what"):
        read_records(path)


def test_old_marks_stay_where_filtering_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "filters.jsonl"
    path.write_text("old\n")

    def broken() -> Iterator[Filtered]:
        yield from filtered([attempt()])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(path, broken())
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_opening_of_another_length_is_compared_from_where_two_attempts_part() -> None:
    told = " ".join(WORDS[:80])
    one = attempt(ASK, say(told), id="a1")
    other = attempt(Message(role="user", content="Something else entirely?"), say(told), id="a2")
    assert nearly(filtered([one, other])) == exact_duplicates([one, other], 0.9)
