"""What `rollout train-data` writes is read by those it is for: datasets, TRL's trainers, verl's columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.cli import main
from rollout.core.messages import Message
from tests.conftest import skip_without
from tests.trajectories.lines import labelled, line, write
from tests.trajectories.rows.made import asked, said, save_tokenizer, told

skip_without("datasets", "needs the extra rollout-engine[train]")
pytestmark = pytest.mark.export

SIMPLE = (asked("Count."), said("I count.", call="x", thought="Hm."), told("x", "observed: 3"))
ANSWERS = {"t1": "Three.", "t1~1": "Four.", "t1~2": "Three.", "t2": "Five.", "t2~1": "Six."}
FORMS = ["prefix_merge", "per_step", "memory", "tree", "sft", "preferences", "process", "verl"]


def attempt(name: str, answer: str) -> bytes:
    task, _, number = name.partition("~")
    solved = answer in ("Three.", "Five.")
    more = {"scored": True, "group": task, "branch": {"number": int(number or 0), "reason": "init"}}
    messages: tuple[Message, ...] = (*SIMPLE, said(answer))
    view = {"opening": 1, "tool_format": "native"}
    return line(name, messages, task=task, success=solved, reasoning={"rule": "keep_all"}, view=view, **more)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Five attempts at two tasks, and a tokenizer in `tokenizer`."""
    save_tokenizer(Path("tokenizer"))
    return write(Path("lines.jsonl"), labelled(*(attempt(name, answer) for name, answer in ANSWERS.items())))


def make(source: Path, form: str, *arguments: str) -> Path:
    with pytest.raises(SystemExit) as ended:
        main(["train-data", str(source), "-o", "data", "--form", form, *arguments])
    assert ended.value.code == 0
    return Path("data") / f"{form}.parquet"


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    import datasets

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    return datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir="cache")


