"""`rollout ls`, `show`, `tree`, `stats`, `diff` and `clean`, as a person uses them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rollout import Environment, Request, World, arun
from rollout.config.schema import Config
from rollout.pipelines.run import open_run
from rollout.store.run_dir import FILTERS
from tests.conftest import Command, read_lines, roll_out, write_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
ERRORS = {"malformed_call": 0.03, "unknown_tool": 0.08, "void_turn": 0.03, "wrong_argument": 0.1, "stop_early": 0.1}


def portal(output: str = "outputs/portal.jsonl", **changed: Any) -> dict[str, Any]:
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": {"model": "builtin/oracle", "enable_thinking": True, "params": ERRORS},
        "user": "builtin/user",
        "max_turns": 20,
        "limit": 10,
        "samples": 2,
        "output_path": output,
        **changed,
    }
    return {"seed": 7, "mock_servers": {"isolation": "none"}, "datasets": {"portal": dataset}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has errors, and another one of the same tasks with another seed."""
    folder = tmp_path_factory.mktemp("looked-at")
    for name, seed in (("first", 7), ("second", 11)):
        config = {**portal(str(folder / "outputs" / f"{name}.jsonl")), "seed": seed}
        asyncio.run(roll_out(config, folder / "runs" / name))
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """These runs below the current folder, at 80 columns."""
    shutil.copytree(made / "runs", tmp_path / "runs")
    monkeypatch.setenv("COLUMNS", "80")
    return Path("runs")


@pytest.fixture
def narrow(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "80")
    return rollout


def lines_of(made: Path, name: str = "first") -> list[dict[str, Any]]:
    return read_lines(made / "outputs" / f"{name}.jsonl")


def unsolved(made: Path) -> dict[str, Any]:
    return next(line for line in lines_of(made) if line["metadata"]["scored"] and not line["success"])


def test_show_tells_the_whole_story_of_a_trajectory(runs: Path, narrow: Command, made: Path) -> None:
    line = unsolved(made)
    shown = narrow("show", "first", line["id"], "--full").out
    flat = " ".join(shown.split())
    assert shown.startswith(f"{line['id']} ")
    assert "not solved · completed: the user said that everything is done (user_stop)" in flat
    assert line["messages"][0]["content"].split(".")[0] in flat
    for call in (call for message in line["messages"] for call in message.get("tool_calls") or ()):
        assert f"▸ {call['function']['name']}" in shown
    failed = [score for score in line["metadata"]["scores"] if score["value"] == 0 and score.get("decides")]
    assert failed
    assert all(f"✗ {score['name']}" in shown for score in failed)
    assert "seed " in shown
    assert "thinks: " in shown


def test_show_says_which_rows_and_calls_are_missing(runs: Path, narrow: Command, made: Path) -> None:
    line = next(
        line
        for line in lines_of(made)
        if any(score["name"] == "state" and score["value"] == 0 for score in line["metadata"]["scores"])
    )
    shown = " ".join(narrow("show", "first", line["id"]).out.split())
    scores = {score["name"]: score for score in line["metadata"]["scores"]}
    (table, *_) = scores["state"]["evidence"]["tables"]
    assert f"{table}:" in shown
    assert re.search(r"≠|- missing|\+ extra", shown)
    assert f"not called: {scores['actions']['evidence']['unmatched'][0]['name']}(" in shown


def test_show_marks_errors_where_they_happened(runs: Path, narrow: Command, made: Path) -> None:
    line = next(line for line in lines_of(made) if line["metadata"]["tool_errors"])
    shown = narrow("show", "first", line["id"]).out
    for kind in line["metadata"]["tool_errors"]:
        assert f"✗ error: {kind}" in shown


class Cave(World):
    """Shows a text before the agent acts."""

    def setup(self) -> str:
        return "It is dark."


async def test_show_calls_what_a_world_shows_an_observation(narrow: Command) -> None:
    async def explorer(request: Request) -> str:
        return "I leave."

    await arun(Environment(tasks=["Look around."], world=Cave), model=explorer, run_dir="runs/cave")
    assert "observation\n  It is dark.\n" in narrow("show", "cave", "0").out


def test_show_fits_the_width_and_has_no_colours_where_it_is_no_terminal(runs: Path, narrow: Command) -> None:
    shown = narrow("show", "first", "--first", "20").out
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.endswith("  ")]


def test_show_cuts_long_results_and_says_how_to_see_them(runs: Path, narrow: Command) -> None:
    cut, full = (narrow("show", "first", "--first", "20", *option).out for option in ((), ("--full",)))
    assert re.search(r"… \d+ more lines?", cut)
    assert "--full" in cut
    assert not re.search(r"… \d+ more lines?", full)
    assert len(full) > len(cut)


