"""`rollout label`, `rollout export` and AgentSkiller's scripts, as a person uses them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rollout as front_door
from rollout.compat.batch import PREAMBLE
from tests.cli import test_batch
from tests.cli.in_process import rollout
from tests.cli.test_batch import ORACLE
from tests.cli.test_run import ROOT, portal_config
from tests.cli.test_run import rollout as rollout_alone
from tests.conftest import read_lines
from tests.trajectories.lines import CONVERSATION, TOOLS, labelled, line, write

datasets = test_batch.datasets


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / name), *arguments]
    env = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, check=False)


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def system_of(record: dict[str, Any]) -> str:
    assert record["messages"][0]["role"] == "system"
    return str(record["messages"][0]["content"])


# ---- AgentSkiller's way -------------------------------------------------------------------------------------------


def test_folder_laid_out_by_hand_goes_the_seeds_way_to_the_end(datasets: Path) -> None:
    base = ["--base-path", str(datasets)]
    good(rollout("single", "--domains", "LibraryDesk", "LeaseDepot", *ORACLE, *base, "--output-dir", "outputs_single"))
    good(rollout("cross", "--all", *ORACLE, *base, "--output-dir", "outputs_cross"))
    # What is written on the policies later changes no label: it is not what the model saw.
    (datasets / "cross_domain/policies/LeaseDepot_LibraryDesk.md").write_text("Another policy.")
    good(script("add_label_single.py"))
    good(script("add_label_cross.py"))
    single = read_lines(Path("mt_single_domain_tool_call_thinking.jsonl"))
    (cross,) = read_lines(Path("mt_cross_domain_tool_call_thinking.jsonl"))
    policies = {"Policy of LibraryDesk.", "Policy of LeaseDepot."}
    assert {system_of(record).removeprefix(f"{PREAMBLE}\n\n") for record in single} == policies
    assert all(system_of(record).startswith(PREAMBLE) for record in single), "and the preamble is not lost"
    assert system_of(cross) == "Policy of both."
    told = good(script("add_key.py"))
    assert "add_key.jsonl: 5 records" in told
    for record in read_lines(Path("add_key.jsonl")):
        offered = {tool["function"]["name"] for tool in record["tools"]}
        called = {call["function"]["name"] for message in record["messages"] for call in message["tool_calls"] or ()}
        assert called
        assert called <= offered
        assert all(isinstance(tool["function"]["parameters"], dict) for tool in record["tools"])


def seeds_own_files(datasets: Path) -> None:
    """What AgentSkiller's rollout writes: flat records, dotted names, no metadata."""

    def record(identifier: str, name: str, **keys: Any) -> bytes:
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": '{"item": "x"}'}}
        messages = [
            {"role": "user", "content": "Please."},
            {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "Hm."},
            {"role": "tool", "content": "{}", "tool_call_id": "1"},
            {"role": "assistant", "content": "Done.", "tool_calls": None},
        ]
        flat = {"id": identifier, "messages": messages, "success": True, "error": None, "stopped": True, **keys}
        return json.dumps(flat).encode() + b"\n"

    broken = {"success": False, "error": "litellm.OpenAIException: 429", "stopped": False}
    write(Path("outputs_single/LibraryDesk.jsonl"), record("a", "ld.add"), record("b", "ld.list", **broken))
    write(Path("outputs_single/HRPortal.jsonl"), record("c", "hp.add"))
    write(Path("outputs_cross/LibraryDesk_LeaseDepot_output.jsonl"), record("d", "libde_add"))


def test_files_of_the_seeds_own_tool_are_labelled_from_policy_and_tool_list(datasets: Path) -> None:
    seeds_own_files(datasets)
    for kind in ("single", "cross"):
        base = datasets / f"{kind}_domain"
        folders = ["--policy-root", str(base / "policies"), "--tools-list", str(base / "tool_lists")]
        done = script(f"add_label_{kind}.py", *folders, "--result-file", f"{kind}.jsonl")
        if kind == "single":
            assert done.returncode == 1, "HRPortal has no policy, and that is to be mended"
            assert "outputs_single/HRPortal.jsonl:1" in done.stdout
            assert "expected HRPortal.md" in done.stdout
            assert "left out: status failed" in done.stdout
        else:
            good(done)
    (single,) = read_lines(Path("single.jsonl"))
    assert single["id"] == "a"
    assert system_of(single) == "Policy of LibraryDesk."
    assert [tool["function"]["name"] for tool in single["tools"]] == ["ld.add", "ld.list"], "as the calls are named"
    (cross,) = read_lines(Path("cross.jsonl"))
    assert system_of(cross) == "Policy of both."
    assert single["stopped"] is True, "what the record had besides stays"


