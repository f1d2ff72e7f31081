"""What the path of a run means to the commands that read its trajectories."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from rollout import Environment, Request, World, arun
from rollout.core.errors import ConfigError
from rollout.pipelines.inputs import find_sources
from rollout.trajectories.saved import SavedLine

OUTPUT = Path("outputs/talk.jsonl")


async def talk(name: str, *, resume: bool = False) -> Path:
    """A run in which a model of this name speaks. All such runs have one output file."""

    async def speaker(request: Request) -> str:
        return f"I am {name}."

    talks = Environment(tasks=["Hello.", "Good morning."], world=World, name="talk")
    run_dir = Path("runs") / name
    await arun(talks, model=speaker, run_dir=run_dir, resume=resume, output_path=OUTPUT)
    return run_dir


def said(path: Path) -> set[str | None]:
    lines = [line for source in find_sources([path]) for _, line in source.read() if isinstance(line, SavedLine)]
    return {line.read_messages()[-1].content for line in lines}


async def test_an_output_file_that_another_run_took_over_is_not_read_as_the_first_runs() -> None:
    first = await talk("Alice")
    second = await talk("Carol")
    with pytest.raises(ConfigError, match="was written by another run or program since; name the file itself"):
        find_sources([first])
    assert said(second) == said(OUTPUT) == {"I am Carol."}
    await talk("Alice", resume=True)
    assert said(first) == {"I am Alice."}


async def test_an_output_file_that_is_too_short_is_read_as_far_as_it_goes() -> None:
    run_dir = await talk("Alice")
    first, _ = OUTPUT.read_bytes().splitlines(keepends=True)
    OUTPUT.write_bytes(first)
    assert said(run_dir) == {"I am Alice."}


@pytest.mark.parametrize("damage", ["length = -1", "length = NULL", "place = 'words'", "episode = 77, line = NULL"])
async def test_what_a_damaged_journal_says_of_its_lines_does_not_make_them_another_runs(damage: str) -> None:
    run_dir = await talk("Alice")
    with contextlib.closing(sqlite3.connect(run_dir / "journal.db")) as database, database:
        database.execute(f"UPDATE trajectories SET {damage}")
    assert said(run_dir) == {"I am Alice."}


async def test_one_changed_line_does_not_make_the_others_another_runs() -> None:
    run_dir = await talk("Alice")
    first, second = OUTPUT.read_bytes().splitlines(keepends=True)
    OUTPUT.write_bytes(first.replace(b"Alice", b"Clara") + second)
    assert said(run_dir) == {"I am Clara.", "I am Alice."}