def test_show_finds_by_id_prefix_task_and_verdict(runs: Path, rollout: Command, made: Path) -> None:
    line = lines_of(made)[0]
    task = line["task_id"]
    assert rollout("show", "first", f"{task}~1").out.startswith(f"{task}~1 ")
    assert rollout("show", "first", task[:7]).out.startswith(f"{task} ")
    assert f"other attempts: {task}~1" in rollout("show", "first", task).out
    for option in ((), ("--random",)):
        shown = rollout("show", "first", "--unsolved", *option).out
        assert "✗ not solved" in shown
    assert rollout("show", "first", "--first", "3").out.count("agent builtin/oracle") == 3


def test_show_of_what_is_not_there_says_what_there_is(runs: Path, rollout: Command) -> None:
    cases = {
        ("show", "frist"): "did you mean 'first'?",
        ("show", "first", "nothing"): "no trajectory and no task has the id 'nothing'",
        ("show", "first", "--status", "done"): "there are: completed, truncated, cut, failed",
        ("show", "first", "--status", "filtered"): "no trajectory of status filtered",
        ("show", "first", "--status", "failed"): "no trajectory of status failed",
        ("show", "first", "-d", "portals"): "there are: portal",
        ("tree", "first", "nothing"): "has the id 'nothing'",
        ("stats", "first", "-d", "portals"): "there are: portal",
        ("diff", "first", "third"): "there is no run of this name",
        ("ls", "elsewhere"): "elsewhere: is not a folder",
    }
    for arguments, text in cases.items():
        done = rollout(*arguments)
        assert done.code == 2, arguments
        assert text in done.err, arguments
        assert "Traceback" not in done.err


def test_beginning_of_several_ids_names_them(runs: Path, rollout: Command, made: Path) -> None:
    tasks = sorted({line["task_id"] for line in lines_of(made)})
    first = next(task[0] for task in tasks if sum(other[0] == task[0] for other in tasks) > 1)
    done = rollout("show", "first", first)
    assert done.code == 2
    assert all(task in done.err for task in tasks if task[0] == first)


def test_show_reads_files_of_trajectories(runs: Path, rollout: Command, made: Path) -> None:
    line = unsolved(made)
    shown = rollout("show", str(made / "outputs" / "first.jsonl"), line["id"]).out
    assert shown.startswith(f"{line['id']} ")
    assert "✗ not solved" in shown
    assert rollout("show", str(made / "outputs" / "first.jsonl"), "--unsolved").out.startswith(f"{line['id']} ")


def test_show_tells_what_filters_marked(runs: Path, rollout: Command) -> None:
    assert rollout("filter", "runs/first", "--filter", "unknown_tools=drop_trajectory").code == 0
    record = next(each for each in read_lines(runs / "first" / FILTERS) if each["verdict"] == "drop")
    shown = rollout("show", "first", record["id"]).out
    assert "filters: drop (unknown_tools)" in shown
    assert "filter unknown_tools, drop_trajectory: " in shown


def test_show_of_a_failed_attempt_says_what_broke(rollout: Command) -> None:
    config = portal(agent={"model": "gone"}, limit=2, samples=1)
    config |= {"models": {"gone": {"api_base": "http://127.0.0.1:9/v1"}}, "retries": {"attempts": 1}}
    asyncio.run(roll_out(config, Path("runs/down")))
    shown = rollout("show", "down", "--status", "failed").out
    assert "! failed" in shown
    assert "model error: gone: connection to http://127.0.0.1:9/v1/chat/completions failed" in " ".join(shown.split())
    stats = rollout("stats", "down").out
    assert "failures by cause" in stats
    assert re.search(r"2 × model: gone: connection to", stats)
    assert re.search(r"down .* 0/2, 2 failed", rollout("ls").out)


def test_a_run_lists_the_datasets_that_it_rolled_out_not_all_of_its_configuration(rollout: Command) -> None:
    both = portal(limit=1, samples=1)
    both["datasets"]["other"] = {**both["datasets"]["portal"], "output_path": "outputs/other.jsonl"}
    write_yaml(Path("both.yml"), {**both, "run_dir": "runs/one"})
    assert rollout("run", "both.yml", "-d", "portal").code == 0
    (listed,) = json.loads(rollout("ls", "runs", "--json").out)["runs"]
    assert listed["datasets"] == ["portal"]


def test_show_of_a_web_trajectory_has_address_and_screenshot_of_each_step(rollout: Command) -> None:
    run = FIXTURES / "web" / "run"
    shown = rollout("show", str(run), "shop-matcha-bowl-price").out
    assert '▸ type(element=2, submit=true, text="matcha bowl")' in shown
    assert "→ http://shop.test/p/MG-206  Matcha Bowl - Fern & Kettle" in shown
    assert f"image: {run}/blobs/da7184a975f1b425.png" in shown
    assert "Elements:" not in shown
    assert "Elements:" in rollout("show", str(run), "shop-matcha-bowl-price", "--full").out