def test_seeds_layout_in_the_working_folder_is_the_default(datasets: Path) -> None:
    seeds_own_files(datasets)
    shutil.copytree(datasets, Path("rollout/tools/datasets"))
    (Path("rollout/tools/datasets/single_domain/policies/HRPortal.md")).write_text("HR.")
    Path("preamble.txt").write_text("Never guess.\n")
    good(script("add_label_single.py", "--preamble-file", "preamble.txt"))
    found = read_lines(Path("mt_single_domain_tool_call_thinking.jsonl"))
    assert {system_of(record) for record in found} == {"Never guess.\n\nHR.", "Never guess.\n\nPolicy of LibraryDesk."}
    good(script("add_label_cross.py"))


def test_scripts_say_what_is_not_there() -> None:
    done = script("add_label_single.py")
    assert done.returncode == 2
    assert "outputs_single: is not there" in done.stderr
    done = script("add_key.py")
    assert done.returncode == 2
    assert "mt_single_domain_tool_call_thinking.jsonl" in done.stderr


# ---- what a path means -----------------------------------------------------------------------------------------------


def test_run_folder_file_and_moved_run_all_lead_to_the_same_label() -> None:
    good(rollout("run", str(portal_config())))
    good(rollout("label", "run", "-o", "a.jsonl"))
    good(rollout("label", "out/portal.jsonl", "--run", "run", "-o", "b.jsonl"))
    good(rollout("label", "out", "--run", "run", "-o", "c.jsonl"))
    Path("moved").mkdir()
    shutil.move("run", "moved/run")
    shutil.move("out/portal.jsonl", "moved/portal.jsonl")
    good(rollout("label", "moved", "-o", "d.jsonl"))
    shutil.rmtree("moved/run/logs", ignore_errors=True)
    first = Path("a.jsonl").read_bytes()
    assert len(first.splitlines()) == 4
    assert all(Path(f"{name}.jsonl").read_bytes() == first for name in "bcd")
    again = good(rollout("label", "a.jsonl", "-o", "e.jsonl"))
    assert "had their label already" in again
    assert Path("e.jsonl").read_bytes() == first


def test_blob_that_is_lost_or_changed_is_never_replaced_by_something_else() -> None:
    good(rollout("run", str(portal_config())))
    (blob,) = Path("run/blobs").iterdir()
    whole = blob.read_bytes()
    blob.write_bytes(whole.replace(b"the", b"teh", 1))
    done = rollout("label", "run")
    assert done.returncode == 2
    assert "was changed after the run wrote it" in done.stderr
    blob.unlink()
    done = rollout("export", "run", "--format", "trl")
    assert done.returncode == 2
    assert f"blobs/{blob.stem}.json) is in no run that is found; name it with --run DIR" in done.stderr
    assert not Path("labelled.jsonl").exists()
    assert not Path("trl.jsonl").exists()


# ---- filters, merging, splits ----------------------------------------------------------------------------------------


def test_table_adds_up_and_names_every_reason(datasets: Path) -> None:
    write(
        Path("in.jsonl"),
        labelled(line("a"), line("b", success=False), line("c", marks=["odd"])),
        b"{torn\n",
        labelled(line("a")),
    )
    done = rollout("export", "in.jsonl", "-f", "trl", "--success", "--without-mark", "odd")
    assert done.returncode == 1, "a line that cannot be read is to be mended"
    rows = [row.split("│")[1:3] for row in done.stdout.splitlines() if row.startswith("│")]
    assert {name.strip(): int(number) for name, number in rows} == {
        "read": 5,
        "kept": 1,
        "left out: cannot be read": 1,
        "left out: duplicate": 1,
        "left out: mark odd": 1,
        "left out: no success": 1,
    }
    assert "in.jsonl:4" in done.stdout
    assert [record["id"] for record in read_lines(Path("trl.jsonl"))] == ["a"]


def test_runs_merge_and_ids_stay_unique() -> None:
    for name, seed in (("one", 0), ("same", 0), ("other", 5)):
        config = portal_config(
            output_path=f"{name}/portal.jsonl",
            seed=seed,
            agent={"model": "builtin/oracle", "params": {"void_turn": 0.5}},
        )
        config.write_text(config.read_text().replace("run_dir: run", f"run_dir: {name}/run"))
        good(rollout("run", str(config)))
    told = good(rollout("export", "one", "same", "other", "--format", "add_key", "-o", "all.jsonl"))
    records = read_lines(Path("all.jsonl"))
    identifiers = [record["id"] for record in records]
    assert len(set(identifiers)) == len(identifiers)
    assert "left out: duplicate" in told
    assert any(name.endswith("@other") for name in identifiers)
    assert not any(name.endswith("@same") for name in identifiers), "the same seed, the same run"


