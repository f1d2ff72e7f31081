"""`rollout filter`, and exports that do as its marks say, as a person uses them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.agents.turns import around_masks
from rollout.cli import main
from rollout.core.messages import Message
from rollout.models.builtin.mistakes import misnamed
from rollout.trajectories.exports.exporter import find_exporter
from rollout.trajectories.exports.masking import filtered
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.labels import Example
from tests.conftest import read_lines, roll_out, write_yaml
from tests.examples.shipped import ROOT as BASE
from tests.trajectories.lines import CONVERSATION, labelled, line, write
from tests.trajectories.lines import example as make_example

ERRORS = {"malformed_call": 0.05, "unknown_tool": 0.1, "void_turn": 0.05, "repeat": 0.05}
PORTAL = {
    "mcp_domain": "StudentAcademicPortal",
    "agent": {"model": "builtin/oracle", "params": ERRORS},
    "user": "builtin/user",
    "max_turns": 20,
    "limit": 12,
    "samples": 2,
}

TOOL_LIST = (BASE / "tool_lists/StudentAcademicPortal.json").read_text(encoding="utf-8")
TOOLS = {tool.get("function", tool)["name"] for tool in json.loads(TOOL_LIST)}
INVENTED = {misnamed(tool, TOOLS) for tool in TOOLS}
"""The tools that the erring oracle calls and that do not exist."""


def names_an_invented_tool(text: str) -> bool:
    return any(re.search(rf"\b{name}\b", text) for name in INVENTED)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has errors in it."""
    folder = tmp_path_factory.mktemp("filtered")
    dataset = {**PORTAL, "output_path": str(folder / "portal.jsonl")}
    config = {"mock_servers": {"isolation": "none"}, "datasets": {"portal": dataset}}
    asyncio.run(roll_out(config, folder / "run"))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """That run, for one test to do with as it likes."""
    shutil.copytree(made / "run", tmp_path / "run")
    return Path("run")


class Done(msgspec.Struct):
    returncode: int
    stdout: str
    stderr: str


