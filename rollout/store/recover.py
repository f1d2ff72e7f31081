"""Saving what is readable of a damaged run as a new run.

The rows that can be read (`rollout.store.salvage`) are put into a new journal, and then everything that is not whole
is taken out of it again (`rollout.store.pruning`). The damaged run is only read. The new one has output files of its
own, and appears under its name when it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
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
from rollout.store.damage import DATA_ERRORS
from rollout.store.journal import open_journal
from rollout.store.output_files import open_output
from rollout.store.private import make_private_folder
from rollout.store.pruning import Pruning, Recovered
from rollout.store.run_file import read_run_file
from rollout.store.salvage import read_shapes, salvage_rows
from rollout.store.schema import SCHEMA, connect, lock_run
from rollout.store.token_pieces import NAME_BYTES
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody

_decode_body = msgspec.msgpack.Decoder(NodeBody).decode
_decode_opening = msgspec.msgpack.Decoder(tuple[Message, ...]).decode
_decode_head = msgspec.msgpack.Decoder(Head).decode
_PREFIXES = ("identity:", "planned:", "not_needed:")
"""Facts about datasets that are still true of what was saved."""
Row = dict[str, Any]


def recover(run_dir: Path, target: Path) -> Recovered:
    """Save what is readable of a run into a new run directory, which must not be there yet."""
    source = run_dir / "journal.db"
    if not source.is_file() and not source.with_name(source.name + "-wal").is_file():
        raise JournalError(f"{source}: is not there, nor is its -wal; nothing can be recovered without them")
    if target.exists() or target.is_symlink():
        raise JournalError(f"{target}: is there already; choose another folder with --output")
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
        lock = os.open(run_dir / "journal.lock", os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise JournalError(f"{run_dir}: another process is running this run; stop it first") from error
    else:
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
        meta = _copy_rows(run_dir / "journal.db", database)
        document = _run_file(run_dir)
        Pruning(work, database, meta, document, found).perform()
        found.outputs = _output_names(database, meta, target)
        _write_meta(database, meta, found.outputs)
        database.execute("COMMIT")
    finally:
        database.close()
        os.close(lock)
    if not found.finished and not found.failed and not found.unfinished:
        raise JournalError(f"{run_dir / 'journal.db'}: nothing in it can be read; start the run again (--no-resume)")
    _write_files(work, document, found)
    return found


# ---- copying what can be read ----------------------------------------------------------------------------------------


def _copy_rows(source: Path, database: sqlite3.Connection) -> dict[str, str]:
    """Put every row that is good by itself into the new journal; returns the facts about the run."""
    shapes: dict[tuple[int, bool], list[Any]] = {}
    for shape in read_shapes(SCHEMA):
        shapes.setdefault((len(shape.columns), shape.has_rowid), []).append(shape)
    meta: dict[str, tuple[int, str]] = {}
    doubtful: set[tuple[str, str, tuple[Any, ...]]] = set()
    for raw in salvage_rows(source):
        for shape in shapes.get((len(raw.values), raw.rowid is not None), ()):
            row = shape.read(raw)
            if row is None or not _is_good(shape.table, row):
                continue
            if shape.table == "meta":
                # A fact that was written again has a higher number than before.
                meta[row["key"]] = max(meta.get(row["key"], (0, "")), (raw.rowid or 0, row["value"]))
            elif not _insert(database, shape.table, row):
                columns, keys = _key(shape.table, row)
                doubtful.add((shape.table, columns, keys))
            break
    for table, columns, keys in doubtful:
        database.execute(f"DELETE FROM {table} WHERE {columns}", keys)
    return {key: value for key, (_, value) in meta.items()}


def _is_good(table: str, row: Row) -> bool:
    """Whether a row can be what it seems to be."""
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
    """Add a row. False where another one with its key says something else: then nobody knows which is right."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    values = list(row.values())
    if database.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES ({marks})", values).rowcount:
        return True
    where, keys = _key(table, row)
    there = database.execute(f"SELECT {names} FROM {table} WHERE {where}", keys).fetchone()
    if table != "trajectories":
        return list(there) == values
    # A failed trajectory may have been replaced by a later attempt.
    if row["finished"] > dict(zip(row, there, strict=True))["finished"]:
        database.execute(f"REPLACE INTO {table}({names}) VALUES ({marks})", values)
    return True


def _key(table: str, row: Row) -> tuple[str, tuple[Any, ...]]:
    keys = {"nodes": ("episode", "place"), "trajectories": ("dataset", "id")}.get(table, (next(iter(row)),))
    return " AND ".join(f"{key} = ?" for key in keys), tuple(row[key] for key in keys)


def _copy_blobs(run_dir: Path, work: Path, found: Recovered) -> None:
    """Keep the blobs that are what their names say."""
    for path in sorted((run_dir / "blobs").glob("[!.]*")):
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            if name_of(data) == path.stem:
                write_named(work, path.name, data)
                found.blobs += 1
                continue
        found.lost_blobs.append(path.name)


# ---- the files of the new run ----------------------------------------------------------------------------------------


def _run_file(run_dir: Path) -> JSON:
    """The run file; empty where it cannot be read."""
    with contextlib.suppress(ConfigError):
        return read_run_file(run_dir)
    return {}


def _output_names(database: sqlite3.Connection, meta: dict[str, str], target: Path) -> dict[str, Path]:
    """A new output file for each dataset, in the new run."""
    named = [key.removeprefix("output:") for key in meta if key.startswith("output:")]
    held = [row[0] for row in database.execute("SELECT DISTINCT dataset FROM trees ORDER BY dataset")]
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
        failed = (line for dataset in found.outputs for line in journal.failed_lines(dataset))
        write_atomic(work / "failed.jsonl", b"".join(failed), is_private=True)
    finally:
        asyncio.run(journal.close())
    with contextlib.suppress(*DATA_ERRORS):
        config = document["config"]
        config["run_dir"] = str(found.target)
        for dataset, path in found.outputs.items():
            if dataset in config["datasets"]:
                config["datasets"][dataset]["output_path"] = str(path)
        text = msgspec.json.format(msgspec.json.encode(document), indent=2)
        write_atomic(work / "run.json", text, is_private=True)
        found.has_run_file = True