def test_splits_are_by_task_and_every_attempt_is_on_one_side() -> None:
    good(
        rollout(
            "run",
            str(portal_config(limit=20, samples=3, agent={"model": "builtin/oracle", "params": {"void_turn": 0.3}})),
        )
    )
    good(rollout("export", "run", "-f", "trl", "--split", "train=0.7,validation=0.3", "-o", "data/x"))
    sides = {name: read_lines(Path(f"data/x.{name}.jsonl")) for name in ("train", "validation")}
    tasks = {name: {record["task_id"] for record in records} for name, records in sides.items()}
    assert tasks["train"]
    assert tasks["validation"]
    assert not tasks["train"] & tasks["validation"]
    assert sum(len(records) for records in sides.values()) == 60
    first = {name: Path(f"data/x.{name}.jsonl").read_bytes() for name in sides}
    good(rollout("export", "run", "-f", "trl", "--split", "train=0.7,validation=0.3", "-o", "data/x.jsonl"))
    assert {name: Path(f"data/x.{name}.jsonl").read_bytes() for name in sides} == first


def test_failed_trajectories_come_only_when_asked_for() -> None:
    good(rollout("run", str(portal_config())))
    write(
        Path("run/failed.jsonl"),
        Path("out/portal.jsonl").read_bytes().replace(b'"status":"completed"', b'"status":"failed"'),
    )
    assert "trl.jsonl: 4 records" in good(rollout("export", "run", "-f", "trl"))
    good(rollout("export", "run", "-f", "trl", "--status", "failed"))
    assert len(read_lines(Path("trl.jsonl"))) == 4


def test_turns_become_records_and_a_talk_without_answer_is_left_out() -> None:
    silent = line("b", CONVERSATION[:1])
    write(Path("in.jsonl"), labelled(line("a", CONVERSATION[:7] + CONVERSATION[:7]), silent))
    told = good(rollout("export", "in.jsonl", "-f", "sharegpt", "--per-turn"))
    assert "left out: no answer of the agent" in told
    assert [record["id"] for record in read_lines(Path("sharegpt.jsonl"))] == ["a#1", "a#2"]


def test_answers_that_a_task_opens_with_are_context() -> None:
    said = (("user", "Hi."), ("assistant", "Hello."), ("user", "Go."))
    shown = [{"role": role, "content": text} for role, text in said]
    small = front_door.Environment(tasks=[{"id": "t1", "messages": shown}], name="shown")

    async def answer(request: front_door.Request) -> str:
        return "Gone."

    front_door.run(small, model=answer, run_dir="run", progress=False)
    good(rollout("export", "run", "-f", "trl", "--per-turn", "-o", "turns.jsonl"))
    (record,) = read_lines(Path("turns.jsonl"))
    assert [message["content"] for message in record["prompt"]] == ["Hi.", "Hello.", "Go."]
    assert [message["content"] for message in record["completion"]] == ["Gone."]
    good(rollout("export", "run", "-f", "openai", "-o", "whole.jsonl"))
    (record,) = read_lines(Path("whole.jsonl"))
    assert [message.get("weight") for message in record["messages"]] == [None, 0, None, None]


def test_every_file_that_cannot_be_labelled_is_named_and_not_every_line() -> None:
    good(rollout("run", str(portal_config())))
    whole = Path("out/portal.jsonl").read_bytes()
    for name in ("x", "y"):
        write(Path(f"lost/{name}.jsonl"), re.sub(rb'"prompt":"\w+"', b'"prompt":"0123456789abcdef"', whole))
    write(Path("lost/good.jsonl"), labelled(line("a")))
    done = rollout("export", "lost", "-f", "trl")
    assert done.returncode == 1
    assert "trl.jsonl: 1 records" in done.stdout
    problems = [row for row in done.stdout.splitlines() if row.startswith("problem")]
    assert [row.split(":")[0:2] for row in problems] == [["problem lost/x.jsonl", "1"], ["problem lost/y.jsonl", "1"]]


def test_reasoning_can_be_dropped_and_fields_added() -> None:
    write(Path("in.jsonl"), labelled(line("a")))
    good(
        rollout(
            "export", "in.jsonl", "-f", "add_key", "--drop-reasoning", "--field", "use_cot=false", "--field", "from=me"
        )
    )
    (record,) = read_lines(Path("add_key.jsonl"))
    assert (record["use_cot"], record["from"]) == (False, "me")
    assert all(message["reasoning_content"] is None for message in record["messages"])
    good(script("add_key.py", "in.jsonl", "--data-source", "portal", "--no-use-cot", "-o", "b.jsonl"))
    (record,) = read_lines(Path("b.jsonl"))
    assert (record["data_source"], record["use_cot"]) == ("portal", False)


