"""The fault campaign: inject faults of every kind into runs, and account for every attempt.

    python -m tests.faults [--only PART] [--seed N] [--scale X] [--table FILE]

Ends with 1 where anything was lost, doubled, mixed, changed, hung or leaked, or where there were fewer than 20 faults
of a kind.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.faults.accounting import LEAST, Count, Ledger, shortfalls, table, write_table
from tests.faults.processes import adopt_orphans, leftovers

PARTS = ("model", "signals", "workers", "tool_servers", "damage", "disk", "mcp", "ray_cluster", "browsers")

UNDISTURBED = ("none", "calm")
"""What stands in place of a kind for conversations that meet no fault. They have a row only if something is wrong."""
SHOWN = 5
"""Findings of one sort that are printed."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part of the campaign; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="less than 1: fewer faults, not held to 20 of a kind")
    parser.add_argument("--table", type=Path, help="a page whose table between the markers is replaced")
    parser.add_argument("--keep", type=Path, help="a folder for the runs, which is not removed")
    options = parser.parse_args()
    adopt_orphans()
    counts: list[Count] = []
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        for part in options.only or PARTS:
            counts += run_part(part, (options.keep or Path(temporary)) / part, options.scale, options.seed)
    text = table(counts)
    print(text)  # noqa: T201
    if options.table is not None:
        write_table(options.table, text)
    found = shortfalls(counts, LEAST if options.scale >= 1 else 1)
    for line in found:
        print(f"NOT PASSED: {line}")  # noqa: T201
    return 1 if found else 0


def run_part(part: str, folder: Path, scale: float, seed: int) -> list[Count]:
    """One part, with what it took and everything that went wrong."""
    began, used = time.monotonic(), _cpu_seconds()
    folder.mkdir(parents=True)
    ledger = Ledger(part)
    try:
        ledger = importlib.import_module(f"tests.faults.{part}").run_part(folder, scale, seed)
    except Exception:  # noqa: BLE001 (the other parts go on, and the campaign does not pass)
        ledger.blame("the campaign itself", "unfit", traceback.format_exc())
    counts = ledger.counts()
    for text in leftovers(()):
        ledger.blame(counts[0].kind, "hung", text)
    shown: Counter[tuple[str, str]] = Counter()
    for finding in ledger.findings:
        shown[finding.kind, finding.wrong] += 1
        if shown[finding.kind, finding.wrong] <= SHOWN:
            print(f"{finding.part}, {finding.kind}: {finding.wrong}: {finding.text}", file=sys.stderr)  # noqa: T201
    injected = sum(count.injected for count in counts)
    took = f"{time.monotonic() - began:.0f} s, {_cpu_seconds() - used:.0f} s of CPU"
    print(f"{ledger.part}: {injected} faults in {took}", flush=True)  # noqa: T201
    return [count for count in ledger.counts() if not (count.kind.endswith(UNDISTURBED) and count.is_clean())]


def _cpu_seconds() -> float:
    """Of this process and of all that ended below it."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


if __name__ == "__main__":
    sys.exit(main())