def rollout(*arguments: str) -> Done:
    """The command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def good(done: Done) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def told(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(good(rollout("filter", *arguments, "--json")))
    return found


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {count["filter"]: count["trajectories"] for count in found["filters"]}


def test_table_says_what_each_filter_took_with_examples_and_what_is_left(run: Path) -> None:
    before = {path: path.read_bytes() for path in (run / "journal.db", run / "run.json")}
    shown = good(rollout("filter", str(run)))
    assert "void_turns" in shown
    assert "no call and no words" in shown
    assert "there is no tool" in shown
    assert "what is left" in shown
    assert names_an_invented_tool(shown), "the evidence is quoted"
    records = read_lines(run / "filters.jsonl")
    assert len(records) == 24
    assert {mark["filter"] for record in records for mark in record["marks"]} >= {"void_turns", "unknown_tools"}
    assert all(path.read_bytes() == content for path, content in before.items()), "a trajectory is never changed"


def test_second_time_says_the_same(run: Path) -> None:
    first, written = told(str(run)), (run / "filters.jsonl").read_bytes()
    assert told(str(run)) == first
    assert (run / "filters.jsonl").read_bytes() == written


def test_numbers_add_up_by_status_and_verdict(run: Path) -> None:
    found = told(str(run))
    verdicts = [found[f"verdict_{verdict}"] for verdict in ("drop", "truncate", "mask", "keep")]
    assert sum(verdicts) == found["trajectories"] == 24
    assert found["statuses"] == {"completed": dict(zip(("drop", "truncate", "mask", "keep"), verdicts, strict=True))}
    records = read_lines(run / "filters.jsonl")
    assert [sum(record["verdict"] == verdict for record in records) for verdict in ("drop", "mask")] == [
        found["verdict_drop"],
        found["verdict_mask"],
    ]


def test_options_choose_filters_policies_and_parameters(run: Path) -> None:
    only = told(str(run), "--filter", "void_turns=mask_turn", "--filter", "unknown_tools", "--dry-run")
    assert [(count["filter"], count["policy"]) for count in only["filters"]] == [
        ("void_turns", "mask_turn"),
        ("unknown_tools", "mask_turn"),
    ]
    assert only["file"] is None
    assert not (run / "filters.jsonl").exists()
    without = told(str(run), "--off", "void_turns", "--set", "unknown_tools.policy=drop_trajectory")
    assert "void_turns" not in counts(without)
    assert without["verdict_drop"] >= counts(without)["unknown_tools"]


def test_config_of_the_run_and_another_one_are_honoured(run: Path) -> None:
    write_yaml(Path("strict.yml"), {"filters": {"unknown_tools": "drop_trajectory", "near_duplicates": False}})
    policies = {count["filter"]: count["policy"] for count in told(str(run), "--config", "strict.yml")["filters"]}
    assert policies["unknown_tools"] == "drop_trajectory"
    assert "near_duplicates" not in policies
    assert told(str(run))["filters"] != [], "and by default those of the run"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--filter", "void"], "there is no filter 'void'; there are void_turns"),
        (["--set", "repetition"], "is not NAME.KEY=VALUE"),
        (["--set", "repetition.m=3"], "repetition.m: there is no such key"),
        (["--set", "overlong.policy=mask_turn"], "overlong.policy"),
        (["--set", "constant_groups.reward=wins"], "there is no rule 'wins'"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_words(run: Path, options: list[str], says: str) -> None:
    done = rollout("filter", str(run), *options)
    assert done.returncode == 2
    assert says in done.stderr


def test_file_of_trajectories_is_filtered_without_a_run() -> None:
    void = (*CONVERSATION[:6], Message(role="assistant", content=""), CONVERSATION[7])
    path = write(Path("labelled.jsonl"), labelled(line("a"), line("b", void)), b"{}\n")
    done = rollout("filter", str(path), "--json", "-o", "marks.jsonl")
    assert done.returncode == 1, "one line cannot be read"
    assert counts(json.loads(done.stdout))["void_turns"] == 1
    # The second call of the conversation leaves out what its schema requires.
    assert [record["turns"][0]["parse_status"] for record in read_lines(Path("marks.jsonl"))] == ["bad_args"] * 2


# ---- exports ---------------------------------------------------------------------------------------------------------


def export(run: Path, *options: str, format: str = "openai") -> list[dict[str, Any]]:
    good(rollout("export", str(run), "--format", format, "--filters", *options, "-o", "out_of_export.jsonl"))
    return read_lines(Path("out_of_export.jsonl"))


def test_export_leaves_out_what_is_dropped_and_gives_masked_answers_no_weight(run: Path) -> None:
    good(rollout("filter", str(run), "--filter", "void_turns", "--filter", "unknown_tools"))
    records = read_lines(run / "filters.jsonl")
    exported = export(run)
    assert len(exported) == sum(record["verdict"] != "drop" for record in records) < len(records)
    unknown = [
        (message.get("weight"), call["function"]["name"] in INVENTED)
        for record in exported
        for message in record["messages"]
        for call in message.get("tool_calls", ())
    ]
    assert {weight for weight, is_unknown in unknown if is_unknown} == {0}
    assert {weight for weight, is_unknown in unknown if not is_unknown} == {None}


@pytest.mark.parametrize("format", ["trl", "sharegpt", "add_key"])
def test_format_without_weights_leaves_masked_conversations_out_and_says_so(run: Path, format: str) -> None:
    good(rollout("filter", str(run), "--filter", "unknown_tools"))
    kept = [record["id"] for record in read_lines(run / "filters.jsonl") if record["verdict"] == "keep"]
    exported = export(run, format=format)
    assert sorted(record["id"] for record in exported) == sorted(kept)
    said = [record.get("messages", record.get("conversations")) for record in exported]
    assert not names_an_invented_tool(json.dumps(said))
    shown = good(rollout("export", str(run), "--format", format, "--filters", "-o", "again.jsonl"))
    assert "has masked turns" in shown


def test_turns_of_their_own_take_what_is_not_masked(run: Path) -> None:
    good(rollout("filter", str(run), "--filter", "unknown_tools"))
    exported = export(run, "--per-turn", format="trl")
    learnt = [message for record in exported for message in record["completion"]]
    answered = [message for message in learnt if message["role"] == "assistant"]
    assert not names_an_invented_tool(json.dumps(answered))
    before = [record["prompt"] for record in exported]
    assert names_an_invented_tool(json.dumps(before)), "what came before is context"
    assert all(record["completion"][0]["role"] == "assistant" for record in exported)
    answers = sum(message["role"] == "assistant" for message in learnt)
    records = read_lines(run / "filters.jsonl")
    assert answers == sum(len(record["turns"]) - len(record["masked"]) for record in records)


def test_export_ends_where_a_filter_cut(run: Path) -> None:
    good(rollout("filter", str(run), "--filter", "unknown_tools=truncate_before"))
    records = {record["id"]: record for record in read_lines(run / "filters.jsonl")}
    cut = {name for name, record in records.items() if record["verdict"] == "truncate"}
    exported = {record["id"]: record for record in export(run, format="trl")}
    assert cut
    assert cut <= set(exported)
    for name in cut:
        messages = exported[name]["messages"]
        assert messages[-1]["role"] == "assistant"
        assert len(messages) <= records[name]["end"] + 1, "the system prompt stands before them"
        assert not names_an_invented_tool(json.dumps(messages))


def test_a_pipe_in_place_of_the_marks_is_refused_and_not_waited_for(run: Path) -> None:
    os.mkfifo(run / "filters.jsonl")
    done = rollout("export", str(run), "--format", "trl", "--filters")
    assert done.returncode == 2
    assert "filters.jsonl: is not a file" in done.stderr


def test_export_refuses_marks_that_are_not_there_or_too_old(run: Path) -> None:
    done = rollout("export", str(run), "--format", "trl", "--filters")
    assert done.returncode == 2
    assert "rollout filter" in done.stderr
    good(rollout("filter", str(run)))
    lines = (run / "filters.jsonl").read_bytes().splitlines(keepends=True)
    (run / "filters.jsonl").write_bytes(b"".join(lines[1:]))
    done = rollout("export", str(run), "--format", "trl", "--filters")
    assert done.returncode == 1
    assert "does not know it" in done.stdout + done.stderr
    alone = write(Path("labelled.jsonl"), labelled(line("a")))
    done = rollout("export", str(alone), "--format", "trl", "--filters")
    assert (done.returncode, "needs run directories" in done.stderr) == (2, True)


def example(*roles: str, masked: tuple[int, ...] = (), context: int | None = None) -> Example:
    said = tuple(Message(role=role, content=f"{role} {place}") for place, role in enumerate(roles))  # type: ignore[arg-type]
    return make_example(said, context=context, masked=frozenset(masked))


def record(end: int | None, *masked: int) -> Filtered:
    return Filtered("a", "d", "t", "completed", "mask", (), (), masked, end, True, (), (), "")


def test_masked_answers_at_the_end_are_cut_off() -> None:
    told_ = example("system", "user", "assistant", "user", "assistant", "user")
    assert len(filtered(told_, record(None, 3)).messages) == 3
    assert filtered(told_, record(None, 3)).masked == frozenset()
    assert filtered(told_, record(None, 1)).masked == {2}
    assert [message.role for message in filtered(told_, record(3)).messages] == ["system", "user", "assistant"]


def test_runs_between_masks_have_all_before_them_as_context() -> None:
    turn = example("user", *["assistant", "tool"] * 4, "assistant", masked=(3, 5), context=1)
    runs = [(part.id, part.context, len(part.messages)) for part in around_masks(turn)]
    assert runs == [("a", 1, 2), ("a.2", 7, 10)]
    assert list(around_masks(example("user", "assistant", masked=(1,), context=1))) == []


def test_exporter_of_ones_own_need_not_know_of_masks() -> None:
    assert not getattr(find_exporter("add_key"), "holds_masks")  # noqa: B009