@pytest.mark.parametrize("name", ["finished", "half", "web"])
def test_runs_of_earlier_versions_can_be_looked_at(name: str, rollout: Command, tmp_path: Path) -> None:
    run = tmp_path / "runs" / name
    shutil.copytree(FIXTURES / name / "run", run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "-shm" not in path.name}
    assert rollout("show", str(run), "--first", "50").code == 0
    assert rollout("stats", str(run)).code == 0
    assert rollout("diff", str(run), str(run)).code == 0
    listed = json.loads(rollout("ls", "runs", "--json").out)
    assert [each["state"] for each in listed["runs"]] == ["unfinished" if name == "half" else "finished"]
    assert all(path.read_bytes() == content for path, content in before.items()), "looking changes nothing"


def test_tree_draws_what_attempts_share_once(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = {"name": "random_tree", "params": {"trees": 2, "expansions": 2}}
    config = portal(limit=1, samples=1, strategy=strategy)
    asyncio.run(roll_out(config, Path("runs/branching")))
    task = read_lines(Path("outputs/portal.jsonl"))[0]["task_id"]
    monkeypatch.setenv("COLUMNS", "80")
    drawn = rollout("tree", "branching", task[:6]).out.splitlines()
    attempts = len(read_lines(Path("outputs/portal.jsonl")))
    assert drawn[0] == f"{task}: {attempts} attempts"
    assert sum(bool(re.search(r"\[\d+\] [✓✗] ", line)) for line in drawn) == attempts
    assert sum("user: " in line for line in drawn[:2]) == 1
    assert max(map(len, drawn)) <= 80


def test_ls_shows_model_progress_and_outcome_and_fits(runs: Path, narrow: Command, made: Path) -> None:
    shown = narrow("ls").out
    solved = sum(line["success"] for line in lines_of(made))
    assert re.search(rf"first +\d\d-\d\d \d\d:\d\d .*builtin/oracle +20/20 +{solved} ", shown)
    assert max(len(line) for line in shown.splitlines()) <= 80
    found = json.loads(narrow("ls", "--json").out)
    first = next(run for run in found["runs"] if run["name"] == "first")
    assert (first["planned"], first["finished"], first["solved"], first["state"]) == (20, 20, solved, "finished")
    assert first["path"] == "runs/first"


def test_ls_marks_paused_and_damaged_runs(runs: Path, rollout: Command) -> None:
    config = portal()
    asyncio.run(roll_out(config, Path("runs/paused"), pause_when=lambda progress: progress.finished >= 3))
    (runs / "second" / "journal.db").write_bytes(b"no journal" * 1000)
    found = {run["name"]: run for run in json.loads(rollout("ls", "--json").out)["runs"]}
    assert found["paused"]["state"] == "unfinished"
    assert found["paused"]["finished"] < found["paused"]["planned"] == 20
    assert found["second"]["state"] == "damaged"
    shown = rollout("ls").out
    assert "20 unfinished" in shown
    assert "journal is damaged" in " ".join(shown.split())


async def test_run_that_is_going_on_can_be_looked_at(rollout: Command) -> None:
    config = Config.model_validate(portal())
    async with open_run(config, Path("runs/live"), resume=False) as opened:
        (before,) = json.loads(rollout("ls", "--json").out)["runs"]
        assert (before["state"], before["finished"], before["planned"]) == ("running", 0, 20)
        await opened.engine.run()
        assert rollout("show", "live").code == 0
        assert rollout("stats", "live").code == 0
    (after,) = json.loads(rollout("ls", "--json").out)["runs"]
    assert (after["state"], after["finished"]) == ("finished", 20)


def test_stats_are_those_of_the_lines(runs: Path, narrow: Command, made: Path) -> None:
    lines = lines_of(made)
    found = json.loads(narrow("stats", "first", "--json").out)
    total = found["total"]
    calls = [call["function"]["name"] for line in lines for m in line["messages"] for call in m.get("tool_calls") or ()]
    assert total["attempts"] == len(lines)
    assert total["turns"]["mean"] == pytest.approx(sum(line["metadata"]["total_turns"] for line in lines) / len(lines))
    assert total["tool_calls"]["most"] == max(line["metadata"]["tool_call_count"] for line in lines)
    assert sum(each["count"] for each in total["steps"]["bins"]) == len(lines)
    assert {tool["name"]: tool["calls"] for tool in total["tools"]} == {name: calls.count(name) for name in calls}
    errors = sum(sum(line["metadata"]["tool_errors"].values()) for line in lines)
    assert sum(tool["errors"] for tool in total["tools"]) == errors
    shown = narrow("stats", "first").out
    assert "user_stop" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_diff_names_what_changed_and_where_attempts_part(runs: Path, narrow: Command, made: Path) -> None:
    def shares(name: str) -> dict[str, int]:
        tasks: dict[str, int] = {}
        for line in lines_of(made, name):
            tasks[line["task_id"]] = tasks.get(line["task_id"], 0) + line["success"]
        return tasks

    ours, theirs = shares("first"), shares("second")
    found = json.loads(narrow("diff", "first", "second", "--all", "--json").out)
    changed = {flip["task_id"]: flip["change"] for flip in found["flips"]}
    assert changed == {
        task: "gained" if theirs[task] > ours[task] else "lost" for task in ours if ours[task] != theirs[task]
    }
    assert changed, "the fixture has tasks that changed"
    assert (found["shared"], found["gained"] + found["lost"] + found["same"]) == (10, 10)
    parting = next(flip["parting"] for flip in found["flips"] if flip["parting"])
    assert parting["step"] >= 1
    assert parting["first"] != parting["second"]
    shown = narrow("diff", "first", "second").out
    assert "parts at step" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_diff_of_a_run_with_itself_finds_nothing(runs: Path, rollout: Command) -> None:
    found = json.loads(rollout("diff", "first", "first", "--json").out)
    assert (found["flips"], found["same"], found["only_first"], found["only_second"]) == ([], 10, [], [])


def test_score_prints_its_tables_as_json(runs: Path, rollout: Command, made: Path) -> None:
    found = json.loads(rollout("score", "runs/first", "--json").out)
    portal = found["datasets"]["portal"]
    assert (portal["trajectories"], portal["changed"]) == (20, 0)
    assert portal["solved"] == sum(line["success"] for line in lines_of(made))


def test_clean_removes_old_runs_with_their_outputs_and_nothing_else(rollout: Command) -> None:
    config = portal(limit=2, samples=1)
    for _ in range(2):
        asyncio.run(roll_out(config, Path("runs/small"), resume=False))
    stamped = Path("runs/kept.20260101-120000")
    asyncio.run(roll_out(portal("outputs/kept.jsonl", limit=1), stamped))
    foreign = Path("runs/notes.20260101-120000")
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    lookalike = Path("outputs/portal.jsonl.20200101-000000")
    lookalike.write_text("of another time")
    (old,) = [path for path in Path("runs").iterdir() if re.fullmatch(r"small\.\d{8}-\d{6}", path.name)]
    assert "1 old run moved aside; rollout clean removes it" in rollout("ls").out

    asked = rollout("clean")
    assert asked.code == 2, "nobody is there to be asked"
    assert "--yes" in asked.out
    assert old.exists()

    done = rollout("clean", "--yes")
    assert done.code == 0, done.err
    assert str(old) in done.out
    assert sorted(path.name for path in Path("runs").iterdir()) == [stamped.name, foreign.name, "small"]
    assert sorted(path.name for path in Path("outputs").iterdir()) == ["kept.jsonl", "portal.jsonl", lookalike.name]
    assert rollout("clean", "--yes").out == "runs: no run was moved aside\n"


def test_clean_leaves_an_old_run_that_somebody_writes(rollout: Command) -> None:
    from rollout.store.run_dir import lock_run

    config = portal(limit=1, samples=1)
    for _ in range(2):
        asyncio.run(roll_out(config, Path("runs/small"), resume=False))
    (old,) = [path for path in Path("runs").iterdir() if path.name != "small"]
    held = lock_run(old)
    try:
        done = rollout("clean", "--yes")
    finally:
        import os

        os.close(held)
    assert done.code == 1
    assert "another process is running this run" in done.err
    assert old.exists()


@pytest.mark.parametrize("command", ["ls", "show", "tree", "stats", "diff", "clean"])
def test_help_has_an_example_and_the_exit_codes(command: str, rollout: Command) -> None:
    done = rollout(command, "-h")
    assert done.code == 0
    assert re.search(rf"^ +rollout {command}", done.out, re.MULTILINE)
    assert "Exit codes: " in done.out


@pytest.mark.parametrize(
    "words",
    [
        ["score", "first"],
        ["filter", "first", "--dry-run"],
        ["label", "first"],
        ["export", "first", "--format", "trl"],
        ["train-data", "first", "-o", "data", "--form", "sft"],
        ["recover", "first"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_reads_a_run_takes_its_name(words: list[str], runs: Path, rollout: Command) -> None:
    named = rollout(*words)
    assert named.code == 0, named.err
    shutil.rmtree("runs/first-recovered", ignore_errors=True)
    by_path = rollout(*["runs/first" if word == "first" else word for word in words])
    assert named.out == by_path.out


def test_the_name_of_a_run_that_is_not_there_is_answered_with_those_that_are(runs: Path, rollout: Command) -> None:
    done = rollout("score", "frist")
    assert done.code == 2
    assert "did you mean 'first'?" in done.err