@pytest.mark.parametrize("form", FORMS)
def test_datasets_reads_every_form(form: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--tokenizer", "tokenizer"] if form == "tree" else []
    loaded = load(make(source, form, *arguments, "--format", "parquet", "--format", "jsonl"), monkeypatch)
    written = [json.loads(text) for text in Path(f"data/{form}.jsonl").read_text().splitlines()]
    assert loaded.to_list() == [_single(record) for record in written]
    assert loaded.column_names == list(json.loads(Path(f"data/{form}.about.json").read_text())["columns"])


def _single(record: dict[str, Any]) -> dict[str, Any]:
    """Logprobs and advantages are single-precision numbers in Parquet."""
    import numpy as np

    for name in ("logprobs", "advantages"):
        if record.get(name) is not None:
            record[name] = [float(np.float32(value)) for value in record[name]]
    return record


# ---- TRL -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def trl(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch", reason="needs torch")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return pytest.importorskip("trl", reason="needs trl")


def tiny_model(tokenizer: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    return LlamaForCausalLM(config)


def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained("tokenizer", local_files_only=True)


SETTINGS: dict[str, Any] = {
    "output_dir": "trained",
    "max_steps": 1,
    "per_device_train_batch_size": 2,
    "report_to": [],
    "use_cpu": True,
    "bf16": False,
    "save_strategy": "no",
    "max_length": None,
    "disable_tqdm": True,
}


def learnt(words: Any, labels: list[int]) -> list[str]:
    """The stretches of text that have a loss."""
    parts: list[list[int]] = [[]]
    for label in labels:
        if label >= 0:
            parts[-1].append(label)
        elif parts[-1]:
            parts.append([])
    return [words.decode(part) for part in parts if part]


@pytest.mark.parametrize("form", ["sft", "per_step", "memory"])
def test_trl_learns_answers_and_no_observation_from_text(
    form: str, source: Path, trl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tokenizer()
    settings = trl.SFTConfig(**SETTINGS, assistant_only_loss=form == "sft")
    loaded = load(make(source, form), monkeypatch)
    trainer = trl.SFTTrainer(tiny_model(words), settings, train_dataset=loaded, processing_class=words)
    texts = [part for record in trainer.train_dataset for part in learnt(words, record["labels"])]
    ends = {f"{answer}<|im_end|>" for answer in ANSWERS.values()}
    assert all(text.rstrip("\n") in ends or text.startswith("<think>Hm.</think>I count.<tool_call>") for text in texts)
    assert not any("observed" in text for text in texts)
    assert len(texts) == (4 if form == "sft" else 10)
    trainer.train()


def test_trl_takes_rows_of_ids_with_their_labels(source: Path, trl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tokenizer()
    loaded = load(make(source, "prefix_merge", "--tokenizer", "tokenizer"), monkeypatch)
    trainer = trl.SFTTrainer(tiny_model(words), trl.SFTConfig(**SETTINGS), train_dataset=loaded, processing_class=words)
    for record, row in zip(trainer.train_dataset, loaded, strict=True):
        assert record["input_ids"] == row["input_ids"]
        assert record["labels"] == row["labels"]
        assert not any("observed" in text for text in learnt(words, record["labels"]))
    trainer.train()


def test_trl_prefers_what_was_chosen(source: Path, trl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tokenizer()
    loaded = load(make(source, "preferences"), monkeypatch)
    settings = trl.DPOConfig(**SETTINGS)
    trainer = trl.DPOTrainer(
        tiny_model(words), tiny_model(words), args=settings, train_dataset=loaded, processing_class=words
    )
    columns = trainer.train_dataset.column_names
    assert len(trainer.train_dataset) == 2, columns
    pairs = {
        (words.decode(record["chosen_ids"]), words.decode(record["rejected_ids"])) for record in trainer.train_dataset
    }
    assert {(one.strip(), other.strip()) for one, other in pairs} == {
        ("Three.<|im_end|>", "Four.<|im_end|>"),
        ("Five.<|im_end|>", "Six.<|im_end|>"),
    }
    trainer.train()


def test_process_rows_have_the_columns_of_stepwise_supervision(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for record in load(make(source, "process"), monkeypatch):
        assert isinstance(record["prompt"], str)
        assert len(record["completions"]) == len(record["labels"]) == 2
        assert all(isinstance(text, str) for text in record["completions"])
        assert all(isinstance(label, bool) for label in record["labels"])


# ---- verl ------------------------------------------------------------------------------------------------------------


def test_prompts_for_verl_have_its_columns_as_plain_structs(source: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(make(source, "verl"))
    assert schema.names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    assert schema.field("prompt").type == pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    assert {field.name for field in schema.field("reward_model").type} == {"style", "ground_truth"}
    first, second = pq.read_table("data/verl.parquet").to_pylist()
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert (first["extra_info"]["index"], second["extra_info"]["index"]) == (0, 1)
    assert first["extra_info"]["mean_reward"] == pytest.approx(2 / 3)


def test_rows_make_a_batch_of_verl(source: Path) -> None:
    np = pytest.importorskip("numpy")
    import pyarrow.parquet as pq

    from rollout.trajectories.rows.verl import verl_batch

    rows = pq.read_table(make(source, "prefix_merge", "--tokenizer", "tokenizer")).to_pylist()
    batch = verl_batch(rows, 258)
    words = tokenizer()
    for place, row in enumerate(rows):
        sampled = batch["responses"][place][batch["response_mask"][place] == 1].tolist()
        assert "observed" not in words.decode(sampled)
        assert words.decode(sampled).endswith(ANSWERS[row["trajectory_id"]] + "<|im_end|>")
        assert batch["token_level_scores"][place].sum() == row["reward"]
        assert np.array_equal(
            batch["input_ids"][place], np.concatenate([batch["prompts"][place], batch["responses"][place]])
        )
    assert (batch["response_mask"].sum(axis=1) > 0).all()