# ---- exporters of one's own ------------------------------------------------------------------------------------------

FORMATS = """
from rollout.trajectories.exports.exporter import JsonLinesExporter, Unfit

class Openings(JsonLinesExporter):
    def convert(self, example):
        if example.id == "b":
            raise Unfit("is b")
        return {"id": example.id, "ask": example.messages[1].content, "tools": len(example.tools)}

class Half:
    suffix = ".x"
"""


def test_exporter_of_ones_own_is_named_as_module_and_class(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_formats.py").write_text(FORMATS)
    write(Path("in.jsonl"), labelled(line("a"), line("b")))
    environment = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(ROOT)])}
    done = rollout_alone("export", "in.jsonl", "--format", "my_formats:Openings", environment=environment)
    assert "left out: is b" in good(done)
    (record,) = read_lines(Path("openings.jsonl"))
    assert record == {"id": "a", "ask": json.loads(line("a"))["messages"][0]["content"], "tools": len(TOOLS)}
    done = rollout_alone("export", "in.jsonl", "--format", "my_formats:Half", environment=environment)
    assert done.returncode == 2
    assert "has no convert, open, holds_reasoning" in done.stderr


def test_exporter_of_another_package_is_named_as_its_entry_point() -> None:
    Path("my_formats.py").write_text(FORMATS)
    write(Path("my_formats-1.0.dist-info/METADATA"), b"Metadata-Version: 2.1\nName: my-formats\nVersion: 1.0\n")
    write(Path("my_formats-1.0.dist-info/entry_points.txt"), b"[rollout.exporters]\nopen = my_formats:Openings\n")
    write(Path("in.jsonl"), labelled(line("a")))
    environment = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(ROOT)])}
    good(rollout_alone("export", "in.jsonl", "--format", "open", environment=environment))
    assert read_lines(Path("open.jsonl"))[0]["id"] == "a"
    done = rollout_alone("export", "in.jsonl", "--format", "nothing", environment=environment)
    assert "trl, parquet, open, or your own" in done.stderr


# ---- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--format", "csv"], "format: there is no 'csv'; there are add_key, openai, sharegpt, trl, parquet"),
        (["--status", "done"], "--status: there is no done; there are completed, truncated, cut, failed\n"),
        (["--stop-reason", "bored"], "--stop-reason: there is no bored"),
        (["--min-score", "state"], "--min-score: 'state' is not NAME=VALUE"),
        (["--split", "train=0.5"], "add up to 0.5; expected 1"),
        (["--field", "x"], "--field: 'x' is not KEY=VALUE"),
        (["--format", "parquet", "--field", "x=1"], "Parquet has fixed columns"),
        (["-o", "in.jsonl"], "would be read and written at once"),
        (["--min-score", "state=1"], "none is left (no score state 1)"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_and_nothing_is_written(options: list[str], told: str) -> None:
    write(Path("in.jsonl"), labelled(line("a")))
    Path("trl.jsonl").write_text("from before\n")
    if "--format" not in options:
        options = ["--format", "trl", *options]
    done = rollout("export", "in.jsonl", *options)
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
    assert Path("trl.jsonl").read_text() == "from before\n"
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


def test_folder_is_written_into_by_an_export_and_refused_by_a_label() -> None:
    write(Path("in.jsonl"), labelled(line("a")))
    Path("folder").mkdir()
    good(rollout("export", "in.jsonl", "-f", "trl", "-o", "folder"))
    assert [path.name for path in Path("folder").iterdir()] == ["trl.jsonl"]
    done = rollout("label", "in.jsonl", "-o", "folder")
    assert done.returncode == 2
    assert "folder: is a folder" in done.stderr


def test_parquet_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path("in.jsonl"), labelled(line("a")))
    hide = "import sys; sys.modules['pyarrow'] = None; from rollout.cli import main; main()"
    command = [sys.executable, "-c", hide, "export", "in.jsonl", "--format", "parquet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert "pip install 'rollout-engine[train]'" in done.stderr


def test_unlabelled_file_of_another_tool_is_told_what_to_do() -> None:
    write(Path("in.jsonl"), json.dumps({"id": "a", "messages": [{"role": "user", "content": "x"}]}).encode())
    done = rollout("export", "in.jsonl", "--format", "trl")
    assert done.returncode == 2
    assert "rollout label … --policy-root DIR --tools-list DIR" in done.stderr
