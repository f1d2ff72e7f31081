"""Ids made of text by a real tokenizer and a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.pipelines.export import ExportTally
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.breaks import break_in_ids
from rollout.trajectories.rows.row_maker import RowMaker
from rollout.trajectories.rows.stretches import prefix_merge
from rollout.trajectories.rows.token_rows import token_row
from rollout.trajectories.rows.tokenising import ChatTokenizer
from tests.conftest import skip_without
from tests.trajectories.lines import TOOLS, conversations
from tests.trajectories.rows.made import asked, attempted, said, save_tokenizer, told

skip_without("transformers", "needs the extra rollout-engine[train]")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Any]:
    folders = {keeps: tmp_path_factory.mktemp("tokenizer") for keeps in (True, False)}
    return {
        keeps: ChatTokenizer.read(save_tokenizer(folder, keeps_thoughts=keeps)) for keeps, folder in folders.items()
    }


def decoded(tokenizer: ChatTokenizer, ids: Any) -> str:
    return str(tokenizer._tokenizer.decode(list(ids)))


@given(conversations)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_what_is_learnt_is_what_the_template_writes_for_answers(
    tokenizers: dict[bool, Any], messages: tuple[Message, ...]
) -> None:
    tokenizer = tokenizers[True]
    exchanges = [
        msgspec.structs.replace(exchange, tools=TOOLS) for exchange in attempted("a", list(messages)).exchanges
    ]
    encoded = [tokenizer.encode(exchange) for exchange in exchanges]
    (stretch,) = prefix_merge(encoded, break_in_ids)
    row = token_row("a", stretch)
    assert not row.is_exact
    begin, learnt = 0, []
    for span in row.spans:
        text = decoded(tokenizer, row.ids[begin : begin + span.length])
        if span.is_learnt:
            learnt.append(text)
        else:
            assert text.endswith("<|im_start|>assistant\n"), "context ends where the assistant is to speak"
        begin += span.length
    answers = [message for message in messages if message.role == "assistant"]
    assert len(learnt) == len(answers)
    for text, answer in zip(learnt, answers, strict=True):
        assert text.endswith("<|im_end|>"), "the end of its turn is learnt, and nothing behind it"
        assert text.startswith(f"<think>{answer.reasoning}</think>" if answer.reasoning else answer.content or "")
        assert text.count("<tool_call>") >= len(answer.tool_calls)


def test_a_template_that_drops_reasoning_splits_rows_and_says_so(tokenizers: dict[bool, Any]) -> None:
    messages = [asked(), said(call="a", thought="Hm."), told("a"), said("Done."), asked("More?"), said("No.")]
    encoded = [tokenizers[False].encode(exchange) for exchange in attempted("a", messages).exchanges]
    begins = [stretch.begins for stretch in prefix_merge(encoded, break_in_ids)]
    assert begins == ["start", "calls"], "the thought of the first answer is no longer there when the second is given"


def test_an_answer_that_was_cut_off_is_not_learnt_with_an_end_it_never_had(tokenizers: dict[bool, Any]) -> None:
    one = attempted("a", [asked(), said(call="a"), told("a"), said("I was abou")])
    exchanges = [*one.exchanges[:-1], msgspec.structs.replace(one.exchanges[-1], finish_reason="length")]
    tally = ExportTally()
    (row,) = RowMaker(True, tokenizers[True]).records([msgspec.structs.replace(one, exchanges=exchanges)], tally)
    learnt = [token for token, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask]
    assert "count" in decoded(tokenizers[True], learnt)
    assert "abou" not in decoded(tokenizers[True], learnt)
    assert tally.notes == {"answers cut off by length: not learnt": 1}


def test_what_a_template_cannot_show_is_refused(tokenizers: dict[bool, Any]) -> None:
    import transformers

    tokenizer = tokenizers[True]._tokenizer
    strict = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, eos_token="<|im_end|>")
    (exchange,) = attempted("a", [asked(), said("Yes.")]).exchanges
    strict.chat_template = "{% if add_generation_prompt %}before{% else %}after{% endif %}"
    with pytest.raises(Unfit, match="once it is answered"):
        ChatTokenizer(strict).encode(exchange)
    strict.chat_template = "{{ raise_exception('no assistants here') }}"
    with pytest.raises(Unfit, match="no assistants here"):
        ChatTokenizer(strict).encode(exchange)
    strict.chat_template = None
    with pytest.raises(ConfigError, match="no chat template"):
        ChatTokenizer(strict)
    with pytest.raises(ConfigError, match="expected a folder"):
        ChatTokenizer.read(Path("nowhere"))
