"""`rollout train-data`, from real runs: what is in the files, what is left out, and why."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.cli import main
from rollout.core.task import Task
from rollout.core.world import World
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.score import Score
from rollout.trajectories.token_view import view_tokens
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.engine.test_trees import tree_config
from tests.trajectories.rows.made import save_tokenizer

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra rollout-engine[train]")
DATA = Path("data")
RULES = [
    {"when": {"model": "agent", "step": 0}, "reply": {"reasoning": "turn {turn}: a tool", "call": "any"}},
    {"when": {"model": "agent", "step": 1}, "reply": {"reasoning": "turn {turn}: words", "content": "Done {turn}."}},
]


class EveryOther:
    """Says that every attempt with an even number solved its task."""

    name = "whim"
    is_advisory = False

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score:
        number = int(trajectory.id.partition("~")[2] or 0)
        return Score("whim", float(number % 2 == 0))


def train_data(*arguments: str, expect: int = 0) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "run", "-o", "data", *arguments])
    assert ended.value.code == expect


def rows(form: str = "prefix_merge") -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(DATA / f"{form}.parquet").to_pylist()
    return table


def about(form: str = "prefix_merge") -> dict[str, Any]:
    told: dict[str, Any] = json.loads((DATA / f"{form}.about.json").read_text())
    return told


async def run_with_ids(rule: str = "keep_all", record: Path | None = None, **dataset: Any) -> None:
    """Two tasks, four attempts each, two turns with a call in each, with token ids."""
    script: dict[str, Any] = {"rules": RULES, "user_turns": 2}
    if record is not None:
        script["record"] = record
    tasks = write_tasks(Path("tasks.jsonl"), "First.", "Second.")
    async with StubServer(script) as server:
        keys = {
            "user": {"model": "user"},
            "max_turns": 9,
            "samples": 4,
            "agent": {"model": "agent", "reasoning": rule},
            "scoring": {"custom": ["tests.trajectories.rows.test_training_data:EveryOther"], "decide": ["whim"]},
        }
        config = stub_config(server.url, tasks, **{**keys, **dataset})
        config["models"]["agent"]["token_ids"] = True
        await roll_out(config)


@pytest.mark.parametrize(
    ("rule", "begins"),
    [
        ("keep_all", ["start"]),
        ("keep_tool_turns", ["start"]),
        ("clear_on_user_turn", ["start", "reasoning"]),
        ("drop", ["start", "reasoning", "reasoning", "reasoning"]),
    ],
)
async def test_rows_are_the_segments_of_what_was_sent_and_sampled(rule: str, begins: list[str]) -> None:
    await run_with_ids(rule)
    train_data()
    made = rows()
    assert about()["kept"] == 8
    with open_reader(Path("run")) as reader:
        for line in read_lines(Path("out.jsonl")):
            mine = [row for row in made if row["trajectory_id"] == line["id"]]
            assert [row["begins"] for row in mine] == begins
            segments = view_tokens(reader.whole_path("data", line["id"])).segments
            assert [row["input_ids"] for row in mine] == [list(segment.ids) for segment in segments]
            assert [row["loss_mask"] for row in mine] == [segment.loss_mask for segment in segments]
            for row, segment in zip(mine, segments, strict=True):
                assert row["exact"] is True
                assert row["attention_mask"] == [1] * len(row["input_ids"])
                for mask, label, token, logprob, known in zip(
                    row["loss_mask"], row["labels"], row["input_ids"], row["logprobs"], segment.logprobs, strict=True
                ):
                    assert label == (token if mask else -100)
                    assert logprob == (pytest.approx(known) if mask else 0)
    told = Counter(row["begins"] for row in made if row["begins"] != "start")
    assert about()["notes"] == {f"rows begun by a break: {cause}": number for cause, number in told.items()}


async def test_every_row_of_an_attempt_has_the_advantage_of_the_attempt_in_its_group() -> None:
    await run_with_ids("drop")
    train_data("--advantage", "grpo", "--param", "scale=none", "--format", "parquet", "--format", "pt")
    for row in rows():
        number = int(row["trajectory_id"].partition("~")[2] or 0)
        assert row["group_id"] == row["task_id"] in ("task0", "task1")
        assert row["reward"] == float(number % 2 == 0)
        expected = 0.5 if number % 2 == 0 else -0.5
        assert row["advantages"] == [expected * mask for mask in row["loss_mask"]]
        assert (row["rows"], row["weight_versions"]) == (4, [None])
    torch = pytest.importorskip("torch")
    loaded = torch.load(DATA / "prefix_merge.pt", weights_only=True)
    kinds = {"input_ids": torch.int64, "labels": torch.int64, "attention_mask": torch.bool, "loss_mask": torch.bool}
    kinds |= {"logprobs": torch.float32, "advantages": torch.float32}
    for row, known in zip(loaded["rows"], rows(), strict=True):
        assert list(row) == list(known)
        for name, value in row.items():
            if name in kinds:
                assert (value.dtype, value.dim()) == (kinds[name], 1)
                assert value.tolist() == known[name]
            else:
                assert value == known[name]
    row["input_ids"][0] = 7
    assert row["labels"].tolist() == known["labels"], "columns of one storage do not lie upon each other"


@pytest.mark.parametrize("form", ["tree", "process", "sft", "memory", "verl"])
async def test_every_form_is_loaded_by_torch_without_running_code(form: str) -> None:
    torch = pytest.importorskip("torch")
    await run_with_ids(samples=1, strategy={"name": "random_tree"})
    train_data("--form", form, "--format", "pt", "--format", "jsonl")
    plain = [json.loads(line) for line in (DATA / f"{form}.jsonl").read_text().splitlines()]
    loaded = torch.load(DATA / f"{form}.pt", weights_only=True)["rows"]
    assert loaded
    for row, known in zip(loaded, plain, strict=True):
        assert list(row) == list(known)
        for name, value in row.items():
            is_tensor = isinstance(value, torch.Tensor)
            assert (value.tolist() if is_tensor else value) == (
                pytest.approx(known[name]) if is_tensor else known[name]
            )


async def test_values_of_nodes_take_the_surprisals_that_the_journal_has(capsys: pytest.CaptureFixture[str]) -> None:
    await run_with_ids()
    train_data("--advantage", "at2po")
    for row in rows():
        learnt = {value for value, mask in zip(row["advantages"], row["loss_mask"], strict=True) if mask}
        assert {value > 0 for value in learnt} == {row["success"]}
    Path("bare").mkdir()
    Path("out.jsonl").rename("bare/out.jsonl")
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "bare/out.jsonl", "--run", "run", "-o", "data", "--advantage", "at2po"])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert "entropies" in told.out + told.err, "a line has no logprobs"


async def test_each_step_by_itself_has_the_request_that_was_sent() -> None:
    record = Path("requests.jsonl")
    await run_with_ids("clear_on_user_turn", record)
    train_data("--form", "per_step", "--text", "--advantage", "rloo")
    sent = [json.loads(line) for line in record.read_bytes().splitlines()]
    asked = [body for body in sent if body["model"] == "agent"]
    expected = Counter(json.dumps((body["messages"], body["tools"]), sort_keys=True) for body in asked)
    made = rows("per_step")
    found = Counter(
        json.dumps(([json.loads(message) for message in row["prompt"]], json.loads(row["tools"])), sort_keys=True)
        for row in made
    )
    assert found == expected, "key for key"
    answers = [json.loads(message) for row in made for message in row["completion"]]
    assert len(answers) == len(made)
    calls = [call for answer in answers for call in answer.get("tool_calls", ())]
    assert {answer["role"] for answer in answers} == {"assistant"}
    assert {type(call["function"]["arguments"]) for call in calls} == {str}, "as the model wrote them"
    assert {len(row["advantages"]) for row in made} == {1}
    train_data("--form", "per_step")
    assert all(sum(row["loss_mask"]) == len(row["input_ids"]) - row["prompt_length"] for row in rows("per_step"))


async def test_what_failed_or_was_cut_is_left_out_and_counted() -> None:
    tasks = write_tasks(Path("tasks.jsonl"), "stuck", "break", *["quick"] * 6)
    stuck = {
        "when": {"contains": "stuck", "step": 0},
        "reply": {"tool_calls": [{"name": "slow", "arguments": {"text": "x"}}]},
    }
    refused = {"when": {"contains": "break"}, "fault": {"kind": "status", "status": 401, "times": "always"}}
    async with StubServer({"rules": [stuck, refused, {"reply": {"content": "Done."}}]}) as server:
        config = stub_config(server.url, tasks, tools=["tests.tools:slow"])
        config["models"]["agent"]["token_ids"] = True
        await roll_out({**config, "timeouts": {"tool": 3600}, "tail": {"threshold": 0.7, "grace": 0}})
    train_data("--advantage", "none")
    assert about()["read"] == 8
    assert about()["left_out"] == {"status cut": 1, "status failed": 1}
    assert {row["status"] for row in rows()} == {"completed"}
    train_data(expect=2)
    assert len(rows()) == 6, "nobody scored them, so there is no advantage; what was there is not replaced by nothing"


def change_marks(**changed: dict[str, Any]) -> None:
    """Change what `rollout filter` found of some attempts at the first task, as other rules would."""
    path = Path("run/filters.jsonl")
    records = {record["id"]: record for record in read_lines(path)}
    for name, more in changed.items():
        records[name.replace("_", "~")] |= more
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records.values()))


async def test_marks_of_filters_are_kept_to_when_asked_for() -> None:
    await run_with_ids()
    train_data("--filters", expect=2)
    with pytest.raises(SystemExit) as ended:
        main(["filter", "run"])
    assert ended.value.code == 0
    train_data("--filters", "--advantage", "none")
    messages = read_lines(Path("out.jsonl"))[0]["messages"]
    answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    kept: dict[str, Any] = {"verdict": "keep", "why": [], "masked": [], "end": None, "counts_in_group": True}
    change_marks(**{f"task{task}" + (f"_{number}" if number else ""): kept for task in (0, 1) for number in range(4)})
    change_marks(
        task0={"verdict": "drop", "why": ["void_turns"]},
        task0_1={"verdict": "mask", "masked": [1]},
        task0_2={"verdict": "truncate", "end": answers[2]},
    )
    train_data("--filters", "--param", "scale=none")
    by_id = {row["trajectory_id"]: row for row in rows()}
    assert about()["left_out"] == {"filter void_turns": 1}
    assert by_id["task0~3"]["advantages"][-1] == -0.5, "what was dropped still counts in its group"
    whole, masked, short = (_learnt_spans(by_id[name]) for name in ("task0~3", "task0~1", "task0~2"))
    assert len(whole) == 4
    assert masked == [whole[0], *whole[2:]]
    assert short == whole[:2]
    assert by_id["task0~2"]["last_step"] == 1
    train_data("--filters", "--form", "memory", "--text")
    assert [row["first_step"] for row in rows("memory") if row["trajectory_id"] == "task0~2"] == [0, 1]
    train_data("--filters", "--text")
    assert [row["begins"] for row in rows() if row["trajectory_id"] == "task0~1"] == ["start", "masked"]
    change_marks(task0={"counts_in_group": False}, task0_2={"counts_in_group": False})
    train_data("--filters", "--param", "scale=none")
    by_id = {row["trajectory_id"]: row for row in rows()}
    assert by_id["task0~3"]["advantages"][-1] == 0, "only failures are left to compare it with"


def _learnt_spans(row: dict[str, Any]) -> list[list[int]]:
    spans: list[list[int]] = []
    before = 0
    for mask, token in zip(row["loss_mask"], row["input_ids"], strict=True):
        if mask and not before:
            spans.append([])
        if mask:
            spans[-1].append(token)
        before = mask
    return spans


async def test_a_tree_of_a_run_has_each_shared_step_once(tmp_path: Path) -> None:
    await roll_out(tree_config())
    train_data("--form", "tree", expect=2)
    train_data("--form", "tree", "--tokenizer", str(save_tokenizer(tmp_path / "tokenizer")), "--advantage", "tree_rl")
    train_data("--tokenizer", "tokenizer", "--advantage", "tree_rl")
    trees, by_id = rows("tree"), {row["trajectory_id"]: row for row in rows()}
    assert len(trees) == 4
    for tree in trees:
        assert tree["exact"] is False
        assert tree["node_weights"][0] == 1, "the prompt is everybody's"
        assert len(tree["row_ends"]) == len(tree["trajectory_ids"]) == 10
        starts = [sum(tree["node_lengths"][:node]) for node in range(len(tree["node_lengths"]))]
        for trajectory, end in zip(tree["row_trajectories"], tree["row_ends"], strict=True):
            ids: list[int] = []
            mask: list[int] = []
            node = end
            while node >= 0:
                place = slice(starts[node], starts[node] + tree["node_lengths"][node])
                ids, mask = tree["input_ids"][place] + ids, tree["loss_mask"][place] + mask
                node = tree["node_parents"][node]
            row = by_id[tree["trajectory_ids"][trajectory]]
            assert (ids, mask) == (row["input_ids"], row["loss_mask"])
    whole = sum(len(row["input_ids"]) for row in by_id.values())
    shared = sum(len(tree["input_ids"]) for tree in trees)
    assert shared < whole / 5, "ten attempts at a task share its long prompt"


async def test_pairs_best_attempts_and_process_rows_of_a_tree() -> None:
    await roll_out(tree_config())
    lines = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    train_data("--form", "sft")
    best = rows("sft")
    solved = {line["task_id"] for line in lines.values() if line["success"]}
    assert {row["task_id"] for row in best} == solved
    for row in best:
        steps = [
            line["metadata"]["generations"]
            for line in lines.values()
            if line["task_id"] == row["task_id"] and line["success"]
        ]
        assert lines[row["trajectory_id"]]["metadata"]["generations"] == min(steps)
    train_data("--form", "preferences")
    pairs = rows("preferences")
    assert pairs
    for pair in pairs:
        chosen, rejected = lines[pair["chosen_id"]], lines[pair["rejected_id"]]
        asked = [json.loads(message)["content"] for message in pair["prompt"]][1:]
        for line in (chosen, rejected):
            assert [message["content"] for message in line["messages"][: len(asked)]] == asked
        assert pair["chosen_value"] > pair["rejected_value"]
        assert pair["chosen"] != pair["rejected"]
    train_data("--form", "process")
    for row in rows("process"):
        line = lines[row["trajectory_id"]]
        assert len(row["completions"]) == len(row["labels"]) == len(row["values"]) == line["metadata"]["generations"]
        assert row["labels"] == [value > 0 for value in row["values"]]
        if line["success"]:
            assert all(row["labels"]), "a step on the way to a success can lead to one"


async def test_several_runs_are_not_compared_with_each_other() -> None:
    await run_with_ids()
    Path("run").rename("other")
    Path("out.jsonl").rename("out2.jsonl")
    await run_with_ids()
    Path("other_out").mkdir()
    Path("out2.jsonl").rename("other_out/out.jsonl")
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "run", "other_out/out.jsonl", "--run", "other", "-o", "data", "--text"])
    assert ended.value.code == 0
    made = rows()
    assert len({row["id"] for row in made}) == 16
    assert {row["group_id"] for row in made} == {"task0", "task1", "task0@other_out", "task1@other_out"}


def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lines.jsonl").write_text("")
    for arguments, text in (
        (["--format", "csv"], "there is no csv"),
        (["--form", "tree", "--text"], "--text"),
        (["--memory", "nobody", "--form", "memory"], "no memory builder"),
        (["--tokenizer", "nowhere"], "expected a folder"),
        (["--param", "x"], "KEY=VALUE"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["train-data", "lines.jsonl", "-o", "data", *arguments])
        assert ended.value.code == 2
        told = capsys.readouterr()
        assert text in " ".join((told.out + told.err).split()), arguments
