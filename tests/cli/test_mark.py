"""`rollout mark`, and what marks mean to `show`, `filter`, `export`, `train-data`, `recover` and `clean`."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rollout.store.marks import MarksFile
from rollout.store.run_dir import MARKS, PEOPLE
from tests.conftest import Command, Done, read_lines, roll_out, write_yaml


def config(folder: Path, **changed: Any) -> dict[str, Any]:
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.2}},
        "user": "builtin/user",
        "limit": 4,
        "samples": 2,
        "output_path": str(folder / "portal.jsonl"),
        **changed,
    }
    return {"seed": 7, "mock_servers": {"isolation": "none"}, "datasets": {"portal": dataset}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marked")
    asyncio.run(roll_out(config(folder), folder / "run"))
    return folder


@pytest.fixture
def lines(made: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """A run of eight trajectories in `run`; its lines."""
    shutil.copytree(made / "run", tmp_path / "run")
    return read_lines(made / "portal.jsonl")


def good(done: Done) -> str:
    assert done.code == 0, done.out + done.err
    return done.out


def exported(rollout: Command, *options: str) -> list[str]:
    Path("rows.jsonl").unlink(missing_ok=True)
    done = rollout("export", "run", "--format", "trl", "-o", "rows.jsonl", *options)
    assert done.code in (0, 2), done.err
    return [row["id"] for row in read_lines(Path("rows.jsonl"))] if done.code == 0 else []


# ---- setting and showing -----------------------------------------------------------------------------------------


def test_a_mark_is_shown_where_it_was_set_with_who_and_when(lines: list[dict[str, Any]], rollout: Command) -> None:
    name = lines[0]["id"]
    good(rollout("mark", "run", name, "bad", "books", "before", "asking", "--step", "1", "--author", "ann"))
    good(rollout("mark", "run", name, "verdict", "0.5", "half", "of", "it", "--author", "bob"))
    shown = good(rollout("show", "run", name))
    head, _, conversation = shown.partition("agent  step 1")
    assert re.search(r"✎ bob: verdict 0\.5: half of it \(mark 2, \d{4}-\d\d-\d\d \d\d:\d\d\)", head)
    assert "✎ ann: bad: books before asking (mark 1," in conversation.partition("step 2")[0]
    assert "person (does not decide) 0.5: bob: 0.5 (half of it)" in conversation
    place = next(place for place, message in enumerate(lines[0]["messages"]) if message["role"] == "assistant")
    assert [mark.message for mark in MarksFile(Path("run")).all()] == [place, None]


def test_the_author_is_who_is_logged_in(
    lines: list[dict[str, Any]], rollout: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "carla")
    assert "✎ carla: good" in good(rollout("mark", "run", lines[0]["id"], "good"))


def test_marks_are_listed_and_removed_by_number(lines: list[dict[str, Any]], rollout: Command) -> None:
    assert good(rollout("mark", "run")) == "no marks\n"
    first, second = lines[0]["id"], lines[2]["id"]
    good(rollout("mark", "run", first, "label", "wrong tool"))
    good(rollout("mark", "run", second, "note", "look again"))
    assert good(rollout("mark", "run")).count("✎") == 2
    assert "wrong tool" not in good(rollout("mark", "run", second))
    assert "removed:" in good(rollout("mark", "run", "--remove", "1"))
    (left,) = json.loads(good(rollout("mark", "run", "--json")))
    assert (left["id"], left["kind"], left["text"]) == (second, "note", "look again")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["good"], "no trajectory 'good' has ended"),
        (["ID", "fine"], "there is no kind 'fine'"),
        (["ID", "verdict"], "a verdict is a number from 0"),
        (["ID", "verdict", "high"], "expected a number from 0 (not solved) to 1 (solved), not 'high'"),
        (["ID", "note"], "a note needs a text"),
        (["ID", "good", "--step", "99"], "there is no step 99; it has steps 1 to"),
        (["--remove", "7"], "there is no mark 7"),
        (["ID", "--remove", "7"], "leave out the trajectory"),
        (["ID", "--step", "1"], "--step and --author say how a mark is set"),
    ],
)
def test_what_cannot_be_done_is_said(
    lines: list[dict[str, Any]], rollout: Command, words: list[str], told: str
) -> None:
    done = rollout("mark", "run", *(lines[0]["id"] if word == "ID" else word for word in words))
    assert done.code == 2
    assert told in done.err
    assert not Path("run", MARKS).exists()


def test_the_beginning_of_an_id_means_a_trajectory_only_if_it_is_the_only_one(
    lines: list[dict[str, Any]], rollout: Command
) -> None:
    task = lines[0]["task_id"]
    done = rollout("mark", "run", task[:-1], "good")
    assert (done.code, "means several trajectories" in done.err) == (2, True)
    good(rollout("mark", "run", f"{task}~", "good"))
    assert [mark.id for mark in MarksFile(Path("run")).all()] == [f"{task}~1"]


def test_what_people_made_is_marked_in_the_file_of_the_run(lines: list[dict[str, Any]], rollout: Command) -> None:
    shutil.copytree("run", Path("run", PEOPLE))
    good(rollout("mark", f"run/{PEOPLE}", lines[0]["id"], "good", "--author", "ann"))
    assert not Path("run", PEOPLE, MARKS).exists()
    assert "✎ ann: good" in good(rollout("show", f"run/{PEOPLE}", lines[0]["id"]))


# ---- selection ---------------------------------------------------------------------------------------------------


@pytest.fixture
def marked(lines: list[dict[str, Any]]) -> list[str]:
    """The ids; the first is good by ann, the second bad by ann and good by bob, the third has a labelled step."""
    ids = [line["id"] for line in lines]
    file = MarksFile(Path("run"))
    file.add("portal", ids[0], "good", author="ann")
    file.add("portal", ids[1], "bad", author="ann")
    file.add("portal", ids[1], "good", author="bob")
    file.add("portal", ids[2], "label", author="bob", text="slow", message=1)
    return ids


@pytest.mark.parametrize(
    ("options", "places"),
    [
        (["--mark", "good"], {0, 1}),
        (["--mark", "good", "--no-mark", "bad"], {0}),
        (["--mark", "bad", "--mark", "label"], {1, 2}),
        (["--mark", "good", "--author", "bob"], {1}),
        (["--author", "bob"], {1, 2}),
        (["--label", "slow"], {2}),
        (["--label", "slow", "--author", "ann"], set()),
        (["--no-mark", "bad", "--author", "bob"], set(range(8))),
    ],
)
def test_exports_select_by_marks_of_people(
    marked: list[str], rollout: Command, options: list[str], places: set[int]
) -> None:
    assert set(exported(rollout, *options)) == {marked[place] for place in places}


def test_show_selects_by_marks_of_people(marked: list[str], rollout: Command) -> None:
    assert good(rollout("show", "run", "--mark", "bad")).startswith(marked[1])
    assert good(rollout("show", "run", "--label", "slow", "--random")).startswith(marked[2])
    several = good(rollout("show", "run", "--no-mark", "bad", "--no-mark", "label", "--first", "9"))
    assert not any(f"\n{marked[place]} ─" in f"\n{several}" for place in (1, 2))
    assert several.count(" end: ") + several.count("\nend: ") == 6
    done = rollout("show", "run", "--mark", "verdict")
    assert (done.code, "no trajectory marked verdict by people" in done.err) == (2, True)


def test_a_kind_that_does_not_exist_is_refused_with_the_option_for_marks_of_runs(
    marked: list[str], rollout: Command
) -> None:
    for command in (["export", "run", "--format", "trl"], ["show", "run"], ["train-data", "run", "-o", "rows"]):
        done = rollout(*command, "--mark", "tool_error")
        assert done.code == 2
        assert "there are good, bad, note, label, verdict" in done.err
        assert "--with-mark" in done.err


def test_marks_are_not_looked_for_where_there_is_no_run(made: Path, marked: list[str], rollout: Command) -> None:
    done = rollout("export", str(made / "portal.jsonl"), "--format", "trl", "--mark", "good", "--run", "run")
    assert done.code == 2
    assert "marks of people are kept in run directories; name the run directory" in done.err


# ---- data --------------------------------------------------------------------------------------------------------


def test_filter_drops_what_is_marked_bad_and_masks_a_step_and_exports_do_so(
    lines: list[dict[str, Any]], rollout: Command
) -> None:
    first, second = lines[0], next(line for line in lines[1:] if line["metadata"]["generations"] > 2)
    step = next(place for place, message in enumerate(second["messages"]) if message["role"] == "assistant")
    file = MarksFile(Path("run"))
    file.add("portal", first["id"], "bad", author="ann", text="invents")
    file.add("portal", second["id"], "bad", author="ann", message=step)
    told = json.loads(good(rollout("filter", "run", "--filter", "person", "--json")))
    (count,) = (each for each in told["filters"] if each["trajectories"])
    assert (count["filter"], count["trajectories"], count["turns"], count["decided"]) == ("person", 2, 1, 2)
    records = {record["id"]: record for record in read_lines(Path("run/filters.jsonl"))}
    assert (records[first["id"]]["verdict"], records[second["id"]]["masked_messages"]) == ("drop", [step])
    good(rollout("export", "run", "--format", "openai", "--filters", "-o", "rows.jsonl"))
    rows = read_lines(Path("rows.jsonl"))
    assert len(rows) == len(lines) - 1
    assert sum(message.get("weight") == 0 for row in rows for message in row["messages"]) == 1


def test_who_marks_after_filtering_is_told_to_filter_again(lines: list[dict[str, Any]], rollout: Command) -> None:
    commands = [
        ["export", "run", "--format", "openai", "--filters", "-o", "rows.jsonl"],
        ["train-data", "run", "--filters", "--form", "sft", "--format", "jsonl", "-o", "data"],
    ]
    good(rollout("mark", "run", lines[0]["id"], "bad"))
    good(rollout("filter", "run"))
    assert not any("filter again" in good(rollout(*command)) for command in commands)
    good(rollout("mark", "run", "--remove", "1"))
    assert all("run: people marked trajectories after `rollout filter`" in good(rollout(*each)) for each in commands)


def test_a_verdict_is_the_reward_of_training_data_and_counts_as_a_score(
    lines: list[dict[str, Any]], rollout: Command
) -> None:
    first, second = (line["id"] for line in lines if line["task_id"] == lines[0]["task_id"])
    file = MarksFile(Path("run"))
    file.add("portal", first, "verdict", author="ann", value=0.25)
    file.add("portal", second, "verdict", author="ann", value=0.75)
    options = ["--reward", "score:person", "--text", "--format", "jsonl", "--param", "scale=none"]
    good(rollout("train-data", "run", "-o", "data", *options))
    rewards = {row["trajectory_id"]: row["reward"] for row in read_lines(Path("data/prefix_merge.jsonl"))}
    assert rewards == {first: 0.25, second: 0.75}
    assert exported(rollout, "--min-score", "person=0.5") == [second]
    done = rollout("train-data", "run", "-o", "few", *options, "--mark", "good")
    assert (done.code, "not marked good" in done.err) == (2, True)


def test_an_exporter_of_ones_own_gets_the_marks(
    marked: list[str], rollout: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_marks.py").write_text(
        "from rollout.trajectories.exports.exporter import JsonLinesExporter\n"
        "class Marked(JsonLinesExporter):\n"
        "    def convert(self, example):\n"
        "        return {'id': example.id, 'marks': example.metadata.get('person_marks'),\n"
        "                'kinds': [mark.kind for mark in example.person_marks]}\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    good(rollout("export", "run", "--format", "own_marks:Marked", "-o", "rows.jsonl"))
    rows = {row["id"]: row for row in read_lines(Path("rows.jsonl"))}
    assert rows[marked[1]]["kinds"] == ["bad", "good"]
    assert [(mark["author"], mark["kind"]) for mark in rows[marked[1]]["marks"]] == [("ann", "bad"), ("bob", "good")]
    assert rows[marked[3]] == {"id": marked[3], "marks": None, "kinds": []}


def test_built_in_formats_and_labels_are_the_same_with_and_without_marks(
    lines: list[dict[str, Any]], rollout: Command
) -> None:
    def written() -> list[bytes]:
        files = []
        for command in (
            ["export", "run", "--format", "trl"],
            ["export", "run", "--format", "add_key"],
            ["label", "run"],
        ):
            good(rollout(*command, "-o", "rows.jsonl"))
            files.append(Path("rows.jsonl").read_bytes())
        return files

    before = written()
    MarksFile(Path("run")).add("portal", lines[0]["id"], "verdict", author="ann", value=0)
    assert written() == before


# ---- the run directory -------------------------------------------------------------------------------------------


def test_damaged_marks_stop_what_needs_them_and_nothing_else(lines: list[dict[str, Any]], rollout: Command) -> None:
    Path("run", MARKS).write_bytes(b"\0" * 9000)
    for needs in (
        ["show", "run"],
        ["export", "run", "--format", "trl"],
        ["filter", "run", "--dry-run"],
        ["mark", "run"],
    ):
        done = rollout(*needs)
        assert (done.code, "run/marks.db: the marks are damaged" in done.err) == (2, True), needs
    for works in (["ls", "."], ["stats", "run"], ["tree", "run", lines[0]["task_id"]], ["diff", "run", "run"]):
        good(rollout(*works))
    good(rollout("score", "run"))
    told = good(rollout("recover", "run", "-o", "new"))
    assert "marks.db is damaged: 0 marks of people could be read" in told


def test_recover_says_that_marks_were_copied(lines: list[dict[str, Any]], rollout: Command) -> None:
    good(rollout("mark", "run", lines[0]["id"], "good"))
    assert "1 mark of people was copied" in good(rollout("recover", "run", "-o", "new"))
    assert "✎" in good(rollout("show", "new", lines[0]["id"]))


def test_a_new_start_moves_marks_aside_and_clean_says_that_it_would_remove_them(rollout: Command) -> None:
    path = str(write_yaml(Path("c.yml"), {**config(Path.cwd(), limit=1, samples=1), "run_dir": "runs/portal"}))
    good(rollout("run", path))
    (line,) = read_lines(Path("portal.jsonl"))
    good(rollout("mark", "portal", line["id"], "good", "--author", "ann"))
    good(rollout("run", path, "--resume"))
    assert "✎ ann: good" in good(rollout("mark", "portal"))
    good(rollout("run", path, "--no-resume"))
    assert good(rollout("mark", "portal")) == "no marks\n"
    (aside,) = (each for each in Path("runs").iterdir() if each.name != "portal")
    assert "✎ ann: good" in good(rollout("mark", str(aside)))
    listed = rollout("clean", "runs")
    assert "with marks of people" in listed.out
    assert aside.is_dir()
    good(rollout("clean", "runs", "--yes"))
    assert not aside.exists()
