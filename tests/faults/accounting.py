"""The books of a fault campaign: what was injected, what became of every attempt, and the table of it.

A part of the campaign writes into a `Ledger`. For each kind of fault it notes how many were injected, which attempts
were exposed to it, and everything that went wrong:

- lost: an attempt that has no line at the end, though its run was resumed until it was over;
- doubled: a second line with the same id;
- mixed: a line that contains the marker of another attempt, or lacks its own;
- changed: a line that is not what the undisturbed run wrote, where the fault must not show;
- hung: a command that missed its deadline, or a process that outlived its run;
- secrets: a file or a screen that contains a key, in any of its usual encodings;
- unfit: any other broken promise, such as a traceback.

The audit functions work on bytes and decoded lines and know nothing of the engine, so they can be tested by themselves.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

LEAST = 20
"""Faults of each kind that a campaign needs."""
MARKER = re.compile(r"mk-[0-9a-f]{16}")
WRONGS = ("lost", "doubled", "mixed", "changed", "hung", "secrets", "unfit")


class Count(msgspec.Struct, frozen=True):
    """What is known about one kind of fault."""

    part: str
    kind: str
    injected: int = 0
    attempts: int = 0
    """Attempts of the runs, or shares of runs, that were exposed to it."""
    lost: int = 0
    doubled: int = 0
    mixed: int = 0
    changed: int = 0
    hung: int = 0
    secrets: int = 0
    unfit: int = 0

    def is_clean(self) -> bool:
        return not any(getattr(self, wrong) for wrong in WRONGS)


class Finding(msgspec.Struct, frozen=True):
    """One thing that went wrong, for whoever looks into it."""

    part: str
    kind: str
    wrong: str
    text: str


class Ledger:
    """Collects the counts of one part."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.findings: list[Finding] = []
        self._counts: dict[str, Counter[str]] = {}

    def inject(self, kind: str, number: int = 1) -> None:
        self._of(kind)["injected"] += number

    def expose(self, kind: str, attempts: int) -> None:
        self._of(kind)["attempts"] += attempts

    def blame(self, kind: str, wrong: str, text: str) -> None:
        """Something went wrong."""
        assert wrong in WRONGS, wrong
        self._of(kind)[wrong] += 1
        self.findings.append(Finding(self.part, kind, wrong, text))

    def add(self, other: Ledger) -> None:
        """Take over what another ledger of the same part has counted."""
        for kind, counts in other._counts.items():
            self._of(kind).update(counts)
        self.findings += other.findings

    def counts(self) -> list[Count]:
        return [Count(self.part, kind, **counts) for kind, counts in self._counts.items()]

    def injected(self, kind: str) -> int:
        return self._of(kind)["injected"]

    def _of(self, kind: str) -> Counter[str]:
        return self._counts.setdefault(kind, Counter())


# ---- audits ----------------------------------------------------------------------------------------------------------


def audit_lines(expected: Mapping[str, str], lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with lines, given each expected id with its marker: (id, wrong, text)."""
    seen: Counter[str] = Counter()
    for line in lines:
        name = line["id"]
        seen[name] += 1
        if name not in expected:
            yield name, "doubled", f"{name} was never asked for"
            continue
        markers = set(MARKER.findall(json.dumps(line)))
        if markers != {expected[name]}:
            yield name, "mixed", f"{name} has the markers {sorted(markers)} instead of {expected[name]}"
    for name in expected:
        if not seen[name]:
            yield name, "lost", f"{name} has no line"
        elif seen[name] > 1:
            yield name, "doubled", f"{name} has {seen[name]} lines"


def secret_forms(secret: str) -> set[bytes]:
    """The encodings under which a secret is searched: plain, URL, JSON, and base64 at each of its three alignments.

    Written independently of `rollout.core.secrets`, which it checks.
    """
    data = secret.encode()
    forms = {data, json.dumps(secret)[1:-1].encode()}
    forms |= {urllib.parse.quote(secret, safe=safe).encode() for safe in ("", "/")}
    forms.add(urllib.parse.quote_plus(secret).encode())
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).rstrip(b"=")
        # The first and the last characters also hold bits of what stands beside the secret.
        whole = encoded[(0, 2, 3)[before] : -1]
        forms |= {whole, whole.replace(b"+", b"-").replace(b"/", b"_")}
    return forms


def find_secrets(files: Iterable[Path], secrets: Sequence[str]) -> list[str]:
    """The files that contain a secret, with the form in which they do."""
    forms = {form for secret in secrets for form in secret_forms(secret)}
    found = []
    for path in files:
        data = path.read_bytes()
        found += [f"{path.name} contains {form.decode()!r}" for form in forms if form in data]
    return found


# ---- the table -------------------------------------------------------------------------------------------------------


def shortfalls(counts: Iterable[Count], least: int = LEAST) -> list[str]:
    """Why a campaign does not pass: wrongs that are not 0, and kinds of which there were too few."""
    found = []
    for count in counts:
        wrong = {name: getattr(count, name) for name in WRONGS if getattr(count, name)}
        if wrong:
            found.append(f"{count.part}, {count.kind}: {wrong}")
        if count.injected < least:
            found.append(f"{count.part}, {count.kind}: {count.injected} injected, {least} are needed")
    return found


def table(counts: Sequence[Count]) -> str:
    """The counts as a Markdown table with sums."""
    head = ["part", "fault", "injected", "attempts", *WRONGS]
    rows = [[count.part, count.kind, *_numbers(count)] for count in counts]
    sums = [sum(getattr(count, name) for count in counts) for name in ("injected", *WRONGS)]
    rows.append(["**all**", f"{len(counts)} kinds", f"{sums[0]:,}", "", *(str(number) for number in sums[1:])])
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _numbers(count: Count) -> list[str]:
    return [f"{getattr(count, name):,}" for name in ("injected", "attempts", *WRONGS)]


def write_table(path: Path, text: str) -> None:
    """Put a table between the markers of a page, or into a file of its own."""
    begin, end = "<!-- faults: begin -->\n", "<!-- faults: end -->"
    page = path.read_text() if path.exists() else f"{begin}{end}\n"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{path} has no lines {begin.strip()} and {end}")
    path.write_text(f"{before}{begin}{text}{end}{after}")
