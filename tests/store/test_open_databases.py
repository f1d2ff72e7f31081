"""A journal that this process has open stays locked for other processes, whatever else here opens and closes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rollout.store.connection import is_begun
from rollout.store.journal import Journal, open_journal
from rollout.store.open_databases import is_open
from rollout.store.reading.reader import open_reader

DATABASE, INDEX = Path("run/journal.db"), Path("run/journal.db-shm")
SHARED, IN_USE = (0x40000002, 510), (128, 1)
"""Bytes that SQLite locks in a database, and in the index of its log, while it has them open."""
TRY = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
    except OSError:
        sys.exit(7)
"""


def is_locked(path: Path, place: tuple[int, int]) -> bool:
    """Whether another process is kept from locking these bytes."""
    first, length = place
    done = subprocess.run([sys.executable, "-c", TRY, str(path), str(first), str(length)], check=False)
    assert done.returncode in (0, 7)
    return done.returncode == 7


async def begin_run() -> Journal:
    journal = open_journal(Path("run"))
    journal.set_meta("identity:d", "{}")
    await journal.flush()
    return journal


async def test_a_reader_beside_the_writer_of_the_same_process_releases_nothing() -> None:
    journal = await begin_run()
    assert is_locked(INDEX, IN_USE)
    assert is_locked(DATABASE, SHARED)
    with open_reader(Path("run")) as reader:
        assert reader.meta("identity:d") == "{}"
        assert is_locked(INDEX, IN_USE)
    assert is_begun(Path("run"))
    assert is_locked(INDEX, IN_USE)
    assert is_locked(DATABASE, SHARED)
    await journal.close()


async def test_a_second_reader_releases_nothing_of_the_first() -> None:
    journal = await begin_run()
    with open_reader(Path("run")) as first:
        await journal.close()
        assert first.meta("identity:d") == "{}"
        with open_reader(Path("run")) as second:
            assert second.meta("identity:d") == "{}"
        assert is_locked(INDEX, IN_USE)
        assert is_locked(DATABASE, SHARED)


async def test_a_writer_beside_a_reader_of_the_same_process_releases_nothing() -> None:
    journal = await begin_run()
    await journal.close()
    with open_reader(Path("run")) as reader:
        assert reader.meta("identity:d") == "{}"
        again = open_journal(Path("run"))
        assert is_locked(DATABASE, SHARED)
        await again.close()
        assert is_locked(DATABASE, SHARED)


async def test_a_closed_journal_is_not_taken_for_open() -> None:
    journal = await begin_run()
    assert is_open(DATABASE)
    with open_reader(Path("run")):
        await journal.close()
        assert is_open(DATABASE)
    assert not is_open(DATABASE)
