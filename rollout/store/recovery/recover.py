"""Saving what is readable of a damaged run as a new run.

The readable rows (`salvage`) are copied into a new journal, and then everything incomplete is removed from it
(`pruning`). The damaged journal may be of any version up to the newest; the new one is of the newest. The damaged run
is only read. The new run has output files of its own, and appears under its name when it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError, JournalError
from rollout.core.messages import JSON, Message
from rollout.store.blobs import name_of, write_atomic, write_named
from rollout.store.connection import connect
from rollout.store.damage import DATA_ERRORS
from rollout.store.files.output_files import open_output
from rollout.store.files.result_files import write_failed
from rollout.store.files.run_file import read_run_file
from rollout.store.journal import open_journal
from rollout.store.locks import take_lock
from rollout.store.private import make_private_folder
from rollout.store.recovery.pruning import Pruning, Recovered
from rollout.store.recovery.recover_marks import recover_marks
from rollout.store.recovery.salvage import Shape, read_shapes, salvage_rows
from rollout.store.run_dir import BLOBS, JOURNAL, LOCK, RUN_FILE, lock_run, wal_of
from rollout.store.schema import LATER_COLUMNS, SCHEMA
from rollout.store.token_pieces import NAME_BYTES
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody

_decode_body = msgspec.msgpack.Decoder(NodeBody).decode
_decode_opening = msgspec.msgpack.Decoder(tuple[Message, ...]).decode
_decode_head = msgspec.msgpack.Decoder(Head).decode
_PREFIXES = ("identity:", "planned:", "not_needed:")
"""Facts about datasets that also hold for the new run."""
Row = dict[str, Any]


def recover(run_dir: Path, target: Path) -> Recovered:
    """Save what is readable of a run in a new run directory, which must not exist yet."""
    source = run_dir / JOURNAL
    if not source.is_file() and not wal_of(source).is_file():
        raise JournalError(f"{source}: is missing, and so is its -wal; nothing can be recovered without them")
    if target.exists() or target.is_symlink():
        raise JournalError(f"{target}: already exists; choose another folder with --output")
    work = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
    with _nobody_writing(run_dir):
        try:
            make_private_folder(work)
            found = _rebuild(run_dir, work, target)
            work.rename(target)
        except OSError as error:
            raise JournalError(f"{target}: cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return found


@contextlib.contextmanager
def _nobody_writing(run_dir: Path) -> Iterator[None]:
    """Hold the lock of a run directory without changing anything in it."""
    try:
        lock = os.open(run_dir / LOCK, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise JournalError(f"{run_dir / LOCK}: cannot be opened: {error.strerror or error}; remove it") from error
    try:
        take_lock(lock, f"{run_dir}: another process is running this run; stop it first")
    except OSError as error:
        raise JournalError(f"{run_dir / LOCK}: {error.strerror}, and copy the run directory there") from error
    try:
        yield
    finally:
        os.close(lock)


def _rebuild(run_dir: Path, work: Path, target: Path) -> Recovered:
    found = Recovered(target)
    _copy_blobs(run_dir, work, found)
    lock = lock_run(work)
    database = connect(work, lock, "normal")
    try:
        database.execute("BEGIN")
        meta = _copy_rows(run_dir / JOURNAL, database)
        document = _run_file(run_dir)
        Pruning(work, database, meta, document, found).perform()
        found.outputs = _output_names(database, meta, target)
        _write_meta(database, meta, found.outputs)
        database.execute("COMMIT")
    finally:
        database.close()
        os.close(lock)
    if not found.finished and not found.failed and not found.unfinished:
        raise JournalError(f"{run_dir / JOURNAL}: nothing in it can be read; start the run again (--no-resume)")
    _write_files(work, document, found)
    found.marks = recover_marks(run_dir, work)
    return found


# ---- copying readable rows -------------------------------------------------------------------------------------------


def _copy_rows(source: Path, database: sqlite3.Connection) -> dict[str, str]:
    """Copy every row that is valid by itself into the new journal. Returns the facts about the run."""
    shapes: dict[tuple[int, bool], list[Shape]] = {}
    for shape in read_shapes(SCHEMA, LATER_COLUMNS):
        for length in shape.lengths:
            shapes.setdefault((length, shape.has_rowid), []).append(shape)
    meta: dict[str, tuple[int, str]] = {}
    doubtful: set[tuple[str, str, tuple[Any, ...]]] = set()
    for raw in salvage_rows(source):
        for shape in shapes.get((len(raw.values), raw.rowid is not None), ()):
            row = shape.read(raw)
            if row is None or not _is_good(shape.table, row):
                continue
            if shape.table == "meta":
                # A fact that was written again has a higher row id.
                meta[row["key"]] = max(meta.get(row["key"], (0, "")), (raw.rowid or 0, row["value"]))
            elif not _insert(database, shape.table, row):
                columns, keys = _key(shape.table, row)
                doubtful.add((shape.table, columns, keys))
            break
    for table, columns, keys in doubtful:
        database.execute(f"DELETE FROM {table} WHERE {columns}", keys)
    return {key: value for key, (_, value) in meta.items()}


def _is_good(table: str, row: Row) -> bool:
    """Whether the content of a row fits its table."""
    try:
        if table == "nodes":
            _decode_body(row["body"])
            return bool(row["episode"] > 0 and row["place"] >= 0)
        if table == "trees":
            _decode_opening(row["opening"])
        elif table == "token_pieces":
            return bool(hashlib.blake2b(row["ids"], digest_size=NAME_BYTES).digest() == row["name"])
        elif table == "trajectories":
            head = _decode_head(row["head"])
            told = (head.id, head.status, head.stop_reason, int(head.success))
            return told == (row["id"], row["status"], row["stop_reason"], row["success"])
    except DATA_ERRORS:
        return False
    return True


def _insert(database: sqlite3.Connection, table: str, row: Row) -> bool:
    """Add a row. False if another row has the same key and different values: then it is unknown which is right."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    values = list(row.values())
    if database.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES ({marks})", values).rowcount:
        return True
    where, keys = _key(table, row)
    if table != "trajectories":
        return list(database.execute(f"SELECT {names} FROM {table} WHERE {where}", keys).fetchone()) == values
    # A failed trajectory may have been replaced by a later attempt, and a row without a reward by one that has it.
    finished, reward = database.execute(f"SELECT finished, reward FROM {table} WHERE {where}", keys).fetchone()
    if (row["finished"], row.get("reward") is not None) > (finished, reward is not None):
        database.execute(f"REPLACE INTO {table}({names}) VALUES ({marks})", values)
    return True


