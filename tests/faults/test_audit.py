"""The audit of the fault campaign finds what is wrong: each wrong is planted once and counted once."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.accounting import Count, Ledger, audit_lines, find_secrets, shortfalls, table, write_table
from tests.faults.processes import leftovers
from tests.faults.runs import API_KEY, CREDENTIAL, Run, end_of, make_conversations

CONVERSATIONS = make_conversations(["a"] * 5, seed=1)


def line(number: int, **changes: Any) -> dict[str, Any]:
    one = CONVERSATIONS[number]
    messages = [{"role": "user", "content": one.text}, {"role": "assistant", "content": f"Done: {one.marker}"}]
    return {"id": one.id, "messages": messages, "metadata": {"timings": {"seconds": number}}, **changes}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run", CONVERSATIONS, "http://127.0.0.1:9/v1")


def wrongs(run: Run, *lines: dict[str, Any], **options: Any) -> list[str]:
    ledger = Ledger("part")
    (run.out / "out.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    run.audit(ledger, lambda one: one.tag, **options)
    assert ledger.counts()[0].attempts == len(CONVERSATIONS)
    return [finding.wrong for finding in ledger.findings]


def test_whole_output_has_nothing_wrong(run: Run) -> None:
    calm = {line(n)["id"]: {**line(n), "metadata": {}} for n in range(5)}
    assert wrongs(run, *map(line, range(5)), calm=calm) == []


def test_lost_line_is_counted(run: Run) -> None:
    assert wrongs(run, *map(line, range(4))) == ["lost"]


def test_doubled_line_is_counted(run: Run) -> None:
    assert wrongs(run, *map(line, (0, 1, 2, 3, 4, 4))) == ["doubled"]


def test_line_that_nobody_asked_for_is_counted(run: Run) -> None:
    assert wrongs(run, *map(line, range(5)), line(0, id="task99")) == ["doubled"]


def test_line_with_the_marker_of_another_is_counted(run: Run) -> None:
    assert wrongs(run, *map(line, range(4)), line(4, messages=line(3)["messages"] + line(4)["messages"])) == ["mixed"]


def test_line_without_its_own_marker_is_counted(run: Run) -> None:
    assert wrongs(run, *map(line, range(4)), line(4, messages=[])) == ["mixed"]


def test_line_that_differs_from_the_calm_run_is_counted(run: Run) -> None:
    calm = {line(n)["id"]: {**line(n), "metadata": {}} for n in range(4)}
    assert wrongs(run, *map(line, range(5)), calm=calm) == ["changed"]
    assert wrongs(run, *map(line, range(5)), calm=calm, is_compared=lambda each: each["id"] in calm) == []


FORMS = {
    "plain": lambda secret: secret,
    "JSON": lambda secret: json.dumps({"a": secret}),
    "URL": lambda secret: urllib.parse.quote(secret, safe=""),
    "form": urllib.parse.quote_plus,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 of user:key": lambda secret: base64.b64encode(f"u:{secret}".encode()).decode(),
    "base64 within more": lambda secret: base64.b64encode(f"user:{secret};".encode()).decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(f"user:{secret};".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [API_KEY, CREDENTIAL])
def test_secret_is_found_in_every_form(run: Run, secret: str, form: str) -> None:
    (run.out / "said" / "1.txt").write_text(f"before {FORMS[form](secret)} after")
    assert set(wrongs(run, *map(line, range(5)))) == {"secrets"}


def test_what_is_no_secret_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(base64.b64encode(b"some other text").decode() + API_KEY[:10] + CREDENTIAL[5:])
    assert find_secrets([tmp_path / "x"], [API_KEY, CREDENTIAL]) == []


def test_traceback_is_counted(run: Run) -> None:
    (run.out / "said" / "1.txt").write_text("Traceback (most recent call last):\n")
    assert wrongs(run, *map(line, range(5))) == ["unfit"]


def test_command_that_does_not_end_is_counted() -> None:
    ledger = Ledger("part")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert end_of(child, ledger, "kind", 0.05) is None
    assert [finding.wrong for finding in ledger.findings] == ["hung"]


def test_process_that_outlives_its_run_is_named_and_killed() -> None:
    others = {process.pid for process in psutil.Process().children(recursive=True)}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert not leftovers({*others, child.pid}, 0.05), "a known one is left alone"
    (text,) = leftovers(others, 0.05)
    assert f"process {child.pid} is left" in text
    assert child.wait() == -9


def test_line_of_an_expected_id_is_searched_as_a_whole() -> None:
    ((name, wrong, _),) = audit_lines(
        {"a": "mk-" + "0" * 16}, [{"id": "a", "x": ["mk-" + "0" * 16], "deep": {"k": "mk-" + "1" * 16}}]
    )
    assert (name, wrong) == ("a", "mixed")


def test_campaign_with_a_wrong_or_with_too_few_faults_does_not_pass() -> None:
    assert shortfalls([Count("p", "k", injected=20)]) == []
    assert len(shortfalls([Count("p", "k", injected=19)])) == 1
    assert len(shortfalls([Count("p", "k", injected=20, hung=1)])) == 1


def test_table_replaces_only_what_lies_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- faults: begin -->\nold\n<!-- faults: end -->\nafter\n")
    write_table(page, table([Count("p", "k", injected=21), Count("p", "l", injected=30, lost=2)]))
    text = page.read_text()
    assert text.startswith("before\n<!-- faults: begin -->\n| part |")
    assert text.endswith("| **all** | 2 kinds | 51 |  | 2 | 0 | 0 | 0 | 0 | 0 | 0 |\n<!-- faults: end -->\nafter\n")
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        write_table(page, "x")
