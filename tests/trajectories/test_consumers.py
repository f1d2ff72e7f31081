"""Every format is read back with the library that will read it: datasets, transformers, openai, pyarrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.messages import message_to_json
from rollout.pipelines.export import Wish, export_sources
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.trajectories.exports.exporter import find_exporter
from rollout.trajectories.merging import parse_splits
from tests.conftest import read_lines, skip_without
from tests.trajectories.lines import CONVERSATION, SYSTEM, TOOLS, labelled, line, write

skip_without("datasets", "needs the extra rollout-engine[train]")
pytestmark = pytest.mark.export

TALK = CONVERSATION[:1] + CONVERSATION[6:]
QWEN_LIKE = """
{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}
{%- for message in messages %}<|{{ message.role }}|>
{%- if message.reasoning_content is string %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{- message.content if message.content is string else '' }}
{%- if 'tool_calls' in message %}{% for call in message.tool_calls %}
{{- '<call>' }}{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}{{ '</call>' }}
{%- endfor %}{% endif %}
{%- if message.role == 'tool' %}({{ message.name }}){% endif %}
{%- endfor %}"""


def export(format_: str, **wish: Any) -> Path:
    write(Path("in.jsonl"), labelled(line("a"), line("b", TALK, success=False)))
    exporter = find_exporter(format_)
    out = Path(f"out{exporter.suffix}")
    tally = export_sources(find_sources([Path("in.jsonl")]), Prompts(), Wish(exporter, **wish), out)
    assert (tally.read, tally.kept) == (2, 2)
    return out


def load(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file as `datasets` reads it, with no network and nothing kept at home."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    datasets.disable_progress_bars()
    kind = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))


@pytest.mark.parametrize("format_", ["add_key", "sharegpt", "trl", "parquet"])
def test_datasets_gives_back_what_was_written(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(export(format_), tmp_path, monkeypatch)
    assert len(loaded) == 2
    if format_ == "parquet":
        assert loaded.to_list() == read_lines(export("trl"))
    else:
        assert loaded.to_list() == read_lines(Path("out.jsonl"))


@pytest.mark.parametrize("format_", ["trl", "parquet"])
def test_chat_template_renders_what_datasets_loaded(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    record = load(export(format_), tmp_path, monkeypatch)[0]
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, chat_template=QWEN_LIKE)
    text = tokenizer.apply_chat_template(record["messages"], tools=record["tools"], tokenize=False)
    assert text.startswith("<tools>" + "".join(json.dumps(tool, ensure_ascii=False) for tool in TOOLS) + "</tools>")
    assert f"<|system|>{SYSTEM}<|user|>" in text
    first, second, _ = (call for message in CONVERSATION for call in message.tool_calls)
    written = [f'<call>{{"name": "{call.name}", "arguments": {call.arguments}}}</call>' for call in (first, second)]
    assert "<|assistant|><think>First I look.</think>" + "".join(written) + "<|tool|>" in text
    assert "null" not in text.replace("[1, null, ", ""), "no key that was not there came back as null"
    assert '<|tool|>{"loans": [7]}(find_loans)' in text


def test_turns_are_prompt_and_completion_for_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(export("parquet", per_turn=True), tmp_path, monkeypatch)
    assert loaded["id"] == ["a#1", "b#1"]
    assert [message["role"] for message in loaded[0]["prompt"]] == ["system", "user"]
    assert [message["role"] for message in loaded[0]["completion"]] == [
        "assistant", "tool", "tool", "assistant", "tool", "assistant"
    ]  # fmt: skip


def test_pyarrow_reads_row_groups_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr("rollout.trajectories.exports.parquet.ROWS_IN_GROUP", 1)
    file = pq.ParquetFile(export("parquet"))
    assert file.metadata.num_row_groups == 2
    rows = file.read().to_pylist()
    assert [row["success"] for row in rows] == [True, False]
    assert [json.loads(message) for message in rows[0]["messages"]] == read_lines(export("trl"))[0]["messages"]
    assert json.loads(rows[0]["tools"]) == TOOLS


def test_split_without_tasks_is_an_empty_parquet_file() -> None:
    import pyarrow.parquet as pq

    export("parquet", splits=parse_splits("train=0.999999999,rest=0.000000001"))
    assert pq.read_table("out.rest.parquet").num_rows == 0
    assert pq.read_table("out.train.parquet").num_rows == 2


def test_openai_library_accepts_the_fine_tuning_records() -> None:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from pydantic import ConfigDict, TypeAdapter, with_config
    from typing_extensions import TypedDict

    @with_config(ConfigDict(extra="forbid"))
    class Record(TypedDict):
        messages: list[ChatCompletionMessageParam]
        tools: list[ChatCompletionToolParam]

    for record in read_lines(export("openai")):
        checked = TypeAdapter(Record).validate_python(record)
        # What a type does not know is dropped by validation, and a service would refuse it.
        assert TypeAdapter(Record).dump_python(checked, mode="json") == record
        assert record["messages"][-1]["role"] == "assistant"
        assert record["tools"] == TOOLS
        open_calls: set[str] = set()
        for message in record["messages"]:
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
            else:
                assert not open_calls, "every call is answered before anything else is said"
            open_calls |= {call["id"] for call in message.get("tool_calls", [])}
            assert all(json.loads(call["function"]["arguments"]) is not None for call in message.get("tool_calls", []))


def test_openai_weights_say_that_earlier_turns_are_not_learnt_again() -> None:
    two = (*CONVERSATION[:7], *TALK)
    write(Path("in.jsonl"), labelled(line("a", two)))
    export_sources(
        find_sources([Path("in.jsonl")]), Prompts(), Wish(find_exporter("openai"), per_turn=True), Path("out.jsonl")
    )
    first, second = read_lines(Path("out.jsonl"))
    assert [message.get("weight") for message in first["messages"] if message["role"] == "assistant"] == [None] * 3
    weights = [message.get("weight") for message in second["messages"] if message["role"] == "assistant"]
    assert weights == [0, 0, 0, None]


def test_add_key_has_exactly_the_keys_of_the_seed() -> None:
    record, _ = read_lines(export("add_key"))
    assert list(record) == ["messages", "id", "data_source", "use_cot", "tools"]
    assert (record["data_source"], record["use_cot"], record["tools"]) == ("agent", True, TOOLS)
    keys = ["role", "content", "reasoning_content", "tool_calls", "tool_call_id"]
    assert all(list(message) == keys for message in record["messages"])
    saved = [{key: value for key, value in message.items() if value is not None} for message in record["messages"]]
    assert saved[0] == {"role": "system", "content": SYSTEM}
    for message, original in zip(saved[1:], CONVERSATION, strict=True):
        assert {"content": None, **message} == {"content": None, **message_to_json(original)}