def _key(table: str, row: Row) -> tuple[str, tuple[Any, ...]]:
    keys = {"nodes": ("episode", "place"), "trajectories": ("dataset", "id")}.get(table, (next(iter(row)),))
    return " AND ".join(f"{key} = ?" for key in keys), tuple(row[key] for key in keys)


def _copy_blobs(run_dir: Path, work: Path, found: Recovered) -> None:
    """Copy the blobs whose content matches their name."""
    for path in sorted((run_dir / BLOBS).glob("[!.]*")):
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            if name_of(data) == path.stem:
                write_named(work, path.name, data)
                found.blobs += 1
                continue
        found.lost_blobs.append(path.name)


# ---- the files of the new run ----------------------------------------------------------------------------------------


def _run_file(run_dir: Path) -> JSON:
    """The run file; empty if it cannot be read."""
    with contextlib.suppress(ConfigError):
        return read_run_file(run_dir)
    return {}


def _output_names(database: sqlite3.Connection, meta: dict[str, str], target: Path) -> dict[str, Path]:
    """A new output file for each dataset, in the new run."""
    named = [key.removeprefix("output:") for key in meta if key.startswith("output:")]
    held = [dataset for (dataset,) in database.execute("SELECT DISTINCT dataset FROM trees ORDER BY dataset")]
    names: dict[str, Path] = {}
    for dataset in dict.fromkeys([*held, *named]):
        plain = re.sub(r"[^\w.-]", "_", dataset).lstrip(".") or "dataset"
        path = target / "outputs" / f"{plain}.jsonl"
        names[dataset] = path if path not in names.values() else path.with_stem(f"{plain}-{len(names)}")
    return names


def _write_meta(database: sqlite3.Connection, meta: dict[str, str], outputs: dict[str, Path]) -> None:
    facts = {key: value for key, value in meta.items() if _is_fact(key, value)}
    facts |= {f"output:{dataset}": str(path.resolve()) for dataset, path in outputs.items()}
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())


def _is_fact(key: str, value: str) -> bool:
    try:
        if key == "seconds":
            return float(value) >= 0
        if key.startswith("identity:"):
            return isinstance(msgspec.json.decode(value), dict)
        return key.startswith(_PREFIXES) and int(value) >= 0
    except DATA_ERRORS:
        return False


def _write_files(work: Path, document: JSON, found: Recovered) -> None:
    make_private_folder(work / "outputs")
    journal = open_journal(work)
    try:
        for dataset, path in found.outputs.items():
            journal.attach(dataset, open_output(work / "outputs" / path.name))
        write_failed(work, journal, found.outputs)
    finally:
        asyncio.run(journal.close())
    with contextlib.suppress(*DATA_ERRORS):
        config = document["config"]
        config["run_dir"] = str(found.target)
        for dataset, path in found.outputs.items():
            if dataset in config["datasets"]:
                config["datasets"][dataset]["output_path"] = str(path)
        text = msgspec.json.format(msgspec.json.encode(document), indent=2)
        write_atomic(work / RUN_FILE, text, is_private=True)
        found.has_run_file = True
